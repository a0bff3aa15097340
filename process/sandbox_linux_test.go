//go:build system

// The race detector finds nothing in the short programs that these tests start in a sandbox, and
// makes their start ten times slower.

package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// A place is a project, a home directory with a secret, and the processes and sockets that a
// program could reach.
type place struct {
	dir, project, secret string
	victim               string // the process ID of another process
	tcp, udp, unix, gram string
	abstract             string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{dir: t.TempDir()}
	p.project, p.secret = filepath.Join(p.dir, "project"), filepath.Join(p.dir, "home", ".ssh", "id")
	for _, dir := range []string{filepath.Join(p.project, "out"), filepath.Dir(p.secret)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{p.secret: "secret", filepath.Join(p.project, "file"): "code", filepath.Join(p.project, "out", "kept"): "kept"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": p.secret, "out/link": p.secret, "dirlink": filepath.Dir(p.secret)} {
		if err := os.Symlink(to, filepath.Join(p.project, link)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim, err := os.StartProcess(self, []string{self}, &os.ProcAttr{Env: append(os.Environ(), roleVar+"=sleeper")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Kill(); _, _ = victim.Wait() })
	p.victim = strconv.Itoa(victim.Pid)

	var lc net.ListenConfig
	for _, l := range []struct {
		network, at string
		into        *string
	}{{"tcp", "127.0.0.1:0", &p.tcp}, {"unix", filepath.Join(p.project, "s"), &p.unix}, {"unix", "@grapnel-test-" + p.victim, &p.abstract}} {
		listener, err := lc.Listen(t.Context(), l.network, l.at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		*l.into = listener.Addr().String()
	}
	for _, l := range []struct {
		network, at string
		into        *string
	}{{"udp", "127.0.0.1:0", &p.udp}, {"unixgram", filepath.Join(p.project, "g"), &p.gram}} {
		c, err := lc.ListenPacket(t.Context(), l.network, l.at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		*l.into = c.LocalAddr().String()
	}
	return p
}

// probe runs a program that attempts an action, and reports whether it succeeded.
func (p *place) probe(t *testing.T, by process.Executor, try ...string) (could bool, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	end, err := by.Run(ctx, &process.Program{
		Args: append([]string{self}, try...), Env: append(os.Environ(), roleVar+"=prober", "GORACE=atexit_sleep_ms=0"), Dir: p.project, MaxOutput: 1 << 16,
		Event: &grapnel.Event{Session: grapnel.Session{CWD: p.project, Root: p.project}},
	})
	if err != nil {
		t.Fatalf("%v: %v", try, err)
	}
	output = fmt.Sprintf("%s%s", end.Stdout.Head, end.Stderr.Head)
	if end.Exit != 0 && end.Exit != 1 || end.Signal != "" || end.Stopped != nil {
		t.Fatalf("%v: exit %d, signal %q, %v: %s", try, end.Exit, end.Signal, end.Stopped, output)
	}
	return end.Exit == 0, output
}

// Actions that a program in a sandbox can and cannot do. Each forbidden action is first done
// without a sandbox, because the test proves nothing if the action fails there, too.
func TestSandbox(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	p := newPlace(t)
	in := func(name string) string { return filepath.Join(p.project, name) }
	reads := &process.Sandbox{Read: []string{"{root}"}}
	writes := &process.Sandbox{Read: []string{"{root}"}, Write: []string{"out"}, Dir: p.project}
	_, port, _ := net.SplitHostPort(p.tcp)
	number, _ := strconv.Atoi(port)
	ports := &process.Sandbox{Ports: []uint16{uint16(number)}}
	others := &process.Sandbox{Ports: []uint16{1}}
	anywhere := &process.Sandbox{Net: true}
	parent := strconv.Itoa(os.Getpid())
	tests := map[string]struct {
		box   *process.Sandbox
		try   []string
		could bool
	}{
		"a file of the project":                 {reads, []string{"read", in("file")}, true},
		"a file that is not listed":             {&process.Sandbox{}, []string{"read", in("file")}, false},
		"a secret":                              {reads, []string{"read", p.secret}, false},
		"a secret by dots":                      {reads, []string{"read", p.project + "/../home/.ssh/id"}, false},
		"a secret by relative dots":             {reads, []string{"read", "../home/.ssh/id"}, false},
		"a secret by a link":                    {reads, []string{"read", in("link")}, false},
		"a secret by a link to its directory":   {reads, []string{"read", in("dirlink/id")}, false},
		"a secret by a link in what is written": {writes, []string{"append", in("out/link")}, false},
		"a secret by a link of its own":         {writes, []string{"linkread", p.secret, in("out/own")}, false},
		"a secret by a hard link":               {writes, []string{"link", p.secret, in("out/hard")}, false},
		"a secret by the root of a process":     {reads, []string{"read", "/proc/self/root" + p.secret}, false},
		"a secret by the root of the parent":    {reads, []string{"read", "/proc/" + parent + "/root" + p.secret}, false},
		"a secret by the directory of another":  {reads, []string{"list", "/proc/" + p.victim + "/cwd/"}, false},
		"a secret by a grandchild":              {reads, []string{"child", "read", p.secret}, false},
		"names of secrets":                      {reads, []string{"list", filepath.Dir(p.secret)}, false},
		"the temporary files of others":         {reads, []string{"list", p.dir}, false},
		"a change of what is read":              {reads, []string{"append", in("file")}, false},
		"a new file beside what is read":        {reads, []string{"write", in("new")}, false},
		"emptying what is read":                 {reads, []string{"empty", in("file")}, false},
		"emptying what is read, by opening it":  {reads, []string{"rdtrunc", in("file")}, false},
		"removing what is read":                 {writes, []string{"remove", in("gone")}, false},
		"a directory in what is read":           {reads, []string{"mkdir", in("newdir")}, false},
		"moving into what is read":              {writes, []string{"rename", in("out/move"), in("moved")}, false},
		"moving out of what is read":            {writes, []string{"rename", in("move2"), in("out/moved2")}, false},
		"hard link to what is read":             {writes, []string{"link", in("file"), in("out/hard2")}, false},
		"a change of what is written":           {writes, []string{"append", in("out/kept")}, true},
		"a new file in what is written":         {writes, []string{"write", in("out/new2")}, true},
		"a new directory in what is written":    {writes, []string{"mkdir", in("out/dir")}, true},
		"reading what is written":               {writes, []string{"read", in("out/kept")}, true},
		"what is not readable, run":             {&process.Sandbox{}, []string{"exec", in("tool")}, false},
		"what is readable, run":                 {reads, []string{"exec", in("tool")}, true},
		"the environment of the parent":         {reads, []string{"read", "/proc/" + parent + "/environ"}, false},
		"the environment of another":            {&process.Sandbox{Read: []string{"/proc"}}, []string{"read", "/proc/" + p.victim + "/environ"}, false},
		"the command line of another":           {reads, []string{"read", "/proc/" + p.victim + "/cmdline"}, false},
		"the memory map of another":             {&process.Sandbox{Read: []string{"/proc"}}, []string{"read", "/proc/" + p.victim + "/maps"}, false},
		"the memory of another":                 {&process.Sandbox{Read: []string{"/proc"}}, []string{"memory", p.victim}, false},
		"the streams of another":                {reads, []string{"stealfd", p.victim}, false},
		"ptrace of another":                     {reads, []string{"ptrace", p.victim}, false},
		"a signal for the parent":               {reads, []string{"kill", parent}, false},
		"a signal for another":                  {reads, []string{"kill", p.victim}, false},
		"a signal by a descriptor":              {reads, []string{"pidfd", p.victim}, false},
		"a signal by a grandchild":              {reads, []string{"child", "kill", p.victim}, false},
		"the limits of another":                 {reads, []string{"limit", p.victim}, false},
		"a session of its own":                  {reads, []string{"setsid"}, false},
		"a group of its own":                    {reads, []string{"setpgid"}, false},
		"typing into the terminal":              {reads, []string{"type"}, false},
		"more rights":                           {reads, []string{"setuid"}, false},
		"TCP":                                   {reads, []string{"tcp", p.tcp}, false},
		"UDP":                                   {reads, []string{"udp", p.udp}, false},
		"a unix socket":                         {writes, []string{"unix", p.unix}, false},
		"a unix socket for datagrams":           {writes, []string{"unixgram", p.gram}, false},
		"a unix socket by a pair":               {writes, []string{"pairgram", p.gram}, false},
		"an abstract socket":                    {reads, []string{"unix", p.abstract}, false},
		"a pair of sockets":                     {reads, []string{"pair"}, true},
		"netlink":                               {reads, []string{"socket", "16", "3", "0"}, false},
		"io_uring":                              {reads, []string{"uring"}, false},
		"the keys of the kernel":                {reads, []string{"keyring"}, false},
		"TCP by a grandchild":                   {reads, []string{"child", "tcp", p.tcp}, false},
		"TCP to a port that is listed":          {ports, []string{"tcp", p.tcp}, true},
		"TCP to one that is not":                {others, []string{"tcp", p.tcp}, false},
		"fast TCP to one that is not":           {others, []string{"fastopen", p.tcp, "to"}, false},
		"fast TCP by a message":                 {others, []string{"fastopen", p.tcp, "msg"}, false},
		"UDP beside ports":                      {ports, []string{"udp", p.udp}, false},
		"multipath TCP beside ports":            {ports, []string{"socket", "2", "1", "262"}, false},
		"unix sockets beside ports":             {ports, []string{"unix", p.unix}, false},
		"waiting for others beside ports":       {ports, []string{"listen"}, false},
		"waiting without a port beside ports":   {ports, []string{"autobind"}, false},
		"TCP to anywhere":                       {anywhere, []string{"tcp", p.tcp}, true},
		"UDP to anywhere":                       {anywhere, []string{"udp", p.udp}, true},
		"unix sockets beside any network":       {anywhere, []string{"unix", p.unix}, false},
		"abstract sockets beside any network":   {anywhere, []string{"unix", p.abstract}, false},
		"virtual machines beside any network":   {anywhere, []string{"socket", "40", "1", "0"}, false},
	}
	program(t, in("tool"), "exit 0")
	for _, name := range []string{"gone", "out/move", "move2"} {
		if err := os.WriteFile(in(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if could, output := p.probe(t, process.System, "memory", p.victim); !could {
		t.Fatalf("the memory of another, without a sandbox: %s", output)
	}
	// These actions change files that the next attempt needs, so the test does them without a
	// sandbox only afterwards.
	once := []string{
		"removing what is read", "moving into what is read", "moving out of what is read", "a secret by a hard link", "hard link to what is read",
		"a secret by a link of its own", "a new directory in what is written", "a directory in what is read", "emptying what is read", "emptying what is read, by opening it", "ptrace of another",
	}
	// The machine of the test may not support these actions.
	maybe := []string{"io_uring", "the keys of the kernel", "fast TCP to one that is not", "fast TCP by a message", "multipath TCP beside ports", "virtual machines beside any network", "more rights", "the streams of another"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !test.could && !slices.Contains(once, name) {
				if could, output := p.probe(t, process.System, test.try...); !could && !slices.Contains(maybe, name) {
					t.Errorf("%v: without a sandbox it cannot either, so nothing is shown: %s", test.try, output)
				}
			}
			could, output := p.probe(t, test.box, test.try...)
			if could != test.could {
				t.Errorf("%v: could = %v, want %v: %s", test.try, could, test.could, output)
			}
			if slices.Contains(once, name) && !test.could && name != "ptrace of another" {
				if could, output := p.probe(t, process.System, test.try...); !could {
					t.Errorf("%v: without a sandbox it cannot either, so nothing is shown: %s", test.try, output)
				}
			}
		})
	}
}

func needLandlock(t *testing.T) {
	t.Helper()
	if err := (&process.Sandbox{}).Possible(); err != nil {
		testImpossible(t)
		t.SkipNow() // testImpossible has tested this case
	}
}

// testImpossible checks that a machine without Landlock refuses to run the program.
func testImpossible(t *testing.T) {
	t.Helper()
	c := &process.Command{Line: "echo '{\"decision\":\"block\"}'", Executor: &process.Sandbox{}}
	out, err := c.Handle(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore})
	if !errors.Is(err, process.ErrStart) || !errors.Is(err, process.ErrSandbox) || out.Decision != grapnel.None {
		t.Errorf("without Landlock: %v, %v; want an error that it cannot be sandboxed", out, err)
	}
}

func program(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func ask1(t *testing.T, c *process.Command) (grapnel.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Handle(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash"}})
}

// Except for TMPDIR, the input and the output of a program are the same as without a sandbox.
func TestSandboxIsTransparent(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	lines := map[string]string{
		"exit code":     "exit 7",
		"signal":        "kill -TERM $$",
		"streams":       "echo out; echo err >&2",
		"stdin":         "cat",
		"environment":   "env | grep -v ^TMPDIR= | sort",
		"argument zero": "echo $0",
		"open files":    "for f in 0 1 2 3 4 5 6 7 8 9; do if true <&$f; then echo $f; fi 2>/dev/null; done",
		"limits":        "ulimit -n; ulimit -Hn",
		"directory":     "pwd",
		"signals":       "trap",
		"much":          "i=0; while [ $i -lt 20000 ]; do echo $i-------------------------------; i=$((i+1)); done",
	}
	for name, line := range lines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var outputs [2]string
			for i, by := range []process.Executor{process.System, &process.Sandbox{}} {
				end, err := by.Run(t.Context(), &process.Program{
					Args: []string{"/bin/sh", "-c", line}, Env: append(os.Environ(), "X=a b\nc", "X=last"), Dir: "/usr", Stdin: []byte("event\n"), MaxOutput: 1 << 20,
				})
				if err != nil {
					t.Fatal(err)
				}
				outputs[i] = fmt.Sprintf("%d %q %s|%s", end.Exit, end.Signal, end.Stdout.Head, end.Stderr.Head)
			}
			if outputs[0] != outputs[1] {
				t.Errorf("%s:\nwithout %s\nwith    %s", line, outputs[0], outputs[1])
			}
		})
	}
}

// A program does not inherit open files of the agent, even if they are not marked as close-on-exec.
func TestSandboxClosesOtherFiles(t *testing.T) {
	needLandlock(t)
	fd, err := unix.Open("/etc/hostname", unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	p := newPlace(t)
	if could, _ := p.probe(t, process.System, "fd", strconv.Itoa(fd)); !could {
		t.Fatal("without a sandbox it is closed too, so nothing is shown")
	}
	if could, _ := p.probe(t, &process.Sandbox{}, "fd", strconv.Itoa(fd)); could {
		t.Errorf("file %d of the agent is open in the sandbox", fd)
	}
}

// If a program cannot be started, the error contains the cause, and nothing runs.
func TestSandboxErrors(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	touching := filepath.Join(dir, "touch")
	program(t, touching, ": >"+ran)
	if err := os.WriteFile(filepath.Join(dir, "nothing"), []byte("#!/no/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(dir, "strange")
	if err := os.WriteFile(strange, []byte("#!"+touching+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	everything := &grapnel.Event{Session: grapnel.Session{Root: home, CWD: dir}}
	project := &grapnel.Event{Session: grapnel.Session{Root: dir, CWD: dir}}
	tests := map[string]struct {
		box  process.Sandbox
		args []string
		ev   *grapnel.Event
		want string
	}{
		"no program":          {process.Sandbox{}, []string{filepath.Join(dir, "absent")}, project, "no such file"},
		"no interpreter":      {process.Sandbox{}, []string{filepath.Join(dir, "nothing")}, project, "the interpreter in its first line does not"},
		"hidden interpreter":  {process.Sandbox{}, []string{strange}, project, "the sandbox must allow reading"},
		"a link leads out":    {process.Sandbox{Write: []string{"away"}, Dir: dir}, []string{touching}, project, "a link leads outside of " + dir},
		"out of the root":     {process.Sandbox{Read: []string{"{root}/away"}}, []string{touching}, project, "a link leads outside of " + dir},
		"a new one leads out": {process.Sandbox{Write: []string{"away/new/dir"}, Dir: dir}, []string{touching}, project, "a link leads outside of " + dir},
		"all of home":         {process.Sandbox{Read: []string{"{root}"}, Write: []string{dir}}, []string{touching}, everything, "contains the home directory"},
		"nowhere":             {process.Sandbox{Read: []string{"x"}}, []string{touching}, project, "cannot resolve this relative path"},
		"unknown word":        {process.Sandbox{Read: []string{"{home}"}}, []string{touching}, project, "unknown placeholder"},
		"many rules":          {process.Sandbox{Read: slices.Repeat([]string{strings.Repeat("/x", 2000)}, 100)}, []string{touching}, project, "argument list too long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &process.Command{Args: test.args, Executor: &test.box, Dir: dir}
			out, err := c.Handle(t.Context(), test.ev)
			if !errors.Is(err, process.ErrStart) || !strings.Contains(err.Error(), test.want) || out.Decision != grapnel.None {
				t.Errorf("%+v, %v; want cannot start ... %s", out, err, test.want)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("it ran all the same")
			}
		})
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%v was made outside of the sandbox", left)
	}
}

// Directories in Write are created if they do not exist. Paths in Read need not exist.
func TestSandboxMakesDirectories(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	dir := t.TempDir()
	abs := filepath.Join(t.TempDir(), "a", "b")
	c := &process.Command{
		Line: fmt.Sprintf(`echo x >deep/er/file && echo x >%s/file && echo '{"reason":"ok"}'`, abs), Dir: dir, InDir: true,
		Executor: &process.Sandbox{Read: []string{"absent", "/absent"}, Write: []string{"deep/er", abs}, Dir: dir},
	}
	if out, err := ask1(t, c); err != nil || out.Reason != "ok" {
		t.Errorf("%+v, %v", out, err)
	}
}

// The private directory for temporary files is deleted after the program, with all files in it.
func TestSandboxTemp(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &process.Command{
		Line:     fmt.Sprintf(`mkdir -p "$TMPDIR/a/b" && ln -s %s "$TMPDIR/link" && chmod 0 "$TMPDIR/a/b" && printf '{"reason":"%%s"}' "$TMPDIR"`, dir),
		Executor: &process.Sandbox{},
	}
	out, err := ask1(t, c)
	if err != nil || !filepath.IsAbs(out.Reason) {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := os.Lstat(out.Reason); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", out.Reason, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "kept")); err != nil {
		t.Errorf("what a link led to is gone: %v", err)
	}
}

// At the deadline, the sandbox ends a program with all its children, also children in another
// session.
func TestSandboxTimeout(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	dir := t.TempDir()
	c := &process.Command{
		Line: `trap "" TERM; (setsid sh -c 'while :; do echo x >>beat; sleep 0.05; done' || while :; do echo x >>beat; sleep 0.05; done) & sleep 1000`,
		Dir:  dir, InDir: true, Executor: &process.Sandbox{Write: []string{"."}, Dir: dir},
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Handle(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash"}})
		ended <- err
	}()
	await.Until(t, "the child of the program begins", func() bool {
		_, err := os.Stat(filepath.Join(dir, "beat"))
		return err == nil
	})
	cancel(grapnel.ErrTimeout)
	if err := <-ended; !errors.Is(err, grapnel.ErrTimeout) {
		t.Errorf("%v, want a timeout", err)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "beat"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	time.Sleep(300 * time.Millisecond)
	if after := size(); after != before {
		t.Errorf("a child goes on: %d bytes, then %d", before, after)
	}
}

// The sandbox restricts a worker like a program that is started for each event.
func TestSandboxedWorker(t *testing.T) {
	t.Parallel()
	needLandlock(t)
	p := newPlace(t)
	w := &process.Worker{Command: process.Command{
		Line: `echo '{"type":"hello","grapnel":1}'; read -r hello; while read -r line; do id=${line#*'"id":"'}; id=${id%%'"'*}
			if cat ` + p.secret + ` >/dev/null 2>&1; then said=read; else said=held; fi
			printf '{"type":"answer","id":"%s","outcome":{"reason":"%s"}}\n' "$id" "$said"; done`,
		Dir: p.project, Executor: &process.Sandbox{Read: []string{"{root}"}, Dir: p.project},
	}}
	defer func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for range 3 {
		if out, err := w.Handle(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore}); err != nil || out.Reason != "held" {
			t.Fatalf("%+v, %v", out, err)
		}
	}
}

func BenchmarkSandbox(b *testing.B) {
	for name, by := range map[string]process.Executor{"without": process.System, "with": &process.Sandbox{}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := by.Run(b.Context(), &process.Program{Args: []string{"/bin/true"}, Dir: "/"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
