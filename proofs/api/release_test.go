//go:build system && unix

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	modules "golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
)

// A release is the checkout as a module proxy in a directory, with the tags that .ci/tags sets. The
// other modules come from the cache of this machine. The new module cache is temporary: in the
// cache of the machine, the version would hide later changes.
type release struct {
	version string
	env     []string
	bin     string // for "go install"
}

func newRelease(t *testing.T) *release {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "tags")).Output()
	if err != nil {
		t.Fatalf(".ci/tags: %v", err)
	}
	proxy, version := t.TempDir(), ""
	for tag := range strings.FieldsSeq(string(out)) {
		dir, name := filepath.Split(tag)
		version = name
		publish(t, proxy, strings.TrimSuffix(dir, "/"), version)
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &release{version, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -trimpath -modcacherw", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOPRIVATE=", "GONOPROXY=",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(strings.TrimSpace(string(cache)), "cache", "download"),
		"GOMODCACHE="+filepath.Join(dir, "mod"), "GOBIN="+filepath.Join(dir, "bin")), filepath.Join(dir, "bin")}
}

// publish puts one version of the module in a directory of the checkout into a proxy. It has the
// files that git knows, and new ones that git does not ignore.
func publish(t *testing.T, proxy, dir, version string) {
	t.Helper()
	of := filepath.Join(root, dir)
	git := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	git.Dir = of
	names, err := git.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(of, name)); err == nil { // git also lists deleted files
			files = append(files, sourceFile{of, name})
		}
	}
	path := strings.TrimSuffix(module+"/"+dir, "/")
	var content bytes.Buffer
	if err := zip.Create(&content, modules.Version{Path: path, Version: version}, files); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(of, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": mod, version + ".zip": content.Bytes(),
		version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
	} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type sourceFile struct{ dir, name string }

func (f sourceFile) Path() string                 { return f.name }
func (f sourceFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.name)) }
func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.name)) }

// gotool runs the go command in a directory outside of the repository.
func (r *release) gotool(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, r.env, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out
}

// A user without a checkout can install the programs, and import the library into another module.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	t.Run("programs", func(t *testing.T) {
		t.Parallel()
		r.testPrograms(t)
	})
	t.Run("library", func(t *testing.T) {
		t.Parallel()
		r.testOutside(t)
	})
	t.Run("requirements", func(t *testing.T) {
		t.Parallel()
		r.testRequirements(t)
	})
}

func (r *release) testPrograms(t *testing.T) {
	t.Helper()
	const programs = module + "/cmd/"
	r.gotool(t, t.TempDir(), "install", programs+"grapnel@"+r.version, programs+"grapnel-hook@"+r.version)
	home := t.TempDir()
	run := func(stdin, program string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(r.bin, program), args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		return string(out)
	}
	if got := run("", "grapnel", "version"); !strings.Contains(got, hookcmd.Version) || r.version != "v"+hookcmd.Version {
		t.Errorf("grapnel version prints %q, cmd/go.mod requires the library %s, want %s in both", got, r.version, hookcmd.Version)
	}
	policy := "version: 1\nhooks:\n  - {name: keep, on: tool.before, match: {command: rm}, block: never}\n"
	if err := os.WriteFile(filepath.Join(home, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	event := `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf /"}}`
	if got := run(event, "grapnel-hook", "claude-code", "--root", home); !strings.Contains(got, "never") {
		t.Errorf("grapnel-hook prints %q, want a block", got)
	}
}

// The programs in outside/ build in a module of their own, in a directory outside of the
// repository. There, go vet finds nothing, and no goroutine is left when a program has closed what
// it opened.
func (r *release) testOutside(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("outside")); err != nil {
		t.Fatal(err)
	}
	r.writeMod(t, dir, "go.uber.org/goleak v1.3.0")
	r.gotool(t, dir, "vet", "./...")
	r.gotool(t, dir, "test", "-count=1", "./...")
	for _, program := range []string{"events", "agent", "policies", "flyto"} {
		r.gotool(t, dir, "run", "./"+program)
	}
}

func (r *release) writeMod(t *testing.T, dir string, more ...string) {
	t.Helper()
	text := "module example.com/outside\n\ngo 1.26.0\n\nrequire " + module + " " + r.version + "\n"
	for _, line := range more {
		text += "require " + line + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// maxRequired is the number of modules in the go.mod of a user, after "go mod tidy": all lines of
// require, also the indirect ones, except for the one of Grapnel.
const maxRequired = 6

func (r *release) testRequirements(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport (\n"
	for _, name := range []string{"", "/host", "/local", "/outbound", "/policy", "/process"} {
		source += "\t_ \"" + module + name + "\"\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source+")\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.writeMod(t, dir)
	r.gotool(t, dir, "mod", "tidy", "-e") // modules that only tests of the modules need may be missing on this machine
	r.gotool(t, dir, "build", "./...")
	var mod struct{ Require []modules.Version }
	if err := json.Unmarshal(r.gotool(t, dir, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	if got := len(mod.Require) - 1; got > maxRequired || got < 1 {
		t.Errorf("a program that imports the library requires %d modules, want at most %d: %v", got, maxRequired, mod.Require)
	}
}
