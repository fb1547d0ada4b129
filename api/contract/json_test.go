package contract

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Every byte of a client's JSON goes through the types of the contract unchanged, both ways.
func TestClientJSONIsUnchanged(t *testing.T) {
	t.Parallel()
	values := []string{
		"3889108265204450030", "-0", "1e400", "0.1e1", "[]", "{}", `{"b":1,"a":[{}]}`, `"<&>"`, "\"\u2028\u2029\"",
		`"\u0000\u003c\/"`, `"\ud83d\ude00"`, "null", `{"":""}`, `[1.0,1]`, strings.Repeat("9", 2000),
	}
	for _, value := range values {
		written, err := Encode(ChunkEvent{Attempt: 1, Payload: JSON(value)})
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if want := `{"attempt":1,"payload":` + value + `}`; string(written) != want {
			t.Errorf("wrote %s, want %s", written, want)
		}
		var read ChunkEvent
		if err := json.Unmarshal(written, &read); err != nil {
			t.Fatal(err)
		}
		if string(read.Payload) != value {
			t.Errorf("read %s, want %s", read.Payload, value)
		}
	}
}

// Times have milliseconds, in UTC, whatever they were made of.
func TestTimestamp(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 2*60*60)
	tests := map[string]time.Time{
		`"2026-03-01T09:30:00.000Z"`: time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC),
		`"2026-03-01T09:30:00.120Z"`: time.Date(2026, 3, 1, 11, 30, 0, 120_999_999, zone),
		`"0001-01-01T00:00:00.000Z"`: {},
	}
	for want, at := range tests {
		got, err := Encode(Timestamp{at})
		if err != nil || string(got) != want {
			t.Errorf("wrote %s (%v), want %s", got, err, want)
		}
		var back Timestamp
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("read back %v (%v), want %v", back, err, at)
		}
	}
	if _, err := Encode(Timestamp{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("wrote a year that RFC 3339 has no form for")
	}
}

// What is not there is null where the contract asks for the member, and left out where it doesn't.
func TestAbsentMembers(t *testing.T) {
	t.Parallel()
	got, err := Encode(Wait{})
	if want := `{"deadline":null,"expected_input_schema":null,"kind":"","message":""}`; err != nil || string(got) != want {
		t.Errorf("wrote %s (%v), want %s", got, err, want)
	}
	got, err = Encode(Problem{})
	if want := `{"code":"","status":0,"title":"","type":""}`; err != nil || string(got) != want {
		t.Errorf("wrote %s (%v), want %s", got, err, want)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Encode(ChunkEvent{Payload: JSON("{")}); err == nil {
		t.Error("wrote what is not JSON")
	}
}
