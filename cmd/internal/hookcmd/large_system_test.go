//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package hookcmd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/dialect"
)

// Lines that are no question are passed over, and one that cannot be read is answered as
// an event that cannot be read.
func TestServedNoise(t *testing.T) {
	t.Parallel()
	s := startServe(t, "claude-code", "--root", rootWith(t, servedPolicy))
	for _, noise := range []string{
		"", "nonsense", "[]", "{}", `{"type":"weather","id":"1"}`, `{"type":"hello","grapnel":1}`, `{"type":"cancel","id":"nobody"}`,
		`{"type":"answer","id":"1","outcome":{}}`, strings.Repeat("[", 100_000), "\xff\x00",
	} {
		s.write("%s", noise)
	}
	for name, text := range map[string]string{
		"broken":   `{"type":"event","id":"%s","event":{"hook_event_name":"PreToolUse","tool_name":}`,
		"none":     `{"type":"event","id":"%s"}`,
		"no JSON":  `{"type":"event","id":"%s","event":{"hook_event_name":"PreToolUse","tool_name":"Bash"},,}`,
		"too long": `{"type":"event","id":"%s","event":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat("x", maxLine) + `"}}}`,
	} {
		s.write(text, name)
		m := s.read()
		if m.ID != name || m.Reply == nil || !strings.Contains(m.Reply.Stdout+m.Reply.Stderr, "cannot read the event") && name != "no JSON" {
			t.Errorf("%s: %+v %+v, want a block of what cannot be read", name, m, m.Reply)
		}
		if name == "too long" && !strings.Contains(m.Reply.Stdout, strconv.Itoa(dialect.MaxPayload)) {
			t.Errorf("%s: %+v", name, m.Reply)
		}
	}
	if got := s.ask(removes); !strings.Contains(got.Stdout, "Use trash.") {
		t.Errorf("after all that: %+v, want a block", got)
	}
	s.end()
	if said := s.stderr.String(); !strings.Contains(said, "nonsense") {
		t.Errorf("stderr is %q, want to hear of the noise", said)
	}
}

// With any sequence of sessions, times and working directories, a root that was used
// within seven days stays, and the store stays bounded.
func TestRootsInUseAreNeverRemoved(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git", "q/.git", "r")
	cwds := []string{filepath.Join(dir, "p"), filepath.Join(dir, "q"), filepath.Join(dir, "r")}
	ids := neighbors(2*rootsPerDir, "5a")
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := Place{State: filepath.Join(dir, fmt.Sprint("state", seed))}
		if seed%2 == 1 {
			p.roots = &roots{}
		}
		type use struct {
			root string
			age  time.Duration // since the last use
		}
		model := map[string]use{}
		for step := range 800 {
			if random.IntN(30) == 0 {
				by := time.Duration(random.Int64N(int64(3 * 24 * time.Hour)))
				age(t, p, by)
				for id, u := range model {
					u.age += by
					model[id] = u
				}
			}
			id, cwd := ids[random.IntN(len(ids))], cwds[random.IntN(len(cwds))]
			dirs, err := p.dirs(in(id, cwd), true)
			known, isKnown := model[id]
			switch {
			case isKnown && known.age <= rootIdle && (err != nil || dirs[0].Path != known.root):
				t.Fatalf("seed %d, step %d: session %s has the root %v, %v, want %s, used %v ago", seed, step, id, dirs, err, known.root, known.age)
			case err == nil:
				model[id] = use{root: dirs[0].Path}
			case !errors.Is(err, errNoRoom) || dirs[0].Path != cwd && p.roots == nil:
				t.Fatalf("seed %d, step %d: %v, %v", seed, step, dirs, err)
			default:
				delete(model, id)
			}
		}
		if n := len(stored(t, p)); n > rootsPerDir {
			t.Errorf("%d roots are stored in one directory, want at most %d", n, rootsPerDir)
		}
		for id, u := range model {
			if p.roots = nil; u.age > rootIdle {
				continue
			}
			if dirs := p.Dirs(in(id, dir), false); dirs[0].Path != u.root {
				t.Errorf("seed %d: session %s has the root %v, want %s", seed, id, dirs, u.root)
			}
		}
	}
}
