package wording_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/wording"
)

func TestShorten(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "\xffbcd": "\xffbcd", "\xffbcde": "bcd…"} {
		if got := wording.Shorten(in, 4); got != want {
			t.Errorf("Shorten(%q, 4) = %q, want %q", in, got, want)
		}
	}
}
