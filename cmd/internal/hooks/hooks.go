// Package hooks lists the hooks in force, and switches single hooks off and on.
package hooks

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// A Hook is one hook in force. Its JSON is the output of "grapnel hooks list --json".
type Hook struct {
	Hook     string         `json:"hook"` // full name: SOURCE::NAME
	Name     string         `json:"name"`
	Source   string         `json:"source"`
	Pack     string         `json:"pack,omitempty"`
	Scope    grapnel.Scope  `json:"scope"`
	File     string         `json:"file"`
	Line     int            `json:"line,omitempty"`
	On       []grapnel.Kind `json:"on"` // empty = all events
	Phase    grapnel.Phase  `json:"phase"`
	Priority int            `json:"priority"`
	Timeout  float64        `json:"timeout_s,omitempty"` // in seconds; 0 = none
	Matches  []string       `json:"matches"`             // conditions; empty = none
	State    State          `json:"state"`
	Reason   string         `json:"reason,omitempty"` // why it is off
	Since    time.Time      `json:"since,omitzero"`   // when it was switched off
}

// A State says whether a hook takes effect.
type State string

// The states.
const (
	On      State = "on"
	Observe State = "observe" // it runs, and its decision has no effect
	Off     State = "off"
)

// List returns the hooks that are in force in a directory, in the order in which they run. If it
// cannot read which hooks are off, it returns the list and an error.
func List(place local.Place, dir string) ([]Hook, error) {
	off, err := pause.ReadOff(place.Off())
	engine, problem := grapnel.New(policy.Load(check.LookRequest(place, place.Files(nil, place.DirsOf(dir)))).Specs, nil)
	if problem != nil {
		return nil, errors.Join(err, problem)
	}
	_, paused := pause.Read(place.Pause(), time.Now())
	specs := engine.List("")
	list := make([]Hook, 0, len(specs))
	for i := range specs {
		s := &specs[i]
		if _, marker := s.Hook.(grapnel.Marker); !notice.Is(s) && !marker { // a marker only stores facts for later events
			list = append(list, describe(s, off.Find(s.FullName()), paused))
		}
	}
	return list, err
}

func describe(s *grapnel.Spec, off *pause.OffHook, paused bool) Hook {
	h := Hook{
		Hook: s.FullName(), Name: s.Name, Source: s.Source.Name, Scope: s.Source.Scope, File: s.Source.File, Line: s.Line,
		On: s.On, Phase: s.Phase, Priority: grapnel.DefaultPriority, Timeout: s.Timeout.Seconds(), Matches: policy.NewReasoner(s).Describe(), State: On,
	}
	if pack, ok := strings.CutPrefix(h.Source, h.File+"#"); ok {
		h.Pack = pack
	}
	if s.Priority != nil {
		h.Priority = *s.Priority
	}
	if h.On == nil {
		h.On = []grapnel.Kind{}
	}
	if h.Matches == nil {
		h.Matches = []string{}
	}
	switch {
	case off != nil && pause.MayBeOff(s):
		h.State, h.Reason, h.Since = Off, off.Reason, off.Since
	case s.Mode == grapnel.ModeObserve, paused && s.Source.Scope != grapnel.ScopeManaged:
		h.State = Observe
	}
	return h
}

// A Selection selects hooks. Empty fields select all.
type Selection struct {
	Name   string // name or full name
	Pack   string
	Source string // source, file, last elements of the file's path, or scope
}

// Of returns the selected hooks of a list.
func (s *Selection) Of(list []Hook) []Hook {
	var found []Hook
	for i := range list {
		h := &list[i]
		if (s.Name == "" || s.Name == h.Name || s.Name == h.Hook) && (s.Pack == "" || s.Pack == h.Pack) &&
			(s.Source == "" || s.Source == h.Source || s.Source == h.File || s.Source == h.Scope.String() || strings.HasSuffix(filepath.ToSlash(h.File), "/"+s.Source)) {
			found = append(found, *h)
		}
	}
	return found
}

// One returns the only selected hook. The error has a hint.
func (s *Selection) One(list []Hook) (*Hook, error) {
	found := s.Of(list)
	switch len(found) {
	case 1:
		return &found[0], nil
	case 0:
		names := make([]string, len(list))
		for i := range list {
			names[i] = list[i].Name
		}
		return nil, cli.WithNear(fmt.Errorf("no hook %q is in force here", s.Name), s.Name, names, `"grapnel hooks list" lists them`)
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Hook
	}
	return nil, cli.WithHint(fmt.Errorf("%d hooks have the name %q: %s", len(found), s.Name, strings.Join(names, ", ")), "pass the full name, --pack or --source")
}

// MayDisable returns an error if the hook is always on.
func (h *Hook) MayDisable() error {
	if h.File == notice.OwnFile {
		return cli.WithHint(fmt.Errorf("%s protects Grapnel itself and is always on", h.Name), "do what it blocks yourself, in a terminal")
	}
	if h.Scope == grapnel.ScopeManaged {
		return cli.WithHint(fmt.Errorf("%s is a managed hook and is always on", h.Name), "ask your administrator")
	}
	return nil
}

// Disable switches a hook off for this user, until [Enable].
func Disable(place local.Place, h *Hook, reason string) error {
	if err := h.MayDisable(); err != nil {
		return err
	}
	off, err := pause.ReadOff(place.Off())
	if err != nil {
		return err
	}
	off = slices.DeleteFunc(off, func(o pause.OffHook) bool { return o.Hook == h.Hook })
	return append(off, pause.OffHook{Hook: h.Hook, Reason: reason, Since: time.Now().UTC().Truncate(time.Second)}).Write(place.Off())
}

// Enable switches hooks on again, by name or full name. It returns the full names. A hook that is
// not in force any more can be enabled too.
func Enable(place local.Place, name string) ([]string, error) {
	off, err := pause.ReadOff(place.Off())
	if err != nil {
		return nil, cli.WithHint(err, "remove the file")
	}
	var on []string
	off = slices.DeleteFunc(off, func(o pause.OffHook) bool {
		if o.Hook != name && !strings.HasSuffix(o.Hook, "::"+name) {
			return false
		}
		on = append(on, o.Hook)
		return true
	})
	if len(on) == 0 {
		return nil, cli.WithHint(fmt.Errorf("no hook %q is off", name), `"grapnel hooks list" shows the state of each hook`)
	}
	return on, off.Write(place.Off())
}
