package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, words, ends string }{
		{"one two three", "one two|three", "one two |three"},
		{"", "", ""},
		{"a\n\nb\n", "a||b", "a||b"},
		{"longerthanthis word", "longerth|anthis|word", "longerth|anthis w|ord"},
		{"12345678 9", "12345678|9", "12345678| 9"},
		{"  in by two", "  in by|two", "  in by |two"},
		{"日本語日本語", "日本語日|本語", "日本語日|本語"},
	} {
		if diff := cmp.Diff(strings.Split(c.words, "|"), wrapped(c.text, 8)); diff != "" {
			t.Errorf("wrapped(%q) (-want +got):\n%s", c.text, diff)
		}
		if diff := cmp.Diff(strings.Split(c.ends, "|"), broken(c.text, 8, false)); diff != "" {
			t.Errorf("broken(%q) (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{0: "0.0ms", 9.94: "9.9ms", 9.96: "10ms", 999.4: "999ms", 999.6: "1.0s", 9949: "9.9s", 9960: "10s", 9_999_000: "9999s", 1e9: "hours"} {
		if got := took(ms); got != want || len(got) > 5 {
			t.Errorf("took(%v) = %s, want %s", ms, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 0: "now", 59 * time.Second: "59s", 59 * time.Minute: "59m", 99 * time.Hour: "99h", 240 * time.Hour: "10d", 1 << 62: "999d",
	} {
		if got := age(d); got != want || len(got) > 4 {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}
