package pause

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
)

// Off lists the hooks that the user has switched off, each until the user switches it on again. It
// is stored in a file.
type Off []OffHook

// An OffHook is a hook that is switched off.
type OffHook struct {
	Hook   string    `json:"hook"` // its full name, see [grapnel.Spec.FullName]
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// maxOff is the maximum size of the file in bytes.
const maxOff = 1 << 20

// ReadOff reads the list from a file. A missing file is an empty list. After an error, all hooks
// are on.
func ReadOff(name string) (Off, error) {
	data, err := files.Read(name, maxOff)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // a broken state directory is reported elsewhere
		return nil, nil
	}
	var off Off
	if err == nil {
		err = json.Unmarshal(data, &off)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read which hooks are off, so all hooks are on: %s: %w", name, err)
	}
	return off, nil
}

// Write writes the list to a file, or removes the file if the list is empty.
func (o Off) Write(name string) error {
	if len(o) == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return write(name, o)
}

// Find returns the entry of a hook by its full name, or nil.
func (o Off) Find(hook string) *OffHook {
	if i := slices.IndexFunc(o, func(h OffHook) bool { return h.Hook == hook }); i >= 0 {
		return &o[i]
	}
	return nil
}

// MayBeOff reports whether a user may switch a hook off: not if it is from a managed policy or
// from Grapnel itself.
func MayBeOff(s *grapnel.Spec) bool {
	return s.Source.Scope != grapnel.ScopeManaged && !notice.Own(s) && !strings.HasPrefix(s.Source.Name, notice.OwnSource(grapnel.Source{}).Name)
}

// Apply removes the hooks that are off. It adds a hook that names them at session start, also those
// that are not in specs: a program that answers one event loads only hooks for this event.
func (o Off) Apply(specs []grapnel.Spec) []grapnel.Spec {
	if len(o) == 0 {
		return specs
	}
	specs = slices.DeleteFunc(specs, func(s grapnel.Spec) bool { return o.Find(s.FullName()) != nil && MayBeOff(&s) })
	names := make([]string, len(o))
	for i, h := range o {
		names[i] = fmt.Sprintf("%s (%s)", h.Hook, h.Reason)
	}
	shown := strings.Join(names[:min(len(names), 5)], ", ")
	if more := len(names) - 5; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	n := notice.For(grapnel.Source{Name: "off", File: "off"}, fmt.Sprintf("grapnel: hooks that are off: %s. \"grapnel hooks list\" shows them.", shown))
	n.On = []grapnel.Kind{grapnel.SessionStart}
	return append(specs, n)
}
