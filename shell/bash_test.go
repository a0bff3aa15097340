//go:build system && unix

package shell

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// Parse finds every command that a real Bash runs, or reports it as unknown. The lines combine
// all parts of the grammar around a command MARK that does not exist. Bash's error message
// shows that it tried to run MARK. The shell is restricted and has no PATH, so it can run no
// other program and write no file.
func TestAgainstBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to compare with")
	}
	lines := []string{
		"MARK",
		"M\\ARK", "'MA'RK", "$'\\x4dARK'", "{MARK,x}", "x=MARK; $x",
		"echo x\r# ; MARK",
		"echo x \\\r\nMARK",
		"echo x # y \\\nMARK",
		"echo x | # y \\\nMARK",
		"MARK\nif",
		": \"${x:-'}\"; MARK #'}\"",
		": \"${x:-'$(MARK)'}\"",
		": ${x:-<(MARK)}",
		"cat <<$'E\\x4fF'\nEOF\nMARK\nE\\x4fF\n",
		": <<\"a\\\"b\"\na\"b\nMARK\na\\\"b\n",
		"x='a[$(MARK)]'; : $((x))",
		"declare 'a[$(MARK)]=1'",
		"x='$(MARK)'; : ${x@P}",
		"[[ 'a[$(MARK)]' -eq 1 ]]",
		"let 1<(MARK)",
		"shopt -s extglob\n: @($(MARK))",
		"! time ! MARK",
		"a+=b MARK; ((1); x)",
		"((:); MARK)",
		"eval \"M\"'ARK'",
		"trap MARK EXIT",
		"alias x=MARK",
		"f() { \"$@\"; }; f MARK",
		": ${x:=$(MARK)}${x/$(MARK)/}",
		"a[$(MARK)]=1",
		"coproc a=b MARK",
		"coproc eval MARK | :",
	}
	n := 400
	if testing.Short() {
		n = 50
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		lines = append(lines, randomStatement(r, 3))
	}
	ran, dir := 0, t.TempDir()
	for _, line := range lines {
		if !bashRuns(t, bash, dir, line) {
			continue
		}
		ran++
		s := Parse(line)
		found := len(s.Unknown) > 0
		for _, c := range s.Commands {
			found = found || c.Name == "MARK"
		}
		if !found {
			t.Errorf("bash runs MARK in %q, Parse knows only %q", line, renderAll(s))
		}
	}
	if ran < n/4 {
		t.Errorf("bash ran only %d of %d lines, the comparison is worth little", ran, len(lines))
	}
}

