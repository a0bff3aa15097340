package staging

import (
	"os"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// InForce stores the hooks that are active in the working directory, and the content of their
// files, in opts.
func InForce(place local.Place, opts *replay.SuggestOptions) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	engine, set, err := (&stagedPolicy{place: place}).open(place.DirsOf(dir), &replay.Stage{})
	if err != nil {
		return err
	}
	opts.Files, opts.Changed = map[string][]byte{}, map[string]time.Time{}
	type at struct {
		file, name string
		line       int
	}
	known := map[at]*policyfile.Hook{}
	for _, file := range set.Files {
		content, err := os.ReadFile(file.File)
		if err != nil || file.Format != "" || file.State != load.Valid && file.State != load.Trusted {
			continue
		}
		p, errs := policy.Parse(file.File, content)
		if len(errs) > 0 {
			continue
		}
		opts.Files[file.File] = content
		if info, err := os.Stat(file.File); err == nil {
			opts.Changed[file.File] = info.ModTime()
		}
		for i := range p.Hooks {
			h := &p.Hooks[i]
			known[at{file.File, h.Name, h.Line}] = h
		}
	}
	for _, spec := range engine.Specs("") {
		if strings.HasPrefix(spec.Source.Name, "grapnel:") {
			continue
		}
		h := replay.Hook{Spec: spec}
		if spec.Source.Name == spec.Source.File {
			h.Policy = known[at{spec.Source.File, spec.Name, spec.Line}]
		}
		if p := h.Policy; p != nil {
			h.Leaves = p.Run != nil || p.HTTP != nil || p.Context != nil && p.Context.Run != nil
		}
		opts.Hooks = append(opts.Hooks, h)
	}
	return nil
}
