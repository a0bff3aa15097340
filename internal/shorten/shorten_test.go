package shorten_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/shorten"
)

func TestTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "\xffbcd": "\xffbcd", "\xffbcde": "bcd…"} {
		if got := shorten.To(text, 4); got != want {
			t.Errorf("To(%q, 4) = %q, want %q", text, got, want)
		}
	}
}
