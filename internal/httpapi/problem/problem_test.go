package problem

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windrow-run/windrow/api/contract"
)

// statuses is the contract's list of codes with the status of each.
func statuses() map[contract.ProblemCode]int {
	return map[contract.ProblemCode]int{
		contract.ProblemCodeInvalidJSON:           400,
		contract.ProblemCodeInvalidRequest:        400,
		contract.ProblemCodeInvalidIdempotencyKey: 400,
		contract.ProblemCodeInvalidCursor:         400,
		contract.ProblemCodeNotFound:              404,
		contract.ProblemCodeUnknownDeployment:     404,
		contract.ProblemCodeNoSuchRoute:           404,
		contract.ProblemCodeMethodNotAllowed:      405,
		contract.ProblemCodeRequestTimeout:        408,
		contract.ProblemCodeNotWaiting:            409,
		contract.ProblemCodeWaitMoved:             409,
		contract.ProblemCodeTooLarge:              413,
		contract.ProblemCodeUnsupportedMediaType:  415,
		contract.ProblemCodeInvalidInput:          422,
		contract.ProblemCodeKeyReused:             422,
		contract.ProblemCodeHeadersTooLarge:       431,
		contract.ProblemCodeInternal:              500,
		contract.ProblemCodeStoredStateInvalid:    500,
		contract.ProblemCodeCapacityReached:       503,
		contract.ProblemCodeDraining:              503,
		contract.ProblemCodeStoreUnavailable:      503,
		contract.ProblemCodeUnconfirmed:           503,
		contract.ProblemCodeStreamInterrupted:     503,
	}
}

// Every code has its status, and a title that no other code has.
func TestCodes(t *testing.T) {
	t.Parallel()
	titles := map[string]contract.ProblemCode{}
	for code, status := range statuses() {
		p := New(code, "")
		if !code.Valid() || p.Status != status || p.Type != "https://windrow.run/problems/"+string(code) {
			t.Errorf("%s: %+v, want the status %d", code, p, status)
		}
		if other, ok := titles[p.Title]; ok {
			t.Errorf("%s has the title of %s", code, other)
		}
		titles[p.Title] = code
	}
	if p := New("made up", ""); p.Status != http.StatusInternalServerError {
		t.Errorf("an unknown code has the status %d", p.Status)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	w.Header().Set(RequestIDHeader, "r-1")
	w.Header().Set("Content-Type", "text/plain")
	offset := int64(0)
	New(contract.ProblemCodeTooLarge, "At most %d bytes.", 10).WithLimit(10).
		WithErrors(contract.ProblemError{Pointer: "/a", Rule: "r", Message: "<m>", Offset: &offset}).Write(w)
	want := `{"code":"too_large","detail":"At most 10 bytes.",` +
		`"errors":[{"message":"<m>","offset":0,"pointer":"/a","rule":"r"}],"instance":"urn:windrow:request:r-1","limit":10,` +
		`"status":413,"title":"The payload is too large","type":"https://windrow.run/problems/too_large"}`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if got := w.Header().Get("Content-Type"); w.Code != 413 || got != "application/problem+json" {
		t.Errorf("status %d, %s", w.Code, got)
	}
}

// The statuses that ask for a header have it.
func TestHeaders(t *testing.T) {
	t.Parallel()
	tests := map[contract.ProblemCode][2]string{
		contract.ProblemCodeDraining:             {"Retry-After", "1"},
		contract.ProblemCodeUnsupportedMediaType: {"Accept-Post", "application/json"},
	}
	for code, header := range tests {
		w := httptest.NewRecorder()
		New(code, "").Write(w)
		if got := w.Header().Get(header[0]); got != header[1] {
			t.Errorf("%s: %s is %q, want %q", code, header[0], got, header[1])
		}
	}
}

// A document is bounded, whatever is wrong with a request.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	p := New(contract.ProblemCodeInvalidInput, "").WithErrors(make([]contract.ProblemError, 100)...)
	w := httptest.NewRecorder()
	p.Write(w)
	var got contract.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Errors) != MaxErrors {
		t.Errorf("%d errors (%v), want %d", len(got.Errors), err, MaxErrors)
	}
}
