package hookcmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseContain(t *testing.T) {
	t.Parallel()
	c, err := parseContain([]string{"--read", "{root}", "--read=/opt/x", "--write", "tmp", "--net", "443,80", "--root", "/p", "--name", "a hook", "--reason=r", "--", "ls --x"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{[]string{"{root}", "/opt/x"}, []string{"tmp"}, []uint16{443, 80}, "/p", "a hook", "r", "ls --x"},
		[]any{c.box.Read, c.box.Write, c.box.Ports, c.line.Root, c.name, c.reason, c.line.Line}); diff != "" {
		t.Error(diff)
	}
	for args, want := range map[string]string{
		"":                       "the shell line after -- is missing",
		"--":                     "want one shell line after --, not 0",
		"-- a b":                 "want one shell line after --, not 2",
		"ls":                     `unknown argument "ls"`,
		"--net example.com --":   "want none, any or a list of ports",
		"--net 0 -- ls":          "want none, any or a list of ports",
		"--write":                "--write needs a value",
		"--exec /bin/sh -- true": "unknown flag --exec",
	} {
		var stdout, stderr bytes.Buffer
		exit := Main(append([]string{"contain"}, strings.Fields(args)...), nil, &stdout, &stderr)
		if exit != exitUsage || stdout.Len() > 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q, want %q", args, exit, &stdout, &stderr, want)
		}
	}
	var stdout bytes.Buffer
	if exit := Main([]string{"contain", "--help"}, nil, &stdout, nil); exit != 0 || stdout.String() != containUsage {
		t.Errorf("--help: exit %d, %q", exit, &stdout)
	}
}

// The note of a failed command is one line, whatever the reason of the hook contains.
func TestContainNote(t *testing.T) {
	t.Parallel()
	c, err := parseContain([]string{"--read", "{root}", "--write", "{root}/out", "--root", "/p", "--name", "unknown-lines", "--reason", "Grapnel cannot\nread it.\x1b[2J", "--", "x"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `grapnel: this command ran in a sandbox of the hook "unknown-lines" (Grapnel cannot read it.` + "\ufffd" + `[2J). ` +
		`It could read the system's files, /p; write its TMPDIR, /p/out; network: none. ` +
		`If the sandbox made it fail, stay within these limits, for example by writing to $TMPDIR, or ask the user to run the command or to change the hook.`
	c.line.Temp = true
	if diff := cmp.Diff(want, c.note()); diff != "" {
		t.Error(diff)
	}
	c.line.Temp, c.box.Write = false, nil
	if got := c.note(); !strings.Contains(got, "; write nothing; ") || strings.Contains(got, "TMPDIR") {
		t.Errorf("without a directory for temporary files: %s", got)
	}
	for exit, want := range map[int]bool{0: false, 1: true, 127: true, 128 + 9: false, 128 + 15: false, 128 + 31: true} {
		if got := stoppable(exit); got != want {
			t.Errorf("stoppable(%d) = %v, want %v", exit, got, want)
		}
	}
}
