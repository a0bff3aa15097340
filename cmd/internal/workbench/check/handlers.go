package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// The first versions of Node.js that can run openclaw_worker.js, and with a handler in TypeScript.
const (
	oldestNode  = "18.0"
	stripsTypes = "22.6"
)

// handlers returns a finding for each handler of a hook file that cannot run: its file is missing,
// or this machine has no suitable Node.js. node returns the version of Node.js.
func handlers(row *load.Loaded, node func() (string, error)) []Finding {
	var found []Finding
	for _, h := range row.Handlers {
		problem, hint := handlerProblem(h, node)
		if problem != "" {
			found = append(found, badHandler.finding(&policyfile.Error{
				File: row.File, Line: h.Line, Col: h.Col, Msg: fmt.Sprintf("hook %q: %s", h.Hook, problem), Hint: hint,
			}))
		}
	}
	return found
}

// slowModules returns a finding if handlers of a hook file are modules and no daemon runs that would
// keep Node.js running.
func slowModules(row *load.Loaded, place local.Place) []Finding {
	i := slices.IndexFunc(row.Handlers, func(h hookfiles.HandlerFile) bool { return h.Module })
	if i < 0 || served(place) {
		return nil
	}
	h := row.Handlers[i]
	return []Finding{slowModule.finding(&policyfile.Error{
		File: row.File, Line: h.Line, Col: h.Col, Msg: fmt.Sprintf("hook %q is a module, so each event starts Node.js, which takes about 0.2 s", h.Hook),
		Hint: "start the daemon, which keeps it running and answers within some milliseconds: \"grapnel daemon start\"",
	})}
}

// served reports whether a daemon answers the events of a place.
func served(place local.Place) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", client.Socket(place.State))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func handlerProblem(h hookfiles.HandlerFile, node func() (string, error)) (problem, hint string) {
	info, err := os.Stat(h.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("its handler %s does not exist", h.Path), "create the file or remove the entry: without it, the hook fails at every event"
	case err != nil:
		return fmt.Sprintf("cannot read its handler: %v", err), ""
	case !info.Mode().IsRegular():
		return fmt.Sprintf("its handler %s is not a file", h.Path), ""
	case !h.Module && runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		return fmt.Sprintf("its handler %s is not executable", h.Path), "run \"chmod +x " + h.Path + "\""
	case !h.Module:
		return "", ""
	}
	version, err := node()
	if err != nil {
		return fmt.Sprintf("its handler needs Node.js: %v", err), "install Node.js " + stripsTypes + " or later"
	}
	if older(version, oldestNode) {
		return fmt.Sprintf("its handler needs Node.js %s or later, and this machine has %s", oldestNode, version), "update Node.js"
	}
	if ext := strings.ToLower(filepath.Ext(h.Path)); strings.HasSuffix(ext, "ts") && older(version, stripsTypes) {
		return fmt.Sprintf("its handler is TypeScript, which needs Node.js %s or later, and this machine has %s", stripsTypes, version), "update Node.js, or compile the handler to JavaScript"
	}
	return "", ""
}

// older reports whether a version, MAJOR.MINOR.PATCH, is older than a limit, MAJOR.MINOR.
func older(version, limit string) bool {
	var major, minor, limitMajor, limitMinor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // an unknown version is 0.0
	_, _ = fmt.Sscanf(limit, "%d.%d", &limitMajor, &limitMinor)
	return major < limitMajor || major == limitMajor && minor < limitMinor
}

// nodeVersion returns a function that asks the node on a PATH for its version, once. An empty path
// is the PATH of this process.
func nodeVersion(path string) func() (string, error) {
	path = cmp.Or(path, os.Getenv("PATH"))
	return sync.OnceValues(func() (string, error) {
		for _, dir := range filepath.SplitList(path) {
			program, err := exec.LookPath(filepath.Join(dir, "node"))
			if err != nil || !filepath.IsAbs(program) {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			out, err := exec.CommandContext(ctx, program, "--version").Output()
			if err != nil {
				return "", fmt.Errorf("%s --version: %w", program, err)
			}
			return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), nil
		}
		return "", fmt.Errorf("no program \"node\" on the PATH %s", path)
	})
}
