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
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/review"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Hook is one hook in force. Its JSON is the output of "grapnel hooks list --json".
type Hook struct {
	Hook      string         `json:"hook"` // full name: SOURCE::NAME
	Name      string         `json:"name"`
	Source    string         `json:"source"`
	Pack      string         `json:"pack,omitempty"`
	Scope     grapnel.Scope  `json:"scope"`
	File      string         `json:"file"`
	Line      int            `json:"line,omitempty"`
	On        []grapnel.Kind `json:"on"`                 // empty = all events
	Does      string         `json:"does,omitempty"`     // effect, such as "block"; empty = not known
	Reason    string         `json:"reason,omitempty"`   // of its decision
	Incident  string         `json:"incident,omitempty"` // an incident that the hook prevents
	Phase     grapnel.Phase  `json:"phase"`
	Priority  int            `json:"priority"`
	Timeout   float64        `json:"timeout_s,omitempty"` // in seconds; 0 = none
	Matches   []string       `json:"matches"`             // conditions; empty = none
	State     State          `json:"state"`
	By        string         `json:"switched_by,omitempty"` // what set the state, unless it is on: user, pause or policy
	OffReason string         `json:"off_reason,omitempty"`  // why the user switched it off
	Since     time.Time      `json:"since,omitzero"`        // when the user switched it off, or paused all hooks
	Until     time.Time      `json:"until,omitzero"`        // end of the pause
	Matched   *Matched       `json:"matched,omitempty"`     // nil = not known
}

// Matched is how often a hook matched an event, according to Records.
type Matched struct {
	Since time.Time `json:"since"`
	Times int       `json:"times"`
	Block int       `json:"block"`
	Ask   int       `json:"ask"`
	Would int       `json:"would"` // decisions to block or to ask in observe mode, which had no effect
}

// A State is whether a hook takes effect.
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
	engine, problem := grapnel.New(load.Policies(check.LookRequest(place, place.Files(nil, place.DirsOf(dir)))).Specs, nil)
	if problem != nil {
		return nil, errors.Join(err, problem)
	}
	var paused *pause.Pause
	if p, ok := pause.Read(place.Pause(), time.Now()); ok {
		paused = &p
	}
	texts := texts{}
	specs := engine.Specs("")
	list := make([]Hook, 0, len(specs))
	for i := range specs {
		s := &specs[i]
		if _, marker := s.Hook.(seam.Marker[grapnel.Event, grapnel.Verdict]); !notice.Is(s) && !marker { // a marker only stores facts for later events
			h := describe(s, off.Find(s.FullName()), paused)
			if f := texts.of(&h, s.Source.Digest); f != nil {
				h.Does, h.Reason, h.Incident = review.Describe(f), f.Reason, f.Incident
			}
			list = append(list, h)
		}
	}
	return list, err
}

func describe(s *grapnel.Spec, off *pause.OffHook, paused *pause.Pause) Hook {
	h := Hook{
		Hook: s.FullName(), Name: s.Name, Source: s.Source.Name, Scope: s.Source.Scope, File: s.Source.File, Line: s.Line,
		On: s.On, Phase: s.Phase, Priority: policyfile.DefaultPriority + s.Priority, Timeout: s.Timeout.Seconds(), Matches: load.NewReasoner(s).Describe(), State: On,
	}
	if pack, ok := strings.CutPrefix(h.Source, h.File+"#"); ok {
		h.Pack = pack
	}
	if h.On == nil {
		h.On = []grapnel.Kind{}
	}
	if h.Matches == nil {
		h.Matches = []string{}
	}
	switch {
	case off != nil && pause.MayBeOff(s):
		h.State, h.By, h.OffReason, h.Since = Off, "user", off.Reason, off.Since
	case s.Observe:
		h.State, h.By = Observe, "policy"
	case paused != nil && s.Source.Scope != grapnel.ScopeManaged:
		h.State, h.By, h.Since, h.Until = Observe, "pause", paused.Since, paused.Until
	}
	return h
}

// texts are policies by the source of their hooks; nil = not known. A compiled hook does not have all
// texts of its policy.
type texts map[string]*policyfile.Policy

// of returns a hook as its policy file defines it. It returns nil for hooks of other systems, and if
// the content of the file is not the content in force.
func (t texts) of(h *Hook, sum string) *policyfile.Hook {
	p, ok := t[h.Source]
	if !ok {
		p = read(h, sum)
		t[h.Source] = p
	}
	if p == nil {
		return nil
	}
	if i := slices.IndexFunc(p.Hooks, func(f policyfile.Hook) bool { return f.Name == h.Name }); i >= 0 {
		return &p.Hooks[i]
	}
	return nil
}

// read returns the policy or pack of a hook, or nil if its digest differs or it cannot be read.
func read(h *Hook, sum string) *policyfile.Policy {
	data, err := files.Read(h.File, yaml.MaxSize)
	if h.Pack != "" {
		data, err = packs.Files().ReadFile(h.Pack + ".yaml")
	}
	if err != nil || files.Digest(data) != sum {
		return nil
	}
	p, errs := policy.Parse(h.File, data)
	if len(errs) > 0 { // it has the format of another system
		return nil
	}
	return p
}

// Count sets how often the hooks of a list matched. It changes nothing if there are no Records.
func Count(list []Hook, totals *stats.Totals) {
	if totals.Firings == 0 {
		return
	}
	for i := range list {
		h := &list[i]
		h.Matched = &Matched{Since: totals.Since}
		if j := slices.IndexFunc(totals.Hooks, func(c stats.Hook) bool { return c.Name == h.Name && c.Source == h.Source }); j >= 0 {
			c := &totals.Hooks[j]
			h.Matched.Times, h.Matched.Block, h.Matched.Ask = c.Runs, c.Decisions[grapnel.Block], c.Decisions[grapnel.Ask]
			h.Matched.Would = c.Would[grapnel.Block] + c.Would[grapnel.Ask]
		}
	}
}

// A Selection selects hooks. Empty fields select all.
type Selection struct {
	Name   string // name or full name
	Pack   string
	Source string // source, file, last elements of the file's path, or scope
	Text   string // part of the name, effect, reason, incident, events or conditions, in any case
}

// Of returns the selected hooks of a list.
func (s *Selection) Of(list []Hook) []Hook {
	var found []Hook
	for i := range list {
		h := &list[i]
		if (s.Name == "" || s.Name == h.Name || s.Name == h.Hook) && (s.Pack == "" || s.Pack == h.Pack) &&
			(s.Source == "" || s.Source == h.Source || s.Source == h.File || s.Source == h.Scope.String() || strings.HasSuffix(filepath.ToSlash(h.File), "/"+s.Source)) && h.contains(s.Text) {
			found = append(found, *h)
		}
	}
	return found
}

func (h *Hook) contains(text string) bool {
	parts := append([]string{h.Name, h.Does, h.Reason, h.Incident}, h.Matches...)
	for _, kind := range h.On {
		parts = append(parts, string(kind))
	}
	return strings.Contains(strings.ToLower(strings.Join(parts, "\n")), strings.ToLower(text))
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
