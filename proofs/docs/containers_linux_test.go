//go:build system

package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// inside runs a command in the root file system $ROOT, which has the software of this machine and the
// programs in $BIN. $STATE is a directory for a new file system; empty = the image is all there is.
const inside = `set -e
mount --bind "$ROOT" "$ROOT"
cd "$ROOT"
for dir in bin sbin lib lib64 usr; do
	[ -L $dir ] || [ ! -d /$dir ] || mount --bind /$dir $dir
done
mount --bind "$BIN" usr/local/bin
mount --bind /proc proc
mount --bind /dev dev
[ -z "$READONLY" ] || mount -o remount,bind,ro "$ROOT"
[ -z "$STATE" ] || mount -t tmpfs -o mode=0770 tmpfs "$ROOT$STATE"
exec chroot --userspec="$OWNER" . /bin/sh -c "$COMMAND"
`

// state is the directory for which the example has a volume.
const state = "/home/agent/.local/state/grapnel"

// An image is the root file system that examples/container/Dockerfile makes.
type image struct {
	root, bin string
	owner     string // USER
	env       []string
}

// run runs a command as a container does: with a read-only root, and with a new file system for the
// directory volume, unless it is empty.
func (i image) run(t *testing.T, volume, command string) (stdout, stderr string) {
	t.Helper()
	out, errs, err := i.start(t, i.owner, volume, "yes", command)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, errs)
	}
	return out, errs
}

