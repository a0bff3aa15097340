package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// The test binary is the program that these tests start: it prints its stdin, or
// fails when told to.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_TEST_CHILD") {
	case "cat":
		_, err := io.Copy(os.Stdout, os.Stdin)
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "fail":
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, what string, p *payload) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	return &program{
		name: what, argv: []string{self}, dir: t.TempDir(), payload: p, null: null,
		env: append(os.Environ(), "BENCH_TEST_CHILD="+what),
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small, through a pipe": 100, "large, from a file": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := []byte(`{"id":"` + idMark + `","text":"` + strings.Repeat("x", size) + `"}`)
			p, err := newPayload(data, idMark, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cat := child(t, "cat", p)
			for run := 1; run <= 2; run++ {
				got, err := cat.output(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want := strings.Replace(string(data), idMark, fmt.Sprintf("%08d", run), 1)
				if got != want {
					t.Errorf("run %d read %d bytes %.40q, want %d bytes %.40q", run, len(got), got, len(want), want)
				}
			}
		})
	}
	unnumbered, err := newPayload([]byte(`{"id":"`+idMark+`"}`), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := child(t, "cat", unnumbered).output(t.Context()); err != nil || got != string(unnumbered.data) {
		t.Errorf("a payload without an ID was read as %q, %v", got, err)
	}
	if _, err := newPayload(bytes.Repeat([]byte(idMark), 2), idMark, t.TempDir()); err == nil {
		t.Error("two places for one ID were accepted")
	}
}

func TestRunMany(t *testing.T) {
	t.Parallel()
	u, err := child(t, "cat", nil).runMany(3)
	if err != nil || u.wall <= 0 || u.cpu <= 0 {
		t.Errorf("three programs cost %+v, %v; want time and no error", u, err)
	}
	if _, err := child(t, "fail", nil).run(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that exits 3: %v, want that said", err)
	}
	missing := child(t, "cat", nil)
	missing.argv = []string{missing.dir + "/missing"}
	if _, err := missing.run(); err == nil {
		t.Error("a program that does not exist ran")
	}
	if s := child(t, "fail", nil).wallSide(); interleave(t.Context(), plan{runs: 1}, s) == nil {
		t.Error("a program that fails was measured")
	}
}
