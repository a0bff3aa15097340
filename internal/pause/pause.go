// Package pause switches hooks to observe mode for a while, and single hooks off.
package pause

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
)

// Max is the maximum length of a Pause.
const Max = 24 * time.Hour

// A Pause is a period in which hooks only observe: records contain their would-be decisions,
// without effect. Hooks of managed policies are not affected. The Pause is stored in a file.
type Pause struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// New returns a Pause that begins at now. It returns an error if length is less than a second or
// more than Max.
func New(now time.Time, length time.Duration) (Pause, error) {
	if length < time.Second || length > Max {
		return Pause{}, fmt.Errorf("a pause must last between one second and %v, not %v", Max, length)
	}
	now = now.UTC().Truncate(time.Second) // also removes the monotonic clock reading, which is only valid in this process
	return Pause{Since: now, Until: now.Add(length)}, nil
}

// Read returns the Pause in a file if it is active at now. A missing, invalid or unreadable file
// means no Pause. A Pause that has ended, or has not begun, is deleted, so that a clock change
// cannot reactivate it.
func Read(name string, now time.Time) (Pause, bool) {
	data, err := files.Read(name, 1<<10)
	if err != nil {
		return Pause{}, false
	}
	p, ok := pauseAt(data, now)
	if !ok {
		_ = os.Remove(name) // ignore the error: the remaining file is not active
	}
	return p, ok
}

// pauseAt decodes a Pause, and reports whether it is active at now.
func pauseAt(data []byte, now time.Time) (Pause, bool) {
	var p Pause
	if json.Unmarshal(data, &p) != nil || now.Before(p.Since) || !now.Before(p.Until) || p.Until.Sub(p.Since) > Max {
		return Pause{}, false
	}
	return p, true
}

// Write writes the Pause to a file, and replaces an earlier one.
func (p Pause) Write(name string) error { return write(name, p) }

// write writes a value to a file as JSON.
func write(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return files.Write(name, append(data, '\n'), 0o600)
}

// String returns when the Pause ends.
func (p Pause) String() string {
	return "paused until " + p.Until.Local().Format("Mon 15:04:05")
}

// Notice returns the message for the user.
func (p Pause) Notice() string {
	return fmt.Sprintf("grapnel: %v: all hooks except managed ones and self-protection are in observe mode. \"grapnel pause --off\" ends the pause.", p)
}

// Apply switches hooks to observe mode, and adds a hook that shows the notice at session start and
// with each prompt. It does not change hooks of managed policies and other notices of Grapnel.
func (p Pause) Apply(specs []grapnel.Spec) []grapnel.Spec {
	for i := range specs {
		if s := &specs[i]; s.Source.Scope != grapnel.ScopeManaged && !notice.Is(s) {
			s.Observe = true
		}
	}
	return append(specs, notice.For(grapnel.Source{Name: "pause", File: "pause"}, p.Notice()))
}