func (i image) start(t *testing.T, owner, volume, readOnly, command string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := i.command(t, owner, volume, readOnly, command)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (i image) command(t *testing.T, owner, volume, readOnly, command string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", inside)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "ROOT=" + i.root, "BIN=" + i.bin, "OWNER=" + owner, "STATE=" + volume, "READONLY=" + readOnly, "COMMAND=" + command}, i.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// hook returns a command that passes an event to the installed hook.
func (i image) hook(t *testing.T, line string) string {
	t.Helper()
	settings, err := os.ReadFile(filepath.Join(i.root, "etc/claude-code/managed-settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	installed := regexp.MustCompile(`/usr/local/bin/grapnel-hook --id [a-z2-7]+`).Find(settings)
	return event(line) + string(installed)
}

// event returns the beginning of a command that passes an event to a program.
func event(line string) string {
	return fmt.Sprintf(`echo '{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/","tool_name":"Bash","tool_use_id":"t","tool_input":{"command":%q}}' | `, line)
}

// build runs the last stage of the example with the software of this machine.
func build(t *testing.T) image {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	may := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "tmpfs", t.TempDir())
	may.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := may.CombinedOutput(); err != nil {
		t.Skipf("root may not mount here: %v: %s", err, out)
	}
	programs, err := filepath.EvalSymlinks(filepath.Join(bin, "grapnel"))
	if err != nil {
		t.Fatal(err)
	}
	i := image{root: t.TempDir(), bin: filepath.Dir(programs)}
	for _, dir := range []string{"etc", "home", "root", "proc", "dev", "tmp", "usr"} {
		if err := os.Mkdir(filepath.Join(i.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		target, err := os.Readlink("/" + dir)
		if err == nil {
			err = os.Symlink(target, filepath.Join(i.root, dir))
		} else {
			err = os.Mkdir(filepath.Join(i.root, dir), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(i.root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
	text, err := os.ReadFile("../examples/container/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, _ := strings.Cut(string(text), "\nFROM ${AGENT}\n")
	for line := range strings.Lines(strings.ReplaceAll(stage, "\\\n", "")) {
		i.step(t, strings.TrimSuffix(line, "\n"))
	}
	if i.owner == "" || len(i.env) == 0 {
		t.Fatalf("the example sets no user or no environment: %+v", i)
	}
	return i
}

// step follows an instruction of a Dockerfile.
func (i *image) step(t *testing.T, line string) {
	t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "COPY":
		if fields := strings.Fields(rest); fields[0] == "--chmod=0644" {
			text, err := os.ReadFile(filepath.Join("..", fields[1]))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(i.root, fields[2]), string(text))
		} else if rest != "--from=build --chmod=0755 /out/ /usr/local/bin/" {
			t.Fatalf("unknown instruction %q", line)
		}
	case "RUN":
		if out, errs, err := i.start(t, "0:0", "", "", rest); err != nil {
			t.Fatalf("%s: %v\n%s%s", line, err, out, errs)
		}
	case "ENV":
		i.env = append(i.env, rest)
	case "USER":
		i.owner = rest
	case "VOLUME":
		if rest != state {
			t.Fatalf("%s is not the state directory", rest)
		}
	default:
		t.Fatalf("unknown instruction %q", line)
	}
}

// The example works as a user without an entry in the user database and with a read-only root file system.
func TestContainer(t *testing.T) {
	t.Parallel()
	i := build(t)
	i.owner = "1000650000:0" // as of OpenShift
	i.env = append(i.env, "HOME=/evil")
	push := i.hook(t, "kubectl apply -f x")
	out, errs := i.run(t, state, push+` && echo && export HOME=/home/agent && grapnel log && grapnel doctor --no-run | grep -v install.unsure; id -u; touch /x || true`)
	for _, want := range []string{"A pipeline deploys", "no-deploy  kubectl apply -f x", "1000650000\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s%s", want, out, errs)
		}
	}
	if strings.Contains(out, "user.home") || strings.Contains(errs, "grapnel") || !strings.Contains(errs, "Read-only file system") {
		t.Errorf("output:\n%s\nerrors:\n%s", out, errs)
	}
	// ~ is the home directory of the image, whatever HOME is.
	write(t, filepath.Join(i.root, "etc/grapnel/policy.d/20-notes.yaml"), "version: 1\nhooks:\n  - {name: notes, on: tool.before, match: {path: ~/notes/**}, block: Not the notes.}\n")
	if out, errs := i.run(t, state, i.hook(t, "cat /home/agent/notes/a")); !strings.Contains(out, "Not the notes.") {
		t.Errorf("a path below ~: %s%s", out, errs)
	}
	if out, errs := i.run(t, state, i.hook(t, "rm -r "+state+"/spool")); !strings.Contains(out, `"deny"`) {
		t.Errorf("removing the Records: %s%s", out, errs)
	}
	// The daemon of the sidecar stores the Records.
	out, errs = i.run(t, state, `export HOME=/home/agent; grapnel serve --metrics 0.0.0.0:0 2>/dev/null & until grapnel daemon status >/dev/null 2>&1; do sleep 0.05; done; `+push+`; echo; grapnel log; grapnel daemon stop; wait`)
	if !strings.Contains(out, "no-deploy  kubectl apply -f x") || errs != "" {
		t.Errorf("with a daemon: %s%s", out, errs)
	}
}

// The file for Kubernetes has the paths of the image.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	read := func(name string) string { return readPage(t, filepath.Join("../examples/container", name)) }
	dockerfile, policy := read("Dockerfile")+"VOLUME /tmp\n", read("policy.yaml")
	found := 0
	for _, m := range regexp.MustCompile(`mountPath: ([^,}]+)`).FindAllStringSubmatch(read("kubernetes.yml"), -1) {
		found++
		if !strings.Contains(dockerfile, " "+m[1]+"\n") && !strings.Contains(policy, " "+m[1]+"/") {
			t.Errorf("neither the image nor its policy has %s", m[1])
		}
	}
	if found < 9 {
		t.Errorf("only %d mounts", found)
	}
}

// Without a place for its state, Grapnel decides, and says that no Record was stored.
func TestContainerWithoutState(t *testing.T) {
	t.Parallel()
	i := build(t)
	push, list := i.hook(t, "kubectl apply -f x"), i.hook(t, "ls")
	if out, errs := i.run(t, "", push); !strings.Contains(out, "A pipeline deploys") || !strings.Contains(errs, "no Record was stored") {
		t.Errorf("a call that a hook stops: %s%s", out, errs)
	}
	if out, errs := i.run(t, "", list); out != "" || !strings.Contains(errs, "no Record was stored") {
		t.Errorf("another call: %s%s", out, errs)
	}
	write(t, filepath.Join(i.root, "etc/grapnel/policy.d/20-strict.yaml"), "version: 1\nstrict: true\n")
	if out, errs := i.run(t, "", list); !strings.Contains(out, `"deny"`) || !strings.Contains(out, "no Record was stored") {
		t.Errorf("strict: %s%s", out, errs)
	}
	if out, errs := i.run(t, state, list); out != "" || errs != "" {
		t.Errorf("strict, with a volume: %s%s", out, errs)
	}
}

// A user without a home directory is blocked, with the way out. A root works.
func TestContainerWithoutHome(t *testing.T) {
	t.Parallel()
	i := build(t)
	list := i.hook(t, "ls")
	const root = "/srv/state/grapnel"
	const hook = "grapnel-hook claude-code --root " + root
	if err := os.Remove(filepath.Join(i.root, "etc/grapnel/home")); err != nil {
		t.Fatal(err)
	}
	out, _ := i.run(t, state, list)
	for _, want := range []string{`"deny"`, "user 12345 is unknown to /etc/passwd", "to /etc/grapnel/home as root", "--root DIR"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(i.root, "srv/state/grapnel/state"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(i.root, "srv/state/grapnel/grapnel.yaml"), "version: 1\nhooks:\n  - {name: no-push, on: tool.before, match: {command: git push}, block: No.}\n")
	out, errs := i.run(t, root+"/state", event("git push")+hook+"; echo; grapnel log --root "+root+"; grapnel doctor --no-run --root "+root+" || true")
	for _, want := range []string{`"deny"`, "no-push  git push", "warn user.home"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s%s", want, out, errs)
		}
	}
	if errs != "" {
		t.Error(errs)
	}
	if out, errs := i.run(t, root+"/state", event("rm -r "+root+"/state")+hook); !strings.Contains(out, `"deny"`) {
		t.Errorf("removing the Records: %s%s", out, errs)
	}
}

// Policies in a directory that other users can write, such as one of a config map, are refused.
func TestContainerWithOpenPolicies(t *testing.T) {
	t.Parallel()
	i := build(t)
	if err := os.Chmod(filepath.Join(i.root, "etc/grapnel/policy.d"), 0o777); err != nil {
		t.Fatal(err)
	}
	if out, _ := i.run(t, state, i.hook(t, "ls")); !strings.Contains(out, `"deny"`) || !strings.Contains(out, "users other than root can write to it (mode 0777)") {
		t.Error(out)
	}
}

// A daemon that root runs answers the agents of root only, and the state of root is not for others.
func TestDaemonOfRoot(t *testing.T) {
	t.Parallel()
	i := build(t)
	if err := os.MkdirAll(filepath.Join(i.root, "srv"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(i.root, "srv/grapnel.yaml"), "version: 1\nhooks:\n  - {name: no-push, on: tool.before, match: {command: git push}, block: No.}\n")
	if out, errs, err := i.start(t, "0:0", "", "", "grapnel daemon start --root /srv"); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	t.Cleanup(func() {
		cmd := exec.CommandContext(context.Background(), filepath.Join(i.bin, "grapnel"), "daemon", "stop", "--root", filepath.Join(i.root, "srv"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("daemon stop: %v: %s", err, out)
		}
	})
	answered := func(n int) {
		t.Helper()
		if out, errs, err := i.start(t, "0:0", "", "", "grapnel daemon status --root /srv"); err != nil || !strings.Contains(out, fmt.Sprintf("answered   %d\n", n)) {
			t.Errorf("%v: want %d answers: %s%s", err, n, out, errs)
		}
	}
	command := event("git push") + "grapnel-hook claude-code --root /srv"
	if out, errs := i.run(t, "", command); !strings.Contains(out, `"deny"`) || !strings.Contains(errs, "no Record was stored") {
		t.Errorf("another user: %s%s", out, errs)
	}
	answered(0)
	if out, errs, err := i.start(t, "0:0", "", "", command); err != nil || !strings.Contains(out, `"deny"`) || errs != "" {
		t.Errorf("root: %v: %s%s", err, out, errs)
	}
	answered(1)
}
