//go:build system

package journal_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/journal"
)

// large makes a log of a million lines of 1 KB.
func large(b *testing.B) (dir string) {
	b.Helper()
	w := &journal.Writer{Dir: filepath.Join(b.TempDir(), "journal")}
	line := []byte(`{"text":"` + strings.Repeat("x", 960) + `"}`)
	for range 1_000_000 {
		if _, err := w.Append(line); err != nil {
			b.Fatal(err)
		}
	}
	return w.Dir
}

// BenchmarkLarge seals and verifies a million lines. The goal for verify is 3 s on two processors.
func BenchmarkLarge(b *testing.B) {
	dir := large(b)
	b.Run("verify unsealed", func(b *testing.B) { benchVerify(b, dir) })
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			seal(b, dir) // only the first time has work: use -benchtime 1x
		}
	})
	b.Run("verify", func(b *testing.B) { benchVerify(b, dir) })
	b.Run("head", func(b *testing.B) {
		for b.Loop() {
			save(b, &journal.HeadKeeper{Dir: dir})
		}
	})
	k := &journal.HeadKeeper{Dir: dir}
	save(b, k)
	b.Run("save without news", func(b *testing.B) {
		for b.Loop() {
			save(b, k)
		}
	})
}

func benchVerify(b *testing.B, dir string) {
	b.Helper()
	for b.Loop() {
		if r := sound(b, dir, journal.VerifyOptions{}); r.Records != 1_000_000 {
			b.Fatalf("%+v", r)
		}
	}
}
