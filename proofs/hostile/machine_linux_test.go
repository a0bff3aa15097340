//go:build system

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A machine is a separate system for Grapnel: it has its own user database, home directory and
// /etc, in namespaces that need no privilege. So Grapnel can be installed as on a real machine,
// without --root.
type machine struct {
	dir     string
	home    string // the user's, from the user database
	project string
}

// insideVar names the environment variable with the directory that a process mounts over /etc
// before it starts the program in its arguments.
const insideVar = "GRAPNEL_HOSTILE_ETC"

// enterMachine never returns.
func enterMachine() {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount(os.Getenv(insideVar), "/etc", "", syscall.MS_BIND, "")
	}
	if err == nil {
		var env []string
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, insideVar+"=") {
				env = append(env, strings.TrimPrefix(v, "INSIDE_"))
			}
		}
		err = syscall.Exec(os.Args[1], os.Args[1:], env)
	}
	fmt.Fprintln(os.Stderr, "no machine:", err)
	os.Exit(111)
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "machine-") //nolint:usetesting // a drain may still write there when the test is over
	if err != nil {
		t.Fatal(err)
	}
	m := machine{dir: dir, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	for _, sub := range []string{m.home, m.etc(), filepath.Join(m.project, ".git")} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write(t, filepath.Join(m.etc(), "passwd"), "root:x:0:0:root:"+m.home+":/bin/sh\n")
	if r := m.run(t, []string{"/bin/true"}, nil, nil); r.exit == 111 || r.exit < 0 {
		t.Skipf("this kernel gives no name spaces: %v", r)
	}
	return m
}

func (m machine) etc() string { return filepath.Join(m.dir, "etc") }

// write writes a file, which looks a minute old: a policy that was changed just now counts only
// some time later.
func (m machine) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-time.Minute)
	if err := os.Chtimes(name, before, before); err != nil {
		t.Fatal(err)
	}
}

// run runs a program in the project. It adds env after the default variables.
func (m machine) run(t *testing.T, args, env []string, stdin io.Reader) result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = []string{insideVar + "=" + m.etc()}
	for _, v := range append([]string{"PATH=/usr/bin:/bin", "HOME=" + m.home, "LANG=C.UTF-8"}, env...) {
		cmd.Env = append(cmd.Env, "INSIDE_"+v) // not for the process that only builds the machine
	}
	cmd.Dir, cmd.Stdin = m.project, stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		if cmd.ProcessState == nil {
			return result{stderr: err.Error(), exit: -2}
		}
	}
	return result{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
}

// grapnel runs a command of grapnel, which must succeed.
func (m machine) grapnel(t *testing.T, args ...string) string {
	t.Helper()
	r := m.run(t, append([]string{filepath.Join(built, "grapnel")}, args...), nil, nil)
	if r.exit != 0 {
		t.Fatalf("grapnel %q: %v", args, r)
	}
	return r.stdout
}

// install installs Grapnel into Claude Code, and returns the command in its settings.
func (m machine) install(t *testing.T, policy string, flags ...string) []string {
	t.Helper()
	m.write(t, filepath.Join(m.home, ".config", "grapnel", "grapnel.yaml"), policy)
	m.grapnel(t, append([]string{"install", "claude-code", "--yes"}, flags...)...)
	for _, name := range []string{filepath.Join(m.home, ".claude", "settings.json"), filepath.Join(m.etc(), "claude-code", "managed-settings.json")} {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if found := regexp.MustCompile(`"command": *"(\S+grapnel-hook) --id ([a-z2-7]+)"`).FindSubmatch(data); found != nil {
			return []string{string(found[1]), "--id", string(found[2])}
		}
		t.Fatalf("%s holds no command: %s", name, data)
	}
	t.Fatal("nothing was installed")
	return nil
}

// event returns a Claude Code event in the project.
func (m machine) event(name, more string) io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"session_id":"s","transcript_path":"/t","cwd":%q,"hook_event_name":%q%s}`, m.project, name, more))
}

func (m machine) bash(command string) io.Reader {
	return m.event("PreToolUse", fmt.Sprintf(`,"permission_mode":"default","tool_name":"Bash","tool_input":{"command":%q},"tool_use_id":"t"`, command))
}

// denied checks that a reply denies a call, in the agent's format, with this reason.
func (m machine) denied(t *testing.T, what string, r result, reason string) {
	t.Helper()
	if r.exit != 0 || !strings.Contains(r.stdout, `"permissionDecision":"deny"`) || !strings.Contains(r.stdout, reason) {
		t.Errorf("%s: %v, want that it is denied with %q", what, r, reason)
	}
}

const installedPolicy = `version: 1
hooks:
  - {name: guard, on: tool.before, match: {command: rm}, block: not this one}
  - {name: which, on: tool.before, match: {command: ls}, run: "which-one; env > '@out@'", on_error: closed}
