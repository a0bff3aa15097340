package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/policy"
)

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50, 100} {
		file, errs := policy.Parse("grapnel.yaml", []byte(policyFile(n, watchThis)))
		if len(errs) > 0 || len(file.Hooks) != n {
			t.Errorf("policyFile(%d): %d hooks, errors %v", n, len(file.Hooks), errs)
		}
	}
	file, errs := policy.Parse("grapnel.yaml", []byte("version: 1\nhooks:\n"+rules(20, 50, watchNothing)))
	if len(errs) > 0 || len(file.Hooks) != 30 || file.Hooks[0].Name != "rule-20" {
		t.Errorf("rules(20, 50): %d hooks, errors %v", len(file.Hooks), errs)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 33, 1 << 20} { // 33 cuts a letter in two
		got := text(n)
		if len(got) > n || len(got) < n-1 || !utf8.ValidString(got) {
			t.Errorf("text(%d) has %d bytes, valid %v: %.60q", n, len(got), utf8.ValidString(got), got)
		}
	}
	if !strings.Contains(text(1000), "ë") {
		t.Error("text(1000) has no letter beyond ASCII")
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	read := func(p *payload) string {
		t.Helper()
		f, err := p.open()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, size := range map[string]int{"small, through a pipe": 100, "large, from a file": 1 << 20} {
		data := `{"session":"s-` + idMark + `","id":"` + idMark + `","text":"` + strings.Repeat("x", size) + `"}`
		p, err := newPayload([]byte(data), idMark, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for run := 1; run <= 2; run++ {
			got, want := read(p), strings.ReplaceAll(data, idMark, fmt.Sprintf("%08d", run))
			if got != want {
				t.Errorf("%s: run %d read %d bytes %.60q, want %d bytes %.60q", name, run, len(got), got, len(want), want)
			}
		}
	}
	plain, err := newPayload([]byte(`{"id":"`+idMark+`"}`), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := read(plain); got != string(plain.data) {
		t.Errorf("a payload without an ID was read as %q", got)
	}
	if _, err := newPayload(bytes.Repeat([]byte("x"), 20), idMark, t.TempDir()); err == nil {
		t.Error("a payload without the mark was accepted")
	}
}

// Not parallel, since it counts allocations.
func TestSetupEngine(t *testing.T) {
	for _, g := range groups() {
		if !slices.Contains([]string{"engine", "host", "guards"}, g.name) {
			continue
		}
		b := &bench{progress: io.Discard}
		rows, err := b.measure(t.Context(), plan{runs: 1, limit: 1e6}, g)
		if err != nil || len(rows) != len(g.targets) {
			t.Fatalf("%s: %d rows of %d, %v", g.name, len(rows), len(g.targets), err)
		}
		for _, r := range rows {
			if r.Error != "" || r.Ratio < 0 || r.path.floor == nil {
				t.Errorf("row %+v has no result", r)
			}
		}
	}
}
