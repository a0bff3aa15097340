package review

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// The report describes the effect of each hook.
func TestNewReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "grapnel.yaml")
	text := `version: 1
use: [destructive]
hooks:
  - {name: stop, on: tool.before, match: {command: rm}, block: No.}
  - {name: lint, on: tool.after, run: ./lint --fix}
  - {name: note, on: tool.before, ask: Sure?}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	x, errs := load.Examine(file, dir, packs.All())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	r := NewReport(x, false)
	got := ""
	for _, h := range r.Hooks {
		got += h.Name + " " + strings.Join(h.On, ",") + ": " + h.Does + "\n"
	}
	for _, want := range []string{"destructive : a pack\n", "stop tool.before: block\n", "lint tool.after: runs ./lint --fix\n", "note tool.before: ask\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	if r.Trusted || r.Digest != x.Digest() || r.Unpinned == nil {
		t.Errorf("NewReport = %+v", r)
	}
}
