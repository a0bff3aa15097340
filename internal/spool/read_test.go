package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
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
	appendText(t, filepath.Join(dir, recordsFile), "x\n")
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

// Lines that are not Records are reported with file and line, and do not affect other lines.
func TestTornLines(t *testing.T) {
	t.Parallel()
	whole := string(mustJSON(t, Entry{Record: *record("x")}))
	tests := map[string]struct {
		text string
		ids  string
		errs []string // line numbers
	}{
		"no end":             {whole + "\n" + whole[:50], "x", []string{"2"}},
		"no end, but whole":  {whole, "x", nil},
		"empty lines":        {"\n\n" + whole + "\n\n", "x", nil},
		"other JSON":         {"[]\n1\n{}\nnull\n" + whole + "\n", "x", []string{"1", "2", "3", "4"}},
		"binary":             {"\x00\xff\n" + whole + "\n", "x", []string{"1"}},
		"glued to torn":      {whole[:50] + whole + "\n" + whole + "\n", "x x", []string{"1"}},
		"glued in its event": {whole[:len(whole)-200] + whole + "\n", "x", []string{"1"}},
		"two torn":           {whole[:50] + whole[:90] + "\n", "", []string{"1"}},
		"trailing":           {whole + "}\n", "", []string{"1"}},
		"unknown decision":   {strings.Replace(whole, `"block"`, `"maybe"`, 1) + "\n", "", []string{"1"}},
		"unknown member":     {strings.Replace(whole, `{"id"`, `{"later":1,"id"`, 1) + "\n", "x", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			appendText(t, filepath.Join(dir, recordsFile), tt.text)
			entries, problems := read(t, dir)
			var ids []string
			for _, e := range entries {
				ids = append(ids, e.ID)
			}
			if strings.Join(ids, " ") != tt.ids || len(problems) != len(tt.errs) {
				t.Fatalf("Read = %v, %v, want %s and errors of lines %v", ids, problems, tt.ids, tt.errs)
			}
			for i, err := range problems {
				if !errors.Is(err, ErrTorn) || !strings.HasPrefix(err.Error(), recordsFile+":"+tt.errs[i]+": ") {
					t.Errorf("error = %v, want ErrTorn of line %s", err, tt.errs[i])
				}
			}
		})
	}
	t.Run("an event of another version", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		appendText(t, filepath.Join(dir, recordsFile), `{"id":"x","time":"2026-03-04T05:06:07Z","input":{"kind":7}}`+"\n")
		entries, problems := read(t, dir)
		if len(entries) != 1 || entries[0].Input != nil || len(problems) != 1 || errors.Is(problems[0], ErrTorn) {
			t.Errorf("Read = %+v, %v, want the Record without its event, and why", entries, problems)
		}
	})
}

// Follow yields existing and new Records, also from files that are rotated in the meantime,
// each once and in order.
func TestFollow(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"one file": 1 << 30, "put aside at each": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := open(t, &Options{MaxSize: size, KeepFiles: 1000})
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			observe(t, s, record("0"))
			const last = 40
			var got, want []string
			for e, err := range Follow(ctx, dir, Filter{Session: "s1"}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.ID)
				want = append(want, fmt.Sprint(len(want)))
				if len(got) > last {
					break
				}
				if n := len(got); n%10 == 1 { // nine more at once, one in parts
					for i := range 9 {
						observe(t, s, record(fmt.Sprint(n+i)))
					}
					line := append(mustJSON(t, Entry{Record: *record(fmt.Sprint(n + 9))}), '\n')
					appendText(t, filepath.Join(dir, recordsFile), string(line[:30]))
					time.AfterFunc(poll/2, func() { appendText(t, filepath.Join(dir, recordsFile), string(line[30:])) })
				}
			}
			if ctx.Err() != nil || !slices.Equal(got, want) {
				t.Errorf("Follow = %v, %v, want %v", got, ctx.Err(), want)
			}
		})
	}
}

// Follow ends with its context, also if there is no log yet.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(2*poll, func() { s.Observe(ctx, record("first")) })
	var got []string
	defer cancel()
	for e, err := range Follow(ctx, dir, Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ID)
		cancel()
	}
	if want := []string{"first"}; !slices.Equal(got, want) {
		t.Errorf("Follow = %v, want %v", got, want)
	}
}

// IDs finds every Record, also if its line is longer than the buffer of the reader or its ID needs
// escapes.
func TestIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if ids, err := IDs(filepath.Join(dir, "absent")); len(ids) != 0 || err != nil {
		t.Errorf("of no log: %v, %v", ids, err)
	}
	long := strings.Repeat("x", 2<<20)
	text := `{"id":"c","time":"2026-11-20T00:00:00Z"}` + "\n" +
		`{"id":"a","time":"2026-11-20T00:00:00Z","text":"` + long + `{\"id\":\"inner\""}` + "\n" +
		"\n{\"other\":1}\n{\"id\":\"open\n" +
		`{"id":"a","late":true}` + "\n" + `{"id":"b\"\\"}`
	if err := os.WriteFile(filepath.Join(dir, "records.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ids, err := IDs(dir)
	if want := []string{"a", `b"\`, "c"}; !slices.Equal(ids, want) || err != nil {
		t.Errorf("IDs = %q, %v, want %q", ids, err, want)
	}
}
