//go:build unix

package builtin_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/builtin"
)

// A pipe at the path of a file does not block the writer, with or without a reader.
func TestPipeIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "audit.jsonl")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := builtin.Lines(dir, "audit.jsonl")([]byte("x\n")); err == nil {
		t.Error("a pipe without a reader was written to")
	}
	reader, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(reader) }()
	if err := builtin.Lines(dir, "audit.jsonl")([]byte("x\n")); err == nil {
		t.Error("a pipe with a reader was written to")
	}
}
