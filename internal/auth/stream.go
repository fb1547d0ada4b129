package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// MinStreamSecret is how many bytes the secret of stream tokens has at least.
const MinStreamSecret = 32

// StreamTokens gives out tokens that open the stream of one execution for a while, for browsers: an EventSource sends no
// headers. Every process with the same secret accepts them; nothing is stored.
type StreamTokens struct{ secret []byte }

// NewStreamTokens signs with a secret of at least [MinStreamSecret] bytes.
func NewStreamTokens(secret []byte) *StreamTokens { return &StreamTokens{secret} }

const (
	streamPrefix = "wds_"
	streamDomain = "windrow stream token 1" // keeps the signatures apart from any other use of the secret
	expiryBytes  = 8
	signedBytes  = expiryBytes + len(Account{})
)

// Issue makes a token for the stream of an execution. What it is used for counts under the account.
func (s *StreamTokens) Issue(id string, account Account, expires time.Time) string {
	payload := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	payload = append(payload, account[:]...)
	return streamPrefix + base64.RawURLEncoding.EncodeToString(append(payload, s.sign(id, payload)...))
}

// Principal tells who opens the stream of an execution by a token. Every error is an [*Error]. The principal may read, and
// nothing says whose execution it is: the token is good for this one alone.
func (s *StreamTokens) Principal(token, id string) (Principal, error) {
	text, _ := strings.CutPrefix(token, streamPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != signedBytes+sha256.Size || !hmac.Equal(raw[signedBytes:], s.sign(id, raw[:signedBytes])) {
		return Principal{}, invalid("The stream token is not one for this execution.")
	}
	if !time.Now().Before(time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)) {
		return Principal{}, invalid("The stream token has expired.")
	}
	return Principal{Scopes: []Scope{Read}, execution: id, account: Account(raw[expiryBytes:signedBytes])}, nil
}

// sign covers the id with what the token says; an id has no zero byte.
func (s *StreamTokens) sign(id string, payload []byte) []byte {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(streamDomain + "\x00" + id + "\x00"))
	mac.Write(payload)
	return mac.Sum(nil)
}
