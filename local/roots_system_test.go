//go:build system

package local

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// With any sequence of sessions, times and working directories, a root that was used
// within seven days stays, and the store stays bounded.
func TestRootsInUseAreNeverRemoved(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "q/.git", "r")
	cwds := []string{filepath.Join(dir, "p"), filepath.Join(dir, "q"), filepath.Join(dir, "r")}
	ids := neighbors(2*rootsPerDir, "5a")
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := Place{State: filepath.Join(dir, fmt.Sprint("state", seed))}
		if seed%2 == 1 {
			p.Roots = &Roots{}
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
			dirs, err := p.SessionDirs(in(id, cwd), true)
			known, isKnown := model[id]
			switch {
			case isKnown && known.age <= rootIdle && (err != nil || dirs[0].Path != known.root):
				t.Fatalf("seed %d, step %d: session %s has the root %v, %v, want %s, used %v ago", seed, step, id, dirs, err, known.root, known.age)
			case err == nil:
				model[id] = use{root: dirs[0].Path}
			case err == nil || !strings.Contains(err.Error(), "too many sessions") || dirs[0].Path != cwd && p.Roots == nil:
				t.Fatalf("seed %d, step %d: %v, %v", seed, step, dirs, err)
			default:
				delete(model, id)
			}
		}
		if n := len(stored(t, p)); n > rootsPerDir {
			t.Errorf("%d roots are stored in one directory, want at most %d", n, rootsPerDir)
		}
		for id, u := range model {
			if p.Roots = nil; u.age > rootIdle {
				continue
			}
			if dirs := p.Dirs(in(id, dir), false); dirs[0].Path != u.root {
				t.Errorf("seed %d: session %s has the root %v, want %s", seed, id, dirs, u.root)
			}
		}
	}
}
