//go:build system

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tests start this test binary as a child process: it copies stdin to stdout, or fails,
// depending on an environment variable.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_TEST_CHILD") {
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
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

func TestProgram(t *testing.T) {
	t.Parallel()
	p, err := newPayload([]byte("event "+idMark), idMark, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := child(t, "cat", p).output(t.Context()); err != nil || out != "event 00000001" {
		t.Errorf("output %q, %v", out, err)
	}
	u, err := child(t, "cat", nil).runMany(3)
	if err != nil || u.wall <= 0 || u.cpu <= 0 {
		t.Errorf("three programs cost %+v, %v; want time and no error", u, err)
	}
	if _, err := child(t, "fail", nil).run(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that exits 3: %v, want the status in the error", err)
	}
	missing := child(t, "cat", nil)
	missing.argv = []string{missing.dir + "/missing"}
	if _, err := missing.run(); err == nil {
		t.Error("a program that does not exist ran")
	}
}

// Groups that start programs find all their files, and every row has a result.
func TestRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rows.json")
	var stdout, stderr bytes.Buffer
	args := []string{"-quick", "-n", "1", "-gate", "-limit", "1000000", "-run", "^(hook|load rules|load commands|1 MB event|parallel|worker|durable|serve)$"}
	if code := run(t.Context(), args, file, &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d\n%s%s", code, &stdout, &stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 23 {
		t.Errorf("%d rows, want 23", len(rows))
	}
	for _, r := range rows {
		if r.Error != "" || r.NotYet == "" && r.Ratio <= 0 || r.Floor <= 0 {
			t.Errorf("row %+v has no result", r)
		}
	}
}
