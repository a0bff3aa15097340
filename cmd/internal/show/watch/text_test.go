package watch

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 0: "now", 59 * time.Second: "59s", 59 * time.Minute: "59m", 99 * time.Hour: "99h", 240 * time.Hour: "10d", 1 << 62: "999d",
	} {
		if got := age(d); got != want || len(got) > 4 {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}
