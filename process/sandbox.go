package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/home"
)

// A Sandbox is an [Executor] that runs programs on this machine as [System] does, and
// lets them reach what it lists and nothing else. What they start in turn is held by it
// too. The zero value lets a program run: it reads what is installed on the system, and
// has a temporary directory of its own, gone when it has ended, that TMPDIR names.
//
// A program in a sandbox never has
//   - the home directory, or /tmp, or the files of other processes, unless they are listed,
//   - a socket that is no IP socket: not those of an ssh-agent, of Docker or of D-Bus, which
//     would do outside of the sandbox what it asks them to,
//   - signals for whoever is outside, their memory, their limits, or the keys of the kernel,
//   - the terminal, other open files than its three streams, more rights by a setuid program,
//   - a session or process group of its own: at its deadline all that it started ends.
//
// It works on Linux, from kernel 6.12 on. Elsewhere programs are not started; see Optional.
//
// The rules are laid on by this program itself, which starts once more in the program's
// place: its main has to begin with [SandboxMain].
type Sandbox struct {
	// What may be read and run, and what may be changed too: files, and directories with
	// all that is below. "~" is the home directory; {root} and {cwd} are where the
	// event happens. What is neither absolute nor begins with those lies below Dir, or
	// below them, and no link may lead out of there; a path that begins with ".." may.
	// What is not there cannot be read; what may be changed and is not there is made, as a
	// directory.
	Read, Write []string
	Dir         string // of relative paths; for a program that is no event's, {root} and {cwd} too

	Net   bool     // TCP and UDP to anywhere
	Ports []uint16 // TCP to these ports; without UDP, so no names are looked up by it

	// Optional runs programs also where not all of this can be held to, with what can
	// be: [Sandbox.Possible] says what is missing.
	Optional bool
}

// ErrSandbox is the error of a program that was not started because there is no sandbox
// for it.
var ErrSandbox = errors.New("cannot be sandboxed here")

// Grace is that of System, and some time to clean up.
func (s *Sandbox) Grace() time.Duration { return system{}.Grace() + 100*time.Millisecond }

// Possible says why a program cannot be held to this sandbox on this machine; nil = it can.
func (s *Sandbox) Possible() error {
	missing, err := s.missing()
	if err == nil && missing != "" {
		err = errors.New(missing)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSandbox, err)
	}
	return nil
}

// Run runs a program in the sandbox.
func (s *Sandbox) Run(ctx context.Context, p *Program) (*Ending, error) {
	switch missing, err := s.missing(); {
	case err != nil && s.Optional:
		return system{}.Run(ctx, p)
	case err != nil || missing != "" && !s.Optional:
		return nil, s.Possible()
	case !shimmed:
		return nil, fmt.Errorf("%w: main has to begin with process.SandboxMain()", ErrSandbox)
	}
	r := rules{Net: s.Net, Ports: s.Ports, Optional: s.Optional}
	err := s.paths(&r, p) //nolint:contextcheck // to ask for the home directory takes no time
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSandbox, err)
	}
	temp, err := os.MkdirTemp("", "grapnel-hook-")
	if err != nil { // the environment is not ours
		temp, err = os.MkdirTemp("/tmp", "grapnel-hook-")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no temporary directory: %w", ErrSandbox, err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	p.Env = append(p.Env, "TMPDIR="+temp)
	r.Write = append(r.Write, reach{Path: temp})
	return run(ctx, p, &r)
}

// rules are what a program is held to, for who lays them on.
type rules struct {
	Path     string // of the program
	Read     []reach
	Write    []reach
	Net      bool
	Ports    []uint16
	Optional bool
}

// A reach is a path, and the directory that no link may lead out of, or "".
type reach struct{ Path, Below string }

