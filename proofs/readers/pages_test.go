//go:build e2e

package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
)

// manuals returns the pages that "grapnel man" writes.
func manuals(t *testing.T) (b bench, pages []string) {
	t.Helper()
	b = newBench(t, nil)
	if _, stderr, exit := b.run(t, offline.Program(t, "grapnel"), "man", "man"); exit != 0 {
		t.Fatal(stderr)
	}
	pages, err := filepath.Glob(filepath.Join(b.dir, "man", "man*", "*"))
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	return b, pages
}

// mandoc reports only long lines and the missing date in the manual pages. Pages have no date, so
// that they do not depend on the day of the build.
func TestMandocTakesPages(t *testing.T) {
	t.Parallel()
	mandoc := tools.Mandoc.Path(t)
	b, pages := manuals(t)
	fine := regexp.MustCompile(`STYLE: input text line longer than|WARNING: missing date, using ""`)
	out, stderr, _ := b.run(t, mandoc, append([]string{"-Tlint", "-Wstyle"}, pages...)...)
	for line := range strings.Lines(out + stderr) {
		if !fine.MatchString(line) {
			t.Error(line)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "bad.1"), []byte(".TH BAD 1\n.SH NAME\n.TP\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, exit := b.run(t, mandoc, "-Tlint", "-Wwarning", "bad.1"); exit == 0 {
		t.Error("mandoc takes a bad page")
	}
}

// man finds each page by the name of its command, and renders it without a warning.
func TestManShowsPages(t *testing.T) {
	t.Parallel()
	man := tools.Man.Path(t)
	b, pages := manuals(t)
	for _, page := range pages {
		name, section, _ := strings.Cut(filepath.Base(page), ".")
		cmd := exec.CommandContext(t.Context(), man, "--warnings=w", "--no-hyphenation", section, name)
		cmd.Env = append(os.Environ(), "MANPATH="+filepath.Join(b.dir, "man"), "MANWIDTH=90", "MANPAGER=cat", "LC_ALL=C.UTF-8", "MAN_KEEP_STDERR=1")
		var out, problems strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &problems
		if err := cmd.Run(); err != nil || problems.Len() > 0 || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), "NAME "+name+" - ") {
			t.Errorf("man %s %s: %v\n%s\n%s", section, name, err, problems.String(), out.String())
		}
	}
}

// systemd accepts the unit for all paths of the program and its files.
func TestSystemdTakesUnit(t *testing.T) {
	t.Parallel()
	verify := tools.Systemd.Path(t)
	for name, at := range map[string]string{
		"plain":   "bin",
		"hostile": `a b%n$HOME;f{g}#ü`, // systemd allows no quote and no backslash in the path of a program
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]string{filepath.Join(at, "none"): "", "units/none": ""})
			grapnel := filepath.Join(b.dir, at, "grapnel")
			data, err := os.ReadFile(offline.Program(t, "grapnel"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(grapnel, data, 0o700); err != nil {
				t.Fatal(err)
			}
			unit, stderr, exit := b.run(t, grapnel, "daemon", "unit", "--systemd", "--root", filepath.Join(b.dir, at, `'q"\e`))
			if exit != 0 {
				t.Fatal(stderr)
			}
			check := func(unit string) (string, error) {
				file := filepath.Join(b.dir, "units", "grapnel.service")
				if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), verify, "verify", "--user", "--man=no", file)
				cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+b.dir, "HOME="+b.dir)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := check(unit); err != nil || strings.Contains(out, "grapnel.service") {
				t.Errorf("%v\n%s\n%s", err, out, unit)
			}
			for _, change := range [][2]string{{"/grapnel", "/no-such-grapnel"}, {"Type=exec", "Type=no"}, {"KillMode=mixed", "KilMode=mixed"}} {
				if out, err := check(strings.Replace(unit, change[0], change[1], 1)); err == nil && !strings.Contains(out, "grapnel.service") {
					t.Errorf("systemd takes %s", change[1])
				}
			}
		})
	}
}

// Grapnel rejects a path that systemd would reject.
func TestSystemdRefusesProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"it's/none": ""})
	data, err := os.ReadFile(offline.Program(t, "grapnel"))
	if err != nil {
		t.Fatal(err)
	}
	grapnel := filepath.Join(b.dir, "it's", "grapnel")
	if err := os.WriteFile(grapnel, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, stderr, exit := b.run(t, grapnel, "daemon", "unit", "--systemd"); exit != 1 || out != "" || !strings.Contains(stderr, "quote or a backslash") || !strings.Contains(stderr, "hint: move the program") {
		t.Errorf("exit %d\n%s%s", exit, out, stderr)
	}
}
