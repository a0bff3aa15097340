//go:build system

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

func TestMain(m *testing.M) {
	process.SandboxMain()
	// If a part of Grapnel starts its own executable again, it would start these tests, which
	// would start programs without end.
	if base := filepath.Base(os.Args[0]); strings.Contains(base, ".test") && len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintf(os.Stderr, "the test binary was started as a program: %q\n", os.Args)
		os.Exit(1)
	}
	testscript.Main(withPrograms{m}, map[string]func(){
		"nolandlock": noLandlock,
		"index":      indexed,
		"flip":       flip,
	})
}

// withPrograms runs the tests with the real programs on PATH.
type withPrograms struct{ *testing.M }

// concurrent is the directory of the programs for scripts about daemons and workers.
var concurrent string

func (m withPrograms) Run() int {
	dir, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	concurrent = dir
	if race, removeRace, err := programs.Dir(programs.Race); err == nil { // needs a C compiler
		defer removeRace()
		mixed, err := os.MkdirTemp("", "grapnel-programs-")
		if err == nil {
			defer func() { _ = os.RemoveAll(mixed) }()
			err = mix(mixed, dir, race)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		concurrent = mixed
	}
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// mix makes a directory of programs. Daemons and grapnel-hook have the race detector. Other commands
// have not, because they run one after the other and it makes their start twenty times slower.
func mix(dir, plain, race string) error {
	if runtime.GOOS == "windows" {
		return os.CopyFS(dir, os.DirFS(race)) // no shell starts the one or the other
	}
	const choose = "#!/bin/sh\ncase \"$1\" in serve | daemon) exec '%s/grapnel' \"$@\" ;; *) exec '%s/grapnel' \"$@\" ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "grapnel"), fmt.Appendf(nil, choose, race, plain), 0o700); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(race, "grapnel-hook"), filepath.Join(dir, "grapnel-hook"))
}

const scripts = "testdata/script"

// startsConcurrent matches scripts that start a daemon or a worker.
var startsConcurrent = regexp.MustCompile(`grapnel (daemon|serve)|worker:`)

// TestScripts runs the real programs with inline files, and checks stdout, stderr and the exit
// status. Scripts about daemons and workers run them with the race detector.
func TestScripts(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { // after all scripts
		if run := flag.Lookup("test.run").Value.String(); checkedRecords.Load() == 0 && !strings.Contains(run, "/") {
			t.Error("no Record was compared with the schema")
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:                 scripts,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("HOOKS_DIR", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", "")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each program with the race detector waits a second at its end
			env.Setenv("CLAUDE_CONFIG_DIR", "")
			env.Setenv("GEMINI_CLI_HOME", "")
			env.Defer(func() {
				endDaemons(env.WorkDir)
				if tt, ok := env.T().(interface{ Errorf(string, ...any) }); ok {
					checkRecords(tt.Errorf, env.WorkDir)
				}
			})
			script, err := os.ReadFile(filepath.Join(scripts, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")+".txtar"))
			if err != nil {
				return err
			}
			if startsConcurrent.Match(script) {
				env.Setenv("PATH", concurrent+string(filepath.ListSeparator)+env.Getenv("PATH"))
			}
			return errors.Join(setTerminal(env), settle(env.WorkDir), os.MkdirAll(env.WorkDir+"/home", 0o700))
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "landlock":
				return (&process.Sandbox{}).Possible() == nil, nil
			case "root":
				return os.Getuid() == 0, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"big":     big,
			"lines":   lines,
			"waitfor": waitFor,
			"until":   until,
			"expand":  expand,
			"save":    save,
			"signal":  signalDaemon,
			"valid":   valid,

			"onterminal": onTerminal,
		},
	})
}

// exits runs a program and checks its exact exit status: exits 64 grapnel nonsense
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// big writes a Write event of the given size: big FILE BYTES
func big(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	b.WriteString(`{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"/x","content":"`)
	b.Write(bytes.Repeat([]byte("x"), size))
	b.WriteString(`"}}`)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
}

// lines checks the number of lines in a file: lines FILE N
func lines(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.Itoa(bytes.Count(data, []byte("\n"))); got != args[1] {
		ts.Fatalf("%s has %s lines, want %s", args[0], got, args[1])
	}
}

// expand replaces the variables in a file by their values: expand FILE
func expand(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(string(text), ts.Getenv)), 0o600))
	ts.Check(settle(ts.MkAbs(args[0])))
}

// settle makes files older, because a changed policy counts only some time after the change.
func settle(root string) error {
	before := time.Now().Add(-time.Minute)
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return os.Chtimes(name, before, before)
	})
}

// save copies a policy or hook file, whose content counts at once: save FROM TO
func save(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	to := ts.MkAbs(args[1])
	ts.Check(errors.Join(os.WriteFile(to, text, 0o600), settle(to)))
}

// until waits until a file matches: until FILE REGEXP
func until(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile(args[1])
	var data []byte
	if !within(func() bool {
		data, _ = os.ReadFile(ts.MkAbs(args[0]))
		return re.Match(data)
	}) {
		ts.Fatalf("%s does not come to hold %s:\n%s", args[0], args[1], data)
	}
}

// waitfor waits until a file exists: waitfor FILE
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	if !within(func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	}) {
		ts.Fatalf("%s did not appear", args[0])
	}
}

// within reports whether ok returns true before await.Limit has passed. It is for commands of
// scripts, which have no testing.TB.
func within(ok func() bool) bool {
	for end := time.Now().Add(await.Limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// checkRecords compares all Records that the programs wrote below a directory with the schema.
// Lines that are not JSON are damaged on purpose.
func checkRecords(fail func(string, ...any), dir string) {
	schema, err := recordSchema()
	if err != nil {
		fail("%v", err)
		return
	}
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || e.Name() != spool.JournalDir {
			return nil // scripts also make directories that cannot be read
		}
		log, err := spool.OpenLog(filepath.Dir(name), time.Time{})
		if err != nil {
			return nil // as above
		}
		defer log.Close()
		for line, err := range log.From(0) {
			var rec any
			if err != nil || line.Torn != nil || json.Unmarshal(line.Text, &rec) != nil {
				continue
			}
			checkedRecords.Add(1)
			if err := schema.Validate(rec); err != nil {
				fail("%s: %v\n%s", name, err, line.Text)
			}
		}
		return nil
	})
}

// checkedRecords counts the Records that checkRecords has compared.
var checkedRecords atomic.Int64

var recordSchema = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(records.Schema()), &schema); err != nil {
		return nil, err
	}
	return schema.Resolve(nil)
})

// valid compares each line of a file with the schema of Records: valid FILE
func valid(ts *testscript.TestScript, _ bool, args []string) {
	schema, err := recordSchema()
	ts.Check(err)
	lines := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var rec any
		ts.Check(json.Unmarshal([]byte(line), &rec))
		ts.Check(schema.Validate(rec))
		lines++
	}
	if lines == 0 {
		ts.Fatalf("%s has no Records", args[0])
	}
}
