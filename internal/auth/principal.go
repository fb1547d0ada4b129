package auth

import (
	"crypto/sha256"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Scope is a kind of thing that a principal may do. None includes another.
type Scope string

// The scopes.
const (
	Submit Scope = "submit" // hand in work
	Read   Scope = "read"   // see executions: read, list, follow
	Resume Scope = "resume" // act on executions that are there: answer, send events, ask to stop
	Worker Scope = "worker" // take work and carry it out
	Admin  Scope = "admin"  // see how the server fares, erase, and act for every owner
)

// Scopes are all there are.
func Scopes() []Scope { return []Scope{Submit, Read, Resume, Worker, Admin} }

// Principal is who makes a request.
type Principal struct {
	// Owner is whose executions the principal submits, and, but for [Principal.Unlimited], the only ones that it may see.
	Owner string
	// Scopes are what it may do.
	Scopes []Scope
	// Deployments are the only ones that it may use, with their executions. None: all.
	Deployments []string
	// Name tells principals apart in histories, without a secret: "key:" and the id of an API key, or "jwt:" and the owner that a
	// token names. Empty: nobody asked who it is.
	Name string

	execution string // the only one that it may see, whatever its owner; empty: see the rest
	account   Account
}

// Anyone is the principal of every request where nobody has to say who they are.
func Anyone() Principal {
	return Principal{Scopes: Scopes(), account: accountOf("anyone", "")}
}

// May reports whether the principal has a scope.
func (p Principal) May(s Scope) bool { return slices.Contains(p.Scopes, s) }

// Unlimited reports whether the principal may see the executions of every owner, and submit for any.
func (p Principal) Unlimited() bool { return p.Owner == "" || p.May(Admin) }

// MayUse reports whether the principal may use a deployment and see its executions.
func (p Principal) MayUse(deployment string) bool {
	return len(p.Deployments) == 0 || slices.Contains(p.Deployments, deployment)
}

// MaySee reports whether the principal may see an execution at all. Owner and deployment have a say besides.
func (p Principal) MaySee(id string) bool { return p.execution == "" || p.execution == id }

// Account is what a principal's use is counted under, without saying who it is: one an owner, and one a key without an owner.
type Account [16]byte

// Account is what the principal's use is counted under.
func (p Principal) Account() Account { return p.account }

func accountOf(kind, name string) Account {
	sum := sha256.Sum256([]byte(kind + "\x00" + name))
	return Account(sum[:16])
}

// ValidOwner reports whether a text can name an owner: 1 to 255 characters, none of them a control character.
func ValidOwner(text string) bool {
	return text != "" && utf8.ValidString(text) && utf8.RuneCountInString(text) <= 255 && !strings.ContainsFunc(text, unicode.IsControl)
}
