// Package segments writes segments of the journal with a time of their own, for tests that need an old log.
package segments

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Write writes the segment with a number in the directory of a journal, as if it was made at a time. lines are
// objects.
func Write(t testing.TB, dir string, number int, begun time.Time, lines ...string) {
	t.Helper()
	var text strings.Builder
	text.WriteString(sealed(fmt.Sprintf(`{"journal":1,"key":"key-%d","time":%q}`, number, begun.UTC().Format(time.RFC3339Nano))) + "\n")
	for _, line := range lines {
		text.WriteString("\n" + sealed(line) + "\n")
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08d.jsonl", number)), []byte(text.String()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sealed returns an object with its checksum as the last member.
func sealed(object string) string {
	body := object[:len(object)-1]
	return fmt.Sprintf(`%s,"crc":"%08x"}`, body, crc32.ChecksumIEEE([]byte(body)))
}
