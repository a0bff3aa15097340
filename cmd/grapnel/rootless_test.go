package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `grapnel status` shows sessions with a refused root, with their number and a message.
func TestStatusOfRefusedRoots(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "state", "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "refused"), []byte("xxx"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	run([]string{"status", "--root", root}, strings.NewReader(""), &out, &errs)
	if !strings.Contains(out.String(), "3 events had a session whose root could not be stored") {
		t.Errorf("status says\n%s%s", out.String(), errs.String())
	}
	out.Reset()
	run([]string{"status", "--json", "--root", root}, strings.NewReader(""), &out, &errs)
	if !strings.Contains(out.String(), `"roots_refused": 3`) {
		t.Errorf("status says\n%s%s", out.String(), errs.String())
	}
}
