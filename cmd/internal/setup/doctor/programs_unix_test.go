//go:build system && unix

package doctor

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

// A program without usable output has no version, and the report gives the reason.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct{ script, version, mute string }{
		"good":   {"echo 'codex-cli 0.169.0'", "0.169.0", ""},
		"silent": {"true", "", "prints no version"},
		"broken": {"exit 3", "", "exit status 3"},
		"hangs":  {"exec sleep 600", "", "took more than 5s"},
	} {
		file := filepath.Join(dir, name)
		programs.Write(t, file, "#!/bin/sh\n"+tt.script+"\n")
		version, mute := versionOf(t.Context(), file)
		if version != tt.version || !strings.Contains(mute, tt.mute) || (mute == "") != (tt.mute == "") {
			t.Errorf("%s: %q, %q, want %q, %q", name, version, mute, tt.version, tt.mute)
		}
	}
}

// All programs run at the same time: four programs that hang take as long as one.
func TestHungAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		versions := map[string]versionOutput{"a": {}, "b": {}, "c": {}, "d": {}}
		begin := time.Now()
		askAll(versions, func(program string) versionOutput {
			time.Sleep(patience)
			return versionOutput{mute: program + " hangs"}
		})
		if took := time.Since(begin); took != patience {
			t.Errorf("four programs that hang took %v, want %v", took, patience)
		}
		for program, got := range versions {
			if want := (versionOutput{mute: program + " hangs"}); got != want {
				t.Errorf("%s: %+v, want %+v", program, got, want)
			}
		}
	})
}