// bashRuns reports whether a shell runs MARK in a line.
func bashRuns(t *testing.T, bash, dir, line string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	// The output goes to a file, because a background job that keeps running would hold a pipe
	// open. Each line has its own file, because such a job may still write.
	output, err := os.CreateTemp(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.CommandContext(ctx, bash, "--norc", "-r", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	cmd.Env = []string{"PATH=" + dir, "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited || ctx.Err() != nil {
			t.Fatalf("bash -c %q: %v", line, err)
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // jobs in the background
	out, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(out), ": MARK: command not found")
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// randomWord returns a word of limited depth.
func randomWord(r *rand.Rand, depth int) string {
	if depth <= 0 {
		return pick(r, "x", "'y z'", `"a b"`, "$y", `\'`, `$'a\'b'`, `"\""`, "{a,b}", "a=b", "#", "-c", "--", "'#'", `"'"`, `'"'`, `$'\x4d'`,
			"*", "~", "!", "[", "]", "{", "}", "in", "@(a|b)", "\\\n", "\r", "a[1]", "$#", "${#y}", "${y#y}", "=", "+", "x#", "`:`", "$(:)", "$((1))", "$[1]", "<(:)")
	}
	word := func() string { return randomWord(r, depth-1) }
	statement := func() string { return randomStatement(r, depth-1) }
	switch r.IntN(12) {
	case 0:
		return "$(" + statement() + ")"
	case 1:
		return "`" + strings.ReplaceAll(statement(), "`", "\\`") + "`"
	case 2:
		return `"$(` + statement() + `)"`
	case 3:
		return "${x" + pick(r, ":-", "-", ":+", ":=", "#", "%", "/", "//", "^", "@", "[", ":", "!") + word() + "}"
	case 4:
		return `"${x` + pick(r, ":-", "-", ":+", "#", "/") + word() + `}"`
	case 5:
		return "<(" + statement() + ")"
	case 6:
		return "$((" + word() + "))"
	case 7:
		return word() + word()
	case 8:
		return `"` + word() + `"`
	case 9:
		return "'" + strings.ReplaceAll(word(), "'", "") + "'"
	}
	return randomWord(r, 0)
}

// randomStatement returns a statement of limited depth.
func randomStatement(r *rand.Rand, depth int) string {
	if depth <= 0 {
		return pick(r, "MARK", "MARK", "MARK", ": x", `M\ARK`, "'MA'RK", `$'MAR\x4b'`, `"MARK"`, ":")
	}
	word := func() string { return randomWord(r, depth-1) }
	statement := func() string { return randomStatement(r, depth-1) }
	switch r.IntN(29) {
	case 0:
		return statement() + "; " + statement()
	case 1:
		return statement() + pick(r, "\n", "\r\n", " &\n", " # "+word()+"\n", " # "+word()+"\\\n", "#\\\n", "\\\n") + statement()
	case 2:
		return statement() + pick(r, " && ", " || ", " | ", " |& ", " & ") + statement()
	case 3:
		return "( " + statement() + " )"
	case 4:
		return "{ " + statement() + "; }"
	case 5:
		return "if " + statement() + "; then " + statement() + "; else " + statement() + "; fi"
	case 6:
		return "for i in " + word() + " " + word() + "; do " + statement() + "; done"
	case 7:
		return "case " + word() + " in " + word() + ") " + statement() + ";; *) " + statement() + ";; esac"
	case 8:
		return ": " + word() + " " + word() + " " + word()
	case 9:
		return ": <<" + pick(r, "E", "'E'", `"E"`, `\E`, "-E", "E\r", "$'E'") + pick(r, "", ";"+statement(), "|"+statement()) + "\n" +
			word() + "\n" + statement() + "\n" + pick(r, "E", "\tE", "E\r", "E ") + "\n" + statement()
	case 10:
		return "eval " + word() + " " + quoted(statement())
	case 11:
		return `eval "` + strings.ReplaceAll(statement(), `"`, `\"`) + `"`
	case 12:
		return "x=" + word() + " " + statement()
	case 13:
		return "x=" + word() + "; " + statement()
	case 14:
		return "[[ " + word() + pick(r, " == ", " =~ ", " -eq ", " < ") + word() + " ]] || " + statement()
	case 15:
		return "(( " + word() + " )) || " + statement()
	case 16:
		f := "f" + strconv.Itoa(depth) // unique names, so no function calls itself
		return "function " + f + " { " + statement() + "; }; " + f
	case 17:
		return "a=(" + word() + " " + word() + "); " + statement()
	case 18:
		return "! " + statement()
	case 19:
		return "time " + statement()
	case 20:
		return "coproc " + statement()
	case 21:
		return pick(r, "command ", "builtin ", "eval ", "command -p ") + statement()
	case 22:
		return "trap " + quoted(statement()) + " EXIT"
	case 23:
		return ": <<<" + word() + "; " + statement()
	case 24:
		return ": " + word() + pick(r, " >(:)", " 2>&1", " #\\\n", " | # a\\\n", " && # b\\\n") + "; " + statement()
	case 25:
		return "declare x=" + word() + "; " + statement()
	case 26:
		return "while " + statement() + "; do " + statement() + "; break; done"
	case 27:
		return ": " + word() + " #" + word() + "\n" + statement()
	case 28:
		return "let " + word() + "; " + statement()
	}
	return statement()
}
