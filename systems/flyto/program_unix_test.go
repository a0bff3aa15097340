//go:build system && unix

package hooks_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

// DefaultExecutor runs real programs.
//
// Proves: FL-12, FL-16, FL-19, FL-49
func TestPrograms(t *testing.T) {
	t.Setenv("FLYTO_TEST_API_KEY", "k3y")
	t.Setenv("FLYTO_TEST_VALUE", "inherited")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const show = `echo "$TOOL_NAME $TOOL_INPUT $FLYTO_PLUGIN_ROOT ${FLYTO_TEST_VALUE-none} $(pwd)"`
	for name, tt := range map[string]struct {
		def    hooks.HookDef
		exit   int
		stdout string
		err    error
	}{
		"user":     {hooks.HookDef{Command: show}, 0, `Bash {"a":1}  inherited ` + dir, nil},
		"plugin":   {hooks.HookDef{Command: show, PluginDir: "/plugin"}, 0, `Bash {"a":1} /plugin none ` + dir, nil},
		"block":    {hooks.HookDef{Command: "echo no >&2; exit 2"}, 2, "", nil},
		"missing":  {hooks.HookDef{Command: "/nowhere/hook"}, 127, "", process.ErrStart},
		"signal":   {hooks.HookDef{Command: "kill -9 $$"}, -1, "", process.ErrSignal},
		"too slow": {hooks.HookDef{Command: "echo begun; sleep 60", Timeout: 1}, -1, "begun", grapnel.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			m := hooks.NewManager(nil, hooks.DefaultExecutor{})
			if err := m.Register(hooks.HookPreToolUse, tt.def); err != nil {
				t.Fatal(err)
			}
			env := hooks.BuildPreToolEnv("Bash", map[string]int{"a": 1}, dir)
			env["CWD"] = dir
			results, err := m.Execute(t.Context(), hooks.HookPreToolUse, env)
			if err != nil || len(results.Results) != 1 {
				t.Fatalf("%+v, %v", results, err)
			}
			r := results.Results[0]
			if r.ExitCode != tt.exit || strings.TrimSpace(r.Stdout) != tt.stdout || !errors.Is(r.Error, tt.err) || r.Command != tt.def.Command || r.Duration <= 0 {
				t.Errorf("%+v, want exit code %d, %q and the error %v", r, tt.exit, tt.stdout, tt.err)
			}
		})
	}
}

// A real program starts with an input that is too large for a variable and has zero bytes. It gets
// the beginning there, and the variables of the machine and the project.
//
// Proves: FL-40, FL-48, FL-49
func TestLargeInputOfProgram(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	const line = `echo "$PLATFORM $ARCH $PROJECT_ROOT $CWD $(pwd) $((${#TOOL_INPUT} > 10000)) $(wc -c)" >&2; exit 2`
	if err := m.Register(hooks.HookPreToolUse, hooks.HookDef{Command: line}); err != nil {
		t.Fatal(err)
	}
	env := hooks.BuildPreToolEnv("Write", map[string]string{"content": strings.Repeat("a\x00b", 1<<17)}, dir)
	env["CWD"] = dir
	results, err := m.Execute(t.Context(), hooks.HookPreToolUse, env)
	if err != nil {
		t.Fatal(err)
	}
	blocked, reason := hooks.ParseToolHookResponse(results)
	got := strings.Fields(reason)
	if want := []string{runtime.GOOS, runtime.GOARCH, dir, dir, dir, "1"}; !blocked || len(got) != 7 || !slices.Equal(got[:6], want) || len(got[6]) < 6 {
		t.Errorf("blocked %v, %q, want %q and the size of the whole event", blocked, got, want)
	}
}
