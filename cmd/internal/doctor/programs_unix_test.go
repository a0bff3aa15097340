//go:build system && unix

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/dialect"
)

// write makes a program. No other test may fork while it is open: the child would hold
// it, and then it cannot be run.
func write(t *testing.T, file, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A program that says nothing of use has no version, and the report says why.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct{ script, version, mute string }{
		"good":   {"echo 'codex-cli 0.169.0'", "0.169.0", ""},
		"silent": {"true", "", "names none"},
		"broken": {"exit 3", "", "exit status 3"},
	} {
		file := filepath.Join(dir, name)
		write(t, file, "#!/bin/sh\n"+tt.script+"\n")
		version, mute := versionOf(t.Context(), file)
		if version != tt.version || !strings.Contains(mute, tt.mute) || (mute == "") != (tt.mute == "") {
			t.Errorf("%s: %q, %q, want %q, %q", name, version, mute, tt.version, tt.mute)
		}
	}
}

// Programs that hang are asked all at once: twelve agents of which none answers are
// waited for as long as one.
func TestHungAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &facts{}
	for _, name := range []string{"a", "b", "c", "d"} {
		file := filepath.Join(dir, name)
		write(t, file, "#!/bin/sh\nexec sleep 60\n")
		f.agents = append(f.agents, agent{Dialect: dialect.ClaudeCode, program: file})
	}
	g := gatherer{Request: &Request{}, facts: f}
	start := time.Now()
	g.askVersions(t.Context())
	if took := time.Since(start); took > 2*patience {
		t.Errorf("four programs that hang took %v, one may take %v", took, patience)
	}
	for _, a := range f.agents {
		if said := g.versions[a.program]; said.version != "" || !strings.Contains(said.mute, "took more than 5s") {
			t.Errorf("%s: %+v", a.program, said)
		}
	}
}
