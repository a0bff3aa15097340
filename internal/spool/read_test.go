package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	now := time.Now().UTC()
	add := func(id string, age time.Duration, change func(*grapnel.Record)) {
		rec := record(id)
		rec.Time = now.Add(-age)
		change(rec)
		observe(t, s, rec)
	}
	add("old", 2*time.Hour, func(*grapnel.Record) {})
	add("gemini", 0, func(r *grapnel.Record) { r.Agent = "gemini-cli" })
	add("other", 0, func(r *grapnel.Record) { r.Session = "s2" })
	add("after", 0, func(r *grapnel.Record) { r.Event = grapnel.ToolAfter })
	add("none", 0, func(r *grapnel.Record) { r.Decision = grapnel.None })
	add("hooked", 0, func(r *grapnel.Record) { r.Hooks[0].Name = "fmt" })
	if err := s.keep(Entry{Late: true, Record: grapnel.Record{ID: "late", Time: now.Add(-2 * time.Hour), Agent: "a", Event: "native.late"}}); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		f    Filter
		want string
	}{
		"late": {Filter{Agent: "a"}, "late"}, // it has no decision

		"all":             {Filter{}, "old gemini other after none hooked late"},
		"since":           {Filter{Since: now.Add(-time.Hour)}, "gemini other after none hooked"},
		"agent":           {Filter{Agent: "gemini-cli"}, "gemini"},
		"session":         {Filter{Session: "s2"}, "other"},
		"event":           {Filter{Events: []grapnel.Kind{grapnel.ToolAfter, grapnel.ToolFailed}}, "after"},
		"decision":        {Filter{Decisions: []grapnel.Decision{grapnel.None}}, "none"},
		"would":           {Filter{Would: true}, "none"}, // in the others, another hook was stricter
		"hook":            {Filter{Hook: "fmt"}, "hooked"},
		"hook and source": {Filter{Hook: "user::fmt"}, "hooked"},
		"two at once":     {Filter{Agent: "gemini-cli", Session: "s2"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for e, err := range Read(dir, tt.f) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.ID)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("Read = %v, want %s", got, tt.want)
			}
		})
	}
}

