package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/windrow-run/windrow/api/contract"
	"github.com/windrow-run/windrow/internal/auth"
	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/httpapi/problem"
	"github.com/windrow-run/windrow/internal/runtime"
	"github.com/windrow-run/windrow/internal/store"
)

// bulkRun is one request of a run, which goes over as many as it takes. What lies between them is the client's to keep: the
// confirmation, which a dry run gives at its end and a real run begins with, and a cursor.
type bulkRun struct {
	runtime.BulkRequest
	kind    string
	asOf    int64 // when the dry run began: what was submitted later is not touched. Milliseconds
	counted int64 // executions that the dry run counted
	total   int64 // executions that earlier requests of this run took on
	// confirmed is the confirmation of a real run; filters are what it and a cursor go with.
	confirmed string
	filters   []byte
}

// flag returns a member that is true or false, or false where it is not there.
func (m members) flag(name string) (bool, *problem.Problem) {
	switch value, ok := m[name]; {
	case !ok, string(value) == "false":
		return false, nil
	case string(value) == "true":
		return true, nil
	}
	return false, invalidMember(name, "type", "must be true or false")
}

// within leads the pointers of a problem into a member of the body.
func within(name string, p *problem.Problem) *problem.Problem {
	for i := range p.Errors {
		p.Errors[i].Pointer = "/" + name + p.Errors[i].Pointer
	}
	return p
}

// narrow applies filters that came as JSON, by the rules of a listing.
func (m members) narrow(ask *store.ListRequest, p auth.Principal) *problem.Problem {
	texts := map[string]*string{}
	for name, most := range map[string]int{"deployment": maxNameBytes, "revision": maxRevisionLength, "owner": maxOwnerLength} {
		if m[name] == nil {
			continue
		}
		text, refused := m.text(name, most)
		if refused != nil {
			return refused
		}
		texts[name] = &text
	}
	var statuses *[]contract.ExecutionStatus
	if value, ok := m["status"]; ok {
		if err := json.Unmarshal(value, &statuses); err != nil || statuses == nil || len(*statuses) == 0 {
			return invalidMember("status", "type", "must be an array of statuses")
		}
		if len(*statuses) > maxStatuses {
			return invalidMember("status", "maxItems", "must have at most 6 statuses").WithLimit(maxStatuses)
		}
	}
	labels, refused := m.labels("labels")
	if refused != nil {
		return refused
	}
	if labels != "" {
		ask.Labels = strings.Split(string(labels), "\n")
	}
	for name, bound := range map[string]*int64{"created_from": &ask.CreatedFrom, "created_before": &ask.CreatedBefore} {
		if m[name] == nil {
			continue
		}
		if *bound, refused = m.time(name); refused != nil {
			return refused
		}
		*bound = max(*bound, 1) // 0 is no bound
	}
	for _, filter := range []func() *problem.Problem{
		func() *problem.Problem { return ofDeployment(ask, p, texts["deployment"]) },
		func() *problem.Problem { return ofRevision(ask, texts["revision"]) },
		func() *problem.Problem { return ofStatuses(ask, statuses) },
		func() *problem.Problem { return ofOwner(ask, p, texts["owner"]) },
	} {
		if refused := filter(); refused != nil {
			return refused
		}
	}
	return nil
}

// suited keeps the statuses that an operation can be done to.
func suited(ask *store.ListRequest, suits []execution.Status) *problem.Problem {
	switch {
	case suits == nil:
		return nil
	case ask.Statuses == nil:
		ask.Statuses = suits
		return nil
	}
	for _, s := range ask.Statuses {
		if !slices.Contains(suits, s) {
			return within("filter", invalidMember("status", "enum", "must not have "+string(s)+": this can't be done to such executions"))
		}
	}
	return nil
}

// place finds where the request stands in its run.
func (run *bulkRun) place(m members, dry bool, now execution.Instant) *problem.Problem {
	filters := run.List
	filters.Scope.By = "" // another token of the same owner may go on
	run.filters = encode(filters)
	confirmation, refused := m.text("confirmation", maxBulkToken)
	if refused != nil {
		return refused
	}
	cursor, refused := m.text("cursor", maxBulkToken)
	switch {
	case refused != nil:
		return refused
	case dry && confirmation != "":
		return invalidMember("confirmation", "not", "must not be given to a dry run")
	case !dry && confirmation == "":
		return invalidMember("confirmation", "required", `must be what a dry run with the same filter answered: begin with "dry_run": true`)
	case dry:
		run.asOf = now.Millis() // never ahead of the store: what a run makes is not part of it
	default:
		numbers, _, ok := run.open("confirmation", confirmation, 2)
		if !ok {
			return invalidMember("confirmation", "pattern", "must be what a dry run with the same filter answered: begin anew")
		}
		run.asOf, run.counted = numbers[0], numbers[1]
	}
	if cursor != "" {
		numbers, id, ok := run.open("cursor"+confirmation, cursor, 3)
		if !ok {
			return problem.New(contract.ProblemCodeInvalidCursor, "The cursor is not one of a run with this filter: begin without one.")
		}
		run.asOf, run.total, run.List.After = numbers[0], numbers[1], store.Place{CreatedAt: numbers[2], ID: id}
	}
	if before := run.List.CreatedBefore; before == 0 || before > run.asOf {
		run.List.CreatedBefore = run.asOf
	}
	run.confirmed = confirmation
	run.Left = int(min(run.counted-run.total, math.MaxInt32))
	return nil
}

// maxBulkToken bounds a cursor or a confirmation, in characters.
const maxBulkToken = 100

func (run *bulkRun) confirmation(total int64) string {
	return run.seal("confirmation", "", run.asOf, total)
}

func (run *bulkRun) cursor(total int64, next store.Place) string {
	return run.seal("cursor"+run.confirmed, next.ID, run.asOf, total, next.CreatedAt)
}

// seal writes numbers and an id with a digest of them and of all that they go with, so that they go with nothing else. They give
// nobody more than the request itself does, so that nothing in them needs to be secret.
func (run *bulkRun) seal(purpose, id string, numbers ...int64) string {
	var data []byte
	for _, n := range numbers {
		data = binary.AppendUvarint(data, uint64(n))
	}
	data = append(data, id...)
	return base64.RawURLEncoding.EncodeToString(append(run.digest(purpose, data), data...))
}

func (run *bulkRun) open(purpose, token string, count int) (numbers []int64, id string, ok bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(data) < cursorDigestBytes || !bytes.Equal(data[:cursorDigestBytes], run.digest(purpose, data[cursorDigestBytes:])) {
		return nil, "", false
	}
	data = data[cursorDigestBytes:]
	for range count {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > execution.MaxInteger {
			return nil, "", false
		}
		numbers, data = append(numbers, int64(n)), data[size:]
	}
	return numbers, string(data), len(data) <= maxIDBytes
}

func (run *bulkRun) digest(purpose string, data []byte) []byte {
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(run.kind), []byte(purpose), run.filters, data} {
		sum.Write(binary.AppendUvarint(nil, uint64(len(part))))
		sum.Write(part)
	}
	return sum.Sum(nil)[:cursorDigestBytes]
}