// paths fills in what may be reached, for one program.
func (s *Sandbox) paths(r *rules, p *Program) error {
	homes := homes()
	for _, v := range p.Env {
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		r.Read = nil // the last one counts
		for _, dir := range filepath.SplitList(path) {
			if filepath.IsAbs(dir) && !homes.below(dir) {
				r.Read = append(r.Read, reach{Path: dir})
			}
		}
	}
	if name := p.Args[0]; strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		r.Read = append(r.Read, reach{Path: name})
	}
	for _, list := range []struct {
		of   []string
		into *[]reach
	}{{s.Read, &r.Read}, {s.Write, &r.Write}} {
		for _, name := range list.of {
			at, err := s.reach(name, p, homes)
			if err != nil {
				return err
			}
			*list.into = append(*list.into, at)
		}
	}
	return nil
}

// reach is where a path leads for one program.
func (s *Sandbox) reach(name string, p *Program, homes above) (reach, error) {
	base, rest := s.Dir, name
	switch {
	case name == "~" || strings.HasPrefix(name, "~/"):
		dir, err := home.Dir()
		return reach{Path: filepath.Join(dir, name[1:])}, err
	case strings.HasPrefix(name, "{"):
		word, after, _ := strings.Cut(name, "/")
		if word != "{root}" && word != "{cwd}" {
			return reach{}, fmt.Errorf("%s: only {root} and {cwd} stand for something", name)
		}
		if rest = after; p.Event != nil {
			base = p.Event.Session.CWD
			if root := p.Event.Session.Root; word == "{root}" && root != "" {
				base = root
			}
		}
		if homes.below(base) && filepath.Clean("/"+rest) == "/" {
			return reach{}, fmt.Errorf("%s is %s, which holds the home directory and so all that there is to hide: list what it needs", word, base)
		}
	case filepath.IsAbs(name):
		return reach{Path: filepath.Clean(name)}, nil
	}
	if !filepath.IsAbs(base) {
		return reach{}, fmt.Errorf("%s: nobody knows where that is", name)
	}
	at := reach{Path: filepath.Join(base, rest), Below: base}
	if rest = filepath.Clean(rest); rest == ".." || strings.HasPrefix(rest, "../") {
		at.Below = ""
	}
	return at, nil
}

// above are directories that hold the home directory: itself, and those above it.
type above []os.FileInfo

// homes asks the user database, and the environment, which may know it better.
func homes() above {
	var list above
	own, _ := home.Dir()
	said, _ := os.UserHomeDir()
	for _, at := range [...]string{own, said, "/"} {
		for last := os.FileInfo(nil); at != ""; at += "/.." {
			info, err := os.Stat(at)
			if err != nil || last != nil && os.SameFile(info, last) {
				break
			}
			last = info
			list = append(list, info)
		}
	}
	return list
}

// below reports whether the home directory is in a directory, by whatever name.
func (a above) below(dir string) bool {
	info, err := os.Stat(dir)
	for _, home := range a {
		if err == nil && os.SameFile(info, home) {
			return true
		}
	}
	return false
}

// sandboxFlag is the first argument of this program where it stands in for one that is to
// be sandboxed. The rules and the program with its arguments follow.
const sandboxFlag = "--sandbox"

// shimmed is set once SandboxMain was called: what is started in a program's place calls
// it too.
var shimmed bool

// SandboxMain is the first thing that main does in a program that uses a [Sandbox]. Where
// it was started to lay the rules on itself and to become another program, it does so and
// does not return. Otherwise it does nothing.
func SandboxMain() {
	shimmed = true
	if len(os.Args) < 4 || os.Args[1] != sandboxFlag {
		return
	}
	var r rules
	err := json.Unmarshal([]byte(os.Args[2]), &r)
	if err == nil {
		err = become(&r, os.Args[3:])
	}
	// Nobody reads what is said by other ways: they are the program's.
	_, _ = os.NewFile(statusFD, "status").WriteString(err.Error())
	os.Exit(1)
}

const (
	statusFD = 3   // where it says how far it has come
	becomes  = "+" // the rules hold, and the program is next; what follows is why it is not
)
