//go:build system && unix

package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/manpage"
)

// Every page renders without a warning, and has the command's own help texts.
func TestManPages(t *testing.T) {
	t.Parallel()
	root := newRoot(&console{cli.Console{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}})
	pages := manpage.Pages(root, hookHelp())
	if len(pages) < 20 {
		t.Errorf("only %d pages", len(pages))
	}
	names := map[string]bool{}
	for _, p := range pages {
		names[p.Name] = true
	}
	for _, name := range []string{"grapnel", "grapnel-check", "grapnel-log-verify", "grapnel-hook", "grapnel-policy"} {
		if !names[name] {
			t.Errorf("there is no page %s", name)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed: pages are not rendered")
	}
	for _, p := range pages {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(groff, "-man", "-Tutf8", "-P-cbou", "-ww", "-Kutf8", "-rLL=90n")
			cmd.Stdin = strings.NewReader(p.Text())
			var out, warnings bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &warnings
			if err := cmd.Run(); err != nil || warnings.Len() > 0 {
				t.Errorf("groff: %v\n%s\n%s", err, warnings.String(), p.Text())
			}
			for _, want := range map[string][]string{
				"grapnel-check":  {"--format FORMAT", "text, json, github or sarif", "grapnel-policy(5)", "grapnel check --format sarif grapnel.yaml >grapnel.sarif"},
				"grapnel-policy": {"block", "a glob or /RE2/", "match: {command: git push --force}", "{writes: \"deploy/prod/**\"}"},
				"grapnel-hook":   {"--policy FILE", "claude-code"},
			}[p.Name] {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the page does not say %q:\n%s", want, out.String())
				}
			}
		})
	}
}
