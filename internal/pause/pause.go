// Package pause lets hooks only observe for a while.
package pause

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/readfile"
)

// Max is how long a Pause may last.
const Max = 24 * time.Hour

// A Pause is a time in which hooks observe: Records say what they would have decided,
// and nothing comes of it. Managed hooks decide all the same. It is kept in a file.
type Pause struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// New begins a Pause.
func New(now time.Time, length time.Duration) (Pause, error) {
	if length < time.Second || length > Max {
		return Pause{}, fmt.Errorf("a pause lasts between one second and %v, not %v", Max, length)
	}
	now = now.UTC().Truncate(time.Second) // without what only this process knows of its clock
	return Pause{Since: now, Until: now.Add(length)}, nil
}

// Read reads the Pause that holds now. A file that is absent, broken or cannot be
// read is none. One that does not hold, any more or yet, is removed, so that a clock
// which jumps cannot bring it back.
func Read(name string, now time.Time) (Pause, bool) {
	data, err := readfile.Regular(name, 1<<10)
	if err != nil {
		return Pause{}, false
	}
	p, ok := pauseAt(data, now)
	if !ok {
		_ = os.Remove(name) // what stays does not hold either
	}
	return p, ok
}

// pauseAt reads a Pause that holds at a time.
func pauseAt(data []byte, now time.Time) (Pause, bool) {
	var p Pause
	if json.Unmarshal(data, &p) != nil || now.Before(p.Since) || !now.Before(p.Until) || p.Until.Sub(p.Since) > Max {
		return Pause{}, false
	}
	return p, true
}

// Write puts the Pause into its file, in place of the one before.
func (p Pause) Write(name string) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(name, append(data, '\n'), 0o600)
}

// String says when it ends.
func (p Pause) String() string {
	return "paused until " + p.Until.Local().Format("Mon 15:04:05")
}

// Notice is what the person is told.
func (p Pause) Notice() string {
	return fmt.Sprintf("grapnel: %v: hooks say what they would do, and only managed ones do it. \"grapnel pause --off\" ends it.", p)
}

// Apply makes hooks observe, and adds one that says so at session start and at each
// prompt. Hooks of managed policies, and what else Grapnel itself has to tell the
// person, stay as they are.
func (p Pause) Apply(specs []grapnel.Spec) []grapnel.Spec {
	for i := range specs {
		if s := &specs[i]; s.Source.Scope != grapnel.ScopeManaged && !notice.Is(s) {
			s.Mode = grapnel.Observe
		}
	}
	return append(specs, notice.For(grapnel.Source{Name: "pause", File: "pause"}, p.Notice()))
}