func TestReadNothing(t *testing.T) {
	t.Parallel()
	if entries, problems := read(t, filepath.Join(t.TempDir(), "none")); entries != nil || problems != nil {
		t.Errorf("Read = %v, %v, want nothing", entries, problems)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if entries, problems := read(t, file); entries != nil || len(problems) != 1 {
		t.Errorf("Read = %v, %v, want an error", entries, problems)
	}
}

// Reading can stop in the middle.
func TestReadStops(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	observe(t, s, record("a"), record("b"))
	appendText(t, logFile(dir), "\nx")
	observe(t, s, record("c"))
	for stop := 1; stop <= 4; stop++ {
		n := 0
		for range Read(dir, Filter{}) { //nolint:errcheck // only the number of lines matters
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("stopped after %d, want %d", n, stop)
		}
	}
}

// A line is decoded as encoding/json does it, wherever its event is and whatever it contains.
func TestDecode(t *testing.T) {
	t.Parallel()
	const begin = `{"id":"a","time":"2026-03-04T05:06:07Z"`
	for _, line := range []string{
		begin + `}`,
		begin + `,"hooks":[{"name":"h","error":"\"input\":{"}],"ms":0.4,"input":{"kind":"tool.before","native":{"input":{"a":[1,"}"]}}}}`,
		begin + `,"input":{"a":1},"late":true}`,
		begin + `,"input":{"a":1},"input":{"a":2}}`,
		begin + `,"input":{"a":1},"Input":{"a":2}}`,
		begin + `,"Input":{"a":1},"input":{"a":2}}`,
		begin + `,"in\u0070ut":{"a":1}}`,
		begin + `,"input" : {"a":1} }`,
		begin + `, "input":{"a":1}}`,
		begin + `,"input":{"a":1}} `,
		begin + `,"input":null}`,
		begin + `,"input":7}`,
		begin + `,"input":{}}`,
		begin + `,"decision":"maybe","input":{}}`,
		begin + `,"input":{"a":}}`,
		begin + `,"input":{"a":01}}`,
		begin + `,"input":{"a":1}}}`,
		begin + `,"input":{"a":1}`,
		begin + `,,"input":{"a":1}}`,
		begin + `,"input":{"a":"\x"}}`,
		begin + `,"input":{"a":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}}`,
		`{"time":"2026-03-04T05:06:07Z","input":{"id":"a"}}`,
		`{"id":"","input":{"a":1}}`,
		`{"id":"a","input":{"a":1}}`,
		`{"id":`,
		`null`,
		``,
	} {
		var want struct {
			Entry
			Input json.RawMessage `json:"input"`
		}
		whole := json.Unmarshal([]byte(line), &want) == nil && want.ID != "" && !want.Time.IsZero()
		got, event, err := decode([]byte(line))
		if !whole {
			want.Entry, want.Input = Entry{}, nil
		}
		if diff := cmp.Diff(want.Entry, got); diff != "" || !bytes.Equal(event, want.Input) || (err == nil) != whole {
			t.Errorf("%.300s: event %.99s, want %.99s; %v (-want +got):\n%s", line, event, want.Input, err, diff)
		}
	}
}

// Lines that are not Records are reported with file and byte, and do not affect other lines.
func TestTornLines(t *testing.T) {
	t.Parallel()
	whole := string(mustJSON(t, Entry{Record: *record("x")}))
	tests := map[string]struct {
		lines []string // raw ones begin with a newline
		ids   string
		torn  int
	}{
		"cut":              {[]string{whole, "\n" + whole[:50]}, "x", 1},
		"cut in between":   {[]string{whole, "\n" + whole[:50], whole}, "x x", 1},
		"no checksum":      {[]string{"\n" + whole, whole}, "x", 1},
		"other JSON":       {[]string{"\n[]\n1", "{}", whole}, "x", 3},
		"binary":           {[]string{"\n\x00\xff", whole}, "x", 1},
		"unknown decision": {[]string{strings.Replace(whole, `"block"`, `"maybe"`, 1)}, "", 1},
		"unknown member":   {[]string{strings.Replace(whole, `{"id"`, `{"later":1,"id"`, 1)}, "x", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			putLines(t, dir, tt.lines...)
			endLog(t, dir) // a cut line is torn when no other can follow
			entries, problems := read(t, dir)
			var ids []string
			for _, e := range entries {
				ids = append(ids, e.ID)
			}
			if strings.Join(ids, " ") != tt.ids || len(problems) != tt.torn {
				t.Fatalf("Read = %v, %v, want %s and %d errors", ids, problems, tt.ids, tt.torn)
			}
			for _, err := range problems {
				if !errors.Is(err, ErrTorn) || !strings.HasPrefix(err.Error(), "00000001.jsonl, byte ") {
					t.Errorf("error = %v, want ErrTorn of a byte", err)
				}
			}
		})
	}
	t.Run("an event of another version", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		putLines(t, dir, `{"id":"x","time":"2026-03-04T05:06:07Z","input":{"kind":7}}`)
		entries, problems := read(t, dir)
		if len(entries) != 1 || entries[0].Input != nil || len(problems) != 1 || errors.Is(problems[0], ErrTorn) {
			t.Errorf("Read = %+v, %v, want the Record without its event, and why", entries, problems)
		}
	})
}

// IDs finds every Record, also if its line is longer than the buffer of the reader or its ID needs
// escapes.
func TestIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("x", 1<<19)
	putLines(t, dir, `{"id":"c","time":"2026-11-20T00:00:00Z"}`, `{"id":"a","time":"2026-11-20T00:00:00Z","text":"`+long+`{\"id\":\"inner\""}`,
		"\n\n{\"other\":1}\n{\"id\":\"open", `{"id":"a","late":true}`, `{"id":"b\"\\"}`)
	ids, err := openLog(t, dir).IDs(0)
	if want := []string{"a", `b"\`, "c"}; !slices.Equal(ids, want) || err != nil {
		t.Errorf("IDs = %q, %v, want %q", ids, err, want)
	}
}
