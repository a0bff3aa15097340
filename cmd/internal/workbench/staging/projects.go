package staging

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/local"
)

// projects holds the engines of one Stage, by the directories whose policies they add. It is not
// safe for concurrent use.
type projects struct {
	*stagedPolicy
	opts    *replay.Options
	stage   *replay.Stage
	engines map[string]*grapnel.Engine
	places  map[string]project
}

// project is the result for one working directory of an agent.
type project struct {
	root   string
	engine *grapnel.Engine
}

// Limits for the two caches.
const (
	maxEngines = 64
	maxPlaces  = 4096
)

// judge returns the engine for an event.
func (p *projects) judge(ev *grapnel.Event) (*grapnel.Engine, error) {
	cwd := ev.Session.CWD
	key := ev.Agent.Name + "\x00" + ev.Session.ID + "\x00" + cwd
	at, known := p.places[key]
	if !known {
		var dirs []local.Dir
		was := ev.Session.Root
		if filepath.IsAbs(cwd) { // otherwise the working directory is unknown
			dirs = p.place.Dirs(ev, false)
			at.root = ev.Session.Root
		}
		ev.Session.Root = was
		dirs = slices.DeleteFunc(dirs, func(dir local.Dir) bool {
			name := filepath.Join(dir.Path, local.ProjectPolicy)
			if _, err := os.Lstat(name); err == nil {
				return false
			}
			trust, err := p.place.Trusts().Of(name)
			return err == nil && trust == nil // the trusted content of a removed policy stays active
		})
		var err error
		if at.engine, err = p.engine(dirs); err != nil {
			return nil, err
		}
		if len(p.places) >= maxPlaces {
			clear(p.places)
		}
		p.places[key] = at
	}
	if ev.Session.Root == "" {
		ev.Session.Root = at.root
	}
	return at.engine, nil
}

func (p *projects) engine(dirs []local.Dir) (*grapnel.Engine, error) {
	key := fmt.Sprintf("%+v", dirs)
	if e := p.engines[key]; e != nil {
		return e, nil
	}
	e, set, err := p.open(dirs, p.stage)
	if err != nil {
		return nil, err
	}
	if p.opts.Workers != 1 && state.AcrossSessions(set.Specs) {
		return nil, errAcrossSessions
	}
	if len(p.engines) >= maxEngines {
		clear(p.engines)
		clear(p.places)
	}
	p.engines[key] = e
	return e, nil
}