`

// A project's settings can set any variable of the hook, for example with the member env of
// Claude Code. The installed policy still decides, the installed programs run, and no file that
// the variables name is read.
func TestInstalledEnvironment(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	out := filepath.Join(m.dir, "out")
	bin, evil := filepath.Join(m.home, "bin"), filepath.Join(m.project, "evil")
	m.write(t, filepath.Join(bin, "which-one"), "#!/bin/sh\nexit 0\n")
	m.write(t, filepath.Join(evil, "which-one"), "#!/bin/sh\necho evil > '"+out+".evil'\n")
	m.write(t, filepath.Join(evil, "rc"), "echo evil > '"+out+".evil'\n")
	for _, dir := range []string{".config", ".local/state", "."} { // possible locations of a policy
		m.write(t, filepath.Join(evil, dir, "grapnel", "grapnel.yaml"), "version: 1\nhooks:\n  - {name: yes, on: tool.before, allow: true}\n")
	}
	m.write(t, filepath.Join(m.home, ".config", "grapnel", "grapnel.yaml"), "version: 1\n")
	policy := filepath.Join(m.home, ".config", "grapnel", "grapnel.yaml")
	m.write(t, policy, strings.ReplaceAll(installedPolicy, "@out@", out))
	r := m.run(t, []string{filepath.Join(built, "grapnel"), "install", "claude-code", "--yes"}, []string{"PATH=" + bin + ":/usr/bin:/bin"}, nil)
	if r.exit != 0 {
		t.Fatal(r)
	}
	data, err := os.ReadFile(filepath.Join(m.home, ".claude", "settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`--id ([a-z2-7]+)`).FindSubmatch(data)
	if id == nil {
		t.Fatalf("no installation in %s", data)
	}
	hook := []string{filepath.Join(built, "grapnel-hook"), "--id", string(id[1])}
	for _, env := range [][]string{
		{"PATH=" + evil},
		{"PATH="},
		{"PATH=.:" + evil},
		{"HOME=" + evil},
		{"HOME="},
		{"XDG_CONFIG_HOME=" + evil},
		{"XDG_CONFIG_HOME=" + evil + "/.config"},
		{"XDG_STATE_HOME=" + evil},
		{"XDG_CONFIG_DIRS=" + evil},
		{"XDG_DATA_HOME=" + evil},
		{"XDG_RUNTIME_DIR=" + evil},
		{"LD_PRELOAD=" + evil + "/x.so"},
		{"LD_LIBRARY_PATH=" + evil},
		{"LD_AUDIT=" + evil + "/x.so"},
		{"BASH_ENV=" + evil + "/rc"},
		{"ENV=" + evil + "/rc"},
		{"SHELL=" + evil + "/which-one"},
		{"SHELLOPTS=xtrace"},
		{"PS4=$(echo evil > " + out + ".evil)"},
		{"BASH_FUNC_which-one%%=() { echo evil > " + out + ".evil; }"},
		{"NODE_OPTIONS=--require " + evil + "/x.js"},
		{"PYTHONPATH=" + evil},
		{"PERL5OPT=-Mevil"},
		{"GODEBUG=gctrace=1,execerrdot=0"},
		{"GOMEMLIMIT=1"},
		{"GOGC=1"},
		{"GOGC=off"},
		{"GOTRACEBACK=crash"},
		{"GOMAXPROCS=1"},
		{"GOMAXPROCS=64", "GOGC=1", "GOMEMLIMIT=1"},
		{"GRAPNEL_ROOT=" + evil},
		{"GRAPNEL_POLICY=" + evil + "/grapnel/grapnel.yaml"},
		{"GRAPNEL_STATE=" + evil},
		{"GRAPNEL_ID=aaaaaaaaaaaaaaaaaaaaaaaaaa"},
		{"GRAPNEL_DEPTH=0"},
		{"GRAPNELDEBUG=off"},
		{"TMPDIR=" + evil},
		{"TMPDIR=/nowhere"},
		{"SSL_CERT_FILE=" + evil + "/rc"},
		{"SSL_CERT_DIR=" + evil},
		{"HTTP_PROXY=http://127.0.0.1:1"},
		{"HTTPS_PROXY=http://127.0.0.1:1"},
		{"https_proxy=http://127.0.0.1:1"},
		{"CLAUDE_CONFIG_DIR=" + evil},
		{"CLAUDE_PROJECT_DIR=" + evil},
		{"USER=somebody", "LOGNAME=somebody"},
		{"CI=true"},
	} {
		what := strings.Join(env, " ")
		m.denied(t, what, m.run(t, hook, env, m.bash("rm -rf x")), "not this one")
		_ = os.Remove(out)
		r := m.run(t, hook, env, m.bash("ls"))
		if r.exit != 0 || strings.Contains(r.stdout, "deny") || strings.Contains(r.stdout, "allow") {
			t.Errorf("%s: %v, want no opinion: the program of the installation runs", what, r)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Errorf("%s: the program did not run: %v", what, err)
		}
		for line := range strings.Lines(string(got)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			ours := strings.HasPrefix(name, "GRAPNEL_") || name == "PWD" || name == "TMPDIR" || name == "XDG_RUNTIME_DIR" || strings.HasPrefix(name, "CLAUDE_") || name == "OLDPWD"
			if !ours && (strings.Contains(value, evil) || strings.Contains(value, "127.0.0.1")) {
				t.Errorf("%s: its programs are told %s", what, line)
			}
			if name == "HOME" && value != m.home {
				t.Errorf("%s: its programs are at home in %s, want %s", what, value, m.home)
			}
		}
		if _, err := os.Stat(out + ".evil"); err == nil {
			t.Errorf("%s: what the project brought was run", what)
			_ = os.Remove(out + ".evil")
		}
		entries, err := os.ReadDir(evil)
		if err != nil || len(entries) != 5 {
			t.Errorf("%s: something was written below it: %v, %v", what, entries, err)
		}
	}
}

// If the record of an installation cannot be read, its policy is unknown: tools are blocked, the
// user gets a hint, and neither prompts nor stops are blocked. Installing again fixes the
// problem.
func TestInstallationWithoutRecord(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(m machine, record string) error
		want  string
	}{
		"gone":     {func(_ machine, record string) error { return os.Remove(record) }, "no such installation"},
		"all gone": {func(m machine, _ string) error { return os.RemoveAll(filepath.Join(m.home, ".local")) }, "no such installation"},
		"empty":    {func(_ machine, record string) error { return os.Truncate(record, 0) }, "unexpected end of JSON"},
		"cut off":  {func(_ machine, record string) error { return os.Truncate(record, 20) }, "unexpected end of JSON"},
		"of another": {func(_ machine, record string) error {
			return os.WriteFile(record, []byte(`{"id":"bbbbbbbbbbbbbbbbbbbbbbbbbb"}`), 0o600)
		}, "is the record of"},
		"names nothing": {func(_ machine, record string) error {
			id := strings.TrimSuffix(filepath.Base(record), ".json")
			return os.WriteFile(record, []byte(`{"id":"`+id+`"}`), 0o600)
		}, "has no valid"},
		"for all":        {func(_ machine, record string) error { return os.Chmod(record, 0o666) }, "is writable by other users"},
		"a directory of": {func(_ machine, record string) error { return os.Chmod(filepath.Dir(record), 0o777) }, "all users can write"},
		"a pipe": {func(_ machine, record string) error {
			return errors.Join(os.Remove(record), syscall.Mkfifo(record, 0o600))
		}, "not a regular file"},
		"a link": {func(_ machine, record string) error {
			return errors.Join(os.Remove(record), os.Symlink("/dev/zero", record))
		}, "not a regular file"},
		"no user": {func(m machine, _ string) error {
			return os.WriteFile(filepath.Join(m.etc(), "passwd"), []byte("\n"), 0o644)
		}, "home directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			hook := m.install(t, "version: 1\nhooks:\n  - {name: guard, on: [tool.before, agent.after, prompt.before], match: {text: never}, block: no}\n")
			record := filepath.Join(m.home, ".local", "state", "grapnel", "installs", hook[2]+".json")
			if r := m.run(t, hook, nil, m.bash("ls")); r.exit != 0 || r.stdout != "" {
				t.Fatalf("before: %v", r)
			}
			if err := tt.spoil(m, record); err != nil {
				t.Fatal(err)
			}
			r := m.run(t, hook, nil, m.bash("ls"))
			m.denied(t, "a tool", r, tt.want)
			if name != "no user" && !strings.Contains(r.stdout, "grapnel install") {
				t.Errorf("the way out is not named: %v", r)
			}
			for _, ev := range []io.Reader{m.event("UserPromptSubmit", `,"prompt":"hello"`), m.event("Stop", ""), m.event("SessionStart", `,"source":"startup"`), m.event("SessionEnd", `,"reason":"other"`)} {
				if r := m.run(t, hook, nil, ev); r.exit != 0 || strings.Contains(r.stdout, `"decision":"block"`) || strings.Contains(r.stdout, `"continue":false`) {
					t.Errorf("the person is locked out: %v", r)
				}
			}
			if r := m.run(t, hook, nil, m.event("UserPromptSubmit", `,"prompt":"hello"`)); !strings.Contains(r.stdout, "systemMessage") {
				t.Errorf("the person is not told: %v", r)
			}
			if name == "no user" || name == "a pipe" || name == "a directory of" {
				return // needs a manual repair
			}
			if r := m.run(t, []string{filepath.Join(built, "grapnel"), "doctor", "claude-code", "--no-run"}, nil, nil); r.exit != 1 || !strings.Contains(r.stdout, "bad ") && !strings.Contains(r.stdout, "install.stray") {
				t.Errorf("doctor finds nothing: %v", r)
			}
			m.grapnel(t, "install", "claude-code", "--yes")
			data, err := os.ReadFile(filepath.Join(m.home, ".claude", "settings.json"))
			if err != nil {
				t.Fatal(err)
			}
			again := regexp.MustCompile(`--id ([a-z2-7]+)`).FindAllStringSubmatch(string(data), -1)
			for _, id := range again {
				if id[1] != again[0][1] {
					t.Errorf("there are two installations in %s", data)
				}
			}
			if r := m.run(t, []string{hook[0], "--id", again[0][1]}, nil, m.bash("ls")); r.exit != 0 || r.stdout != "" {
				t.Errorf("installed once more: %v", r)
			}
			digest := regexp.MustCompile(`(?m)^digest (\S+)$`).FindStringSubmatch(m.grapnel(t, "uninstall", "claude-code", "--dry-run"))
			if digest == nil {
				t.Fatal("the dry run has no digest")
			}
			m.grapnel(t, "uninstall", "claude-code", "--digest", digest[1])
			if data, err := os.ReadFile(filepath.Join(m.home, ".claude", "settings.json")); err == nil && strings.Contains(string(data), "grapnel-hook") {
				t.Errorf("after uninstall: %s", data)
			}
		})
	}
}

// A managed policy in the system's directory: no setting of a user disables it, and a missing
// program of the policy blocks.
func TestManagedMachine(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be taken for root")
	}
	m := newMachine(t)
	m.write(t, filepath.Join(m.etc(), "grapnel", "policy.d", "a.yaml"), "version: 1\nhooks:\n  - {name: root, on: tool.before, match: {command: rm}, block: root says no}\n  - {name: prog, on: tool.before, match: {command: mv}, run: [/opt/gone/check]}\n")
	hook := m.install(t, "version: 1\nhooks:\n  - {name: yes, on: tool.before, allow: true}\n  - {name: root, on: tool.before, mode: observe, block: x}\n")
	m.denied(t, "a tool", m.run(t, hook, nil, m.bash("rm x")), "root says no")
	if r := m.run(t, hook, nil, m.bash("ls")); !strings.Contains(r.stdout, `"allow"`) {
		t.Errorf("the user's allow: %v", r)
	}
	m.denied(t, "a program that is gone", m.run(t, hook, nil, m.bash("mv a b")), "prog")
	// A user's pause does not affect a managed policy.
	pause := fmt.Sprintf(`{"since":%q,"until":%q}`, time.Now().Add(-time.Minute).Format(time.RFC3339Nano), time.Now().Add(time.Hour).Format(time.RFC3339Nano))
	m.write(t, filepath.Join(m.home, ".local", "state", "grapnel", "pause.json"), pause)
	if r := m.run(t, hook, nil, m.bash("ls")); strings.Contains(r.stdout, `"allow"`) {
		t.Errorf("there is no pause: %v", r)
	}
	m.denied(t, "while there is a pause", m.run(t, hook, nil, m.bash("rm x")), "root says no")
	// Files that disable other guards.
	for _, name := range []string{".grapnel.disabled", ".disabled", ".local/state/grapnel/.disabled", ".local/state/grapnel/disabled", ".config/grapnel/.disabled", ".claude/.disabled"} {
		m.write(t, filepath.Join(m.home, name), "")
		m.write(t, filepath.Join(m.project, name), "")
	}
	m.denied(t, "with .disabled", m.run(t, hook, nil, m.bash("rm x")), "root says no")
	// A managed policy that disables all other policies.
	m.write(t, filepath.Join(m.etc(), "grapnel", "policy.d", "b.yaml"), "version: 1\nuse_only_managed: true\n")
	if err := os.Remove(filepath.Join(m.home, ".local", "state", "grapnel", "pause.json")); err != nil {
		t.Fatal(err)
	}
	if r := m.run(t, hook, nil, m.bash("ls")); r.stdout != "" || r.exit != 0 {
		t.Errorf("the user's allow counts beside use_only_managed: %v", r)
	}
	if r := m.run(t, hook, nil, m.event("SessionStart", `,"source":"startup"`)); !strings.Contains(r.stdout, "allows only managed policies") {
		t.Errorf("nobody is told: %v", r)
	}
	// A policy that other users can write is not used, and tools are blocked.
	if err := os.Chmod(filepath.Join(m.etc(), "grapnel"), 0o777); err != nil {
		t.Fatal(err)
	}
	m.denied(t, "a directory that all can write", m.run(t, hook, nil, m.bash("ls")), "users other than root can write to it")
}
