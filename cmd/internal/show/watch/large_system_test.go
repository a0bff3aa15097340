//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package watch

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// The screen stays correct for any events, keys and sizes.
func TestScreenHolds(t *testing.T) {
	t.Parallel()
	keys := []string{"up", "down", "pgup", "pgdown", "home", "end", "enter", "tab", "shift+tab", "esc", "space", "f", "s", "/", "?", "k", "j", "g", "G", "backspace", "ctrl+u", "ctrl+w", "x"}
	rapid.Check(t, func(t *rapid.T) {
		m := New(Options{Keep: 8, Home: "/home/ann", Location: time.UTC})
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				var b Batch
				for range rapid.IntRange(0, 4).Draw(t, "items") {
					b.Items = append(b.Items, drawItem(t, ""))
				}
				if rapid.Bool().Draw(t, "problem") {
					b.Problems = []string{hostile.Draw(t, "problem")}
				}
				m.Update(b)
			},
			"resize": func(t *rapid.T) {
				m.Update(Resize{rapid.IntRange(0, 200).Draw(t, "width"), rapid.IntRange(0, 60).Draw(t, "height")})
			},
			"key":   func(t *rapid.T) { m.Update(Key{Name: rapid.SampledFrom(keys).Draw(t, "key")}) },
			"type":  func(t *rapid.T) { m.Update(Key{Text: hostile.Draw(t, "text")}) },
			"clock": func(t *rapid.T) { m.Update(Clock(time.Unix(rapid.Int64().Draw(t, "now"), 0))) },
			"keeper": func(t *rapid.T) {
				m.Update(Keeper{Daemon: rapid.Bool().Draw(t, "daemon"), PID: 7, Problem: hostile.Draw(t, "problem")})
			},
			"": func(t *rapid.T) { checkScreen(t, m) },
		})
	})
}
