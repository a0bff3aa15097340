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

// A Sandbox is an [Executor] that runs programs on this machine as [System] does, but restricts
// them and their children to the listed files and network access. The zero value lets a program
// read the installed system files, and gives it a temporary directory in TMPDIR, which is removed
// when the program has ended.
//
// A program in a sandbox never has
//   - access to the home directory, /tmp or the files of other processes, unless they are listed,
//   - sockets other than IP sockets: an ssh-agent, Docker or D-Bus could act for it outside the
//     sandbox,
//   - the ability to send signals to outside processes, or to access their memory, their limits
//     or the kernel's keys,
//   - the terminal, open files except for its three streams, or additional rights from a setuid
//     program,
//   - a new session or process group: at its deadline, all its children end with it.
//
// It requires Linux 6.12 or later. On other systems programs are not started; see Optional.
//
// The sandbox starts this program again to restrict itself and then replace itself by the hook's
// program. Its main must therefore begin with [SandboxMain].
type Sandbox struct {
	// Read lists the files and directories, with their content, that the program may read and
	// execute. Write lists those that it may also modify. "~" is the home directory; {root} and
	// {cwd} are the event's directories. Other relative paths are below Dir. Links in paths below
	// Dir, {root} or {cwd} must not lead out of that directory, unless the path begins with "..".
	// Read paths that do not exist are ignored; missing Write paths are created as directories.
	Read, Write []string
	Dir         string // base of relative paths; for a worker also the value of {root} and {cwd}

	Net   bool     // allows TCP and UDP to all destinations
	Ports []uint16 // allows TCP to these ports; without UDP, so DNS lookups over UDP fail

	// Optional also runs programs if this machine supports only a part of the sandbox, or none of
	// it. [Sandbox.Possible] returns the missing part.
	Optional bool
}

// ErrSandbox is the error of a program that was not started because it cannot be sandboxed.
var ErrSandbox = errors.New("cannot be sandboxed here")

// Grace returns the grace period of System plus time to remove the temporary directory.
func (s *Sandbox) Grace() time.Duration { return system{}.Grace() + 100*time.Millisecond }

// Possible returns the reason why this machine cannot enforce the sandbox completely; nil = it
// can.
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

// Run runs a program in the sandbox. See [Executor].
func (s *Sandbox) Run(ctx context.Context, p *Program) (*Ending, error) {
	switch missing, err := s.missing(); {
	case err != nil && s.Optional:
		return system{}.Run(ctx, p)
	case err != nil || missing != "" && !s.Optional:
		return nil, s.Possible()
	case !shimmed:
		return nil, fmt.Errorf("%w: main must begin with process.SandboxMain()", ErrSandbox)
	}
	r := rules{Net: s.Net, Ports: s.Ports, Optional: s.Optional}
	err := s.paths(&r, p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSandbox, err)
	}
	temp, err := r.tempDir(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	return run(ctx, p, &r)
}

// tempDir makes the program's temporary directory, which the caller must remove.
func (r *rules) tempDir(p *Program) (string, error) {
	temp, err := os.MkdirTemp("", "grapnel-hook-")
	if err != nil { // TMPDIR of this process may be unusable
		temp, err = os.MkdirTemp("/tmp", "grapnel-hook-")
	}
	if err != nil {
		return "", fmt.Errorf("%w: no temporary directory: %w", ErrSandbox, err)
	}
	p.Env = append(p.Env, "TMPDIR="+temp)
	r.Write = append(r.Write, reach{Path: temp})
	return temp, nil
}

// rules are the resolved restrictions for one program. They are passed to the restarted process
// as JSON.
type rules struct {
	Path     string // of the program
	Read     []reach
	Write    []reach
	Net      bool
	Ports    []uint16
	Groups   bool // allows new process groups and sessions
	Optional bool
}

// A reach is an allowed path. If Below is not empty, links must not lead out of that directory.
type reach struct{ Path, Below string }

// paths adds the allowed paths of one program to the rules.
func (s *Sandbox) paths(r *rules, p *Program) error {
	homes := homes()
	for _, v := range p.Env {
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		r.Read = nil // the last PATH wins
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

// reach resolves a path of Read or Write for one program.
func (s *Sandbox) reach(name string, p *Program, homes above) (reach, error) {
	base, rest := s.Dir, name
	switch {
	case name == "~" || strings.HasPrefix(name, "~/"):
		dir, err := home.Dir()
		return reach{Path: filepath.Join(dir, name[1:])}, err
	case strings.HasPrefix(name, "{"):
		word, after, _ := strings.Cut(name, "/")
		if word != "{root}" && word != "{cwd}" {
			return reach{}, fmt.Errorf("%s: unknown placeholder: want {root} or {cwd}", name)
		}
		if rest = after; p.Event != nil {
			base = p.Event.Session.CWD
			if root := p.Event.Session.Root; word == "{root}" && root != "" {
				base = root
			}
		}
		if homes.below(base) && filepath.Clean("/"+rest) == "/" {
			return reach{}, fmt.Errorf("%s is %s, which contains the home directory with all private files: list only the files that the program needs", word, base)
		}
	case filepath.IsAbs(name):
		return reach{Path: filepath.Clean(name)}, nil
	}
	if !filepath.IsAbs(base) {
		return reach{}, fmt.Errorf("%s: cannot resolve this relative path, because the working directory is unknown", name)
	}
	at := reach{Path: filepath.Join(base, rest), Below: base}
	if rest = filepath.Clean(rest); rest == ".." || strings.HasPrefix(rest, "../") {
		at.Below = ""
	}
	return at, nil
}

// above lists the home directory and its parent directories.
type above []os.FileInfo

// homes uses the home directory of the user database and of the environment, which may differ.
func homes() above {
	var list above
	own, _ := home.Dir()
	fromEnv, _ := os.UserHomeDir()
	for _, at := range [...]string{own, fromEnv, "/"} {
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

// below reports whether dir contains the home directory, under any name.
func (a above) below(dir string) bool {
	info, err := os.Stat(dir)
	for _, home := range a {
		if err == nil && os.SameFile(info, home) {
			return true
		}
	}
	return false
}

// sandboxFlag is the first argument of this program when it starts a sandboxed program. The
// rules, the program and its arguments follow.
const sandboxFlag = "--sandbox"

// restarted reports whether this process was started to run a sandboxed program.
func restarted() bool { return len(os.Args) >= 4 && os.Args[1] == sandboxFlag }

// shimmed is true after SandboxMain was called. Then the restarted process calls it, too.
var shimmed bool

// SandboxMain must be the first call of main in a program that uses a [Sandbox]. If the process
// was started to run a sandboxed program, SandboxMain applies the rules, executes that program
// and does not return. Otherwise it does nothing.
func SandboxMain() {
	shimmed = true
	if !restarted() {
		return
	}
	var r rules
	err := json.Unmarshal([]byte(os.Args[2]), &r)
	if err == nil {
		err = become(&r, os.Args[3:])
	}
	// The error goes to the status pipe, because the program uses the standard streams.
	_, _ = os.NewFile(statusFD, "status").WriteString(err.Error())
	os.Exit(1)
}

const (
	statusFD = 3   // file descriptor of the status pipe
	becomes  = "+" // the rules are active and exec is next; an exec error follows this mark
)
