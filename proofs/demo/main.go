// Demo shows on one screen how one policy answers three agents:
//
//	go run ./proofs/demo [DIR]
//
// It gives recorded payloads of the agents to grapnel-hook, prints the replies and the log, and
// fails if an expected decision is missing. It needs only Go and a shell. It builds the programs,
// or takes them from DIR, an absolute path. It removes its files at the end.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/grapnel-dev/grapnel/internal/wording"
)

//go:embed grapnel.yaml
var policy string

//go:embed settings.json
var geminiHooks string

// A step is a call of an agent and its expected result.
type step struct {
	agent, recording string // payload with another call, below dialect/testdata
	call             string // command or file of this call
	decision         string // in the log
	reply            string // the reply contains it, and is shown from there
}

const (
	project     = "/home/dev/project" // in the recordings
	claudeShell = "claude-code/recorded-PreToolUse-Bash-background.txtar"
	claudeWrite = "claude-code/recorded-PreToolUse-Write.txtar"
	geminiShell = "gemini-cli/recorded-BeforeTool.txtar"
	codexShell  = "codex/PreToolUse-none.txtar"
)

var steps = []step{
	{"claude-code", claudeShell, "rm -fr ~/work", "block", `"permissionDecision":"deny"`},
	{"gemini-cli", geminiShell, "sh -c 'cd ~ && rm -r -f work'", "block", `"decision":"deny"`},
	{"codex", codexShell, "echo cm0gLXJmIH4vd29yaw== | base64 -d | sh", "block", `"permissionDecision":"deny"`},
	{"claude-code", claudeShell, "echo 'never rm -rf ~/work'", "none", ""},
	{"gemini-cli", geminiShell, "npm install left-pad", "change", `"tool_input":{"command":"npm install --ignore-scripts left-pad"`},
	{"claude-code", claudeShell, "git push origin main", "ask", `"permissionDecision":"ask"`},
	{"codex", codexShell, "git push origin main", "block", `codex cannot ask for it. Tell the user, who can approve it with \"grapnel allow\"`},
	{"claude-code", claudeWrite, project + "/deploy/prod/app.yaml", "block", `"permissionDecision":"deny","permissionDecisionReason":"Deploys are frozen"`},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "demo: error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, programs []string) (err error) {
	dir, err := os.MkdirTemp("", "grapnel-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	color := os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(os.Stdout.Fd()))
	d := demo{ctx: ctx, out: os.Stdout, repository: ".", bin: filepath.Join(dir, "bin"), dir: dir, color: color}
	if len(programs) > 0 {
		d.bin = programs[0]
		return d.play(steps)
	}
	fmt.Println("building grapnel and grapnel-hook; the first time takes a few minutes")
	build := exec.CommandContext(ctx, "go", "build", "-v", "-o", d.bin+string(filepath.Separator), "./cmd/grapnel", "./cmd/grapnel-hook")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("cannot build the programs (run it at the top of the repository): %w", err)
	}
	return d.play(steps)
}

type demo struct {
	ctx             context.Context
	out             io.Writer
	repository, bin string
	dir             string // home directory, with the policy and the project
	color           bool
}

// play plays the steps and prints them with the decisions that are in the log.
func (d *demo) play(steps []step) error {
	for name, text := range map[string]string{"grapnel.yaml": policy, ".gemini/settings.json": geminiHooks, "project/README.md": ""} {
		file := filepath.Join(d.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "%s\n%s\n", d.paint("1", "grapnel.yaml, one policy for every agent:"), policy)
	fmt.Fprintf(d.out, "%s\n%s\n", d.paint("1", ".gemini/settings.json, a hook file of Gemini CLI, loaded as it is:"), geminiHooks)
	fmt.Fprintln(d.out, d.paint("1", "Payloads of three agents, and replies (cm0g... is rm -rf ~/work in base64):"))
	var replies []string
	var inHook, times, empty []float64 // in ms
	for _, s := range steps {
		payload, err := d.payload(s)
		if err != nil {
			return err
		}
		begun := time.Now()
		reply, err := d.command(payload, "grapnel-hook", s.agent, "--root", d.dir)
		if err != nil {
			return err
		}
		replies, times = append(replies, reply), append(times, time.Since(begun).Seconds()*1000)
		begun = time.Now()
		if _, err := d.command("", "grapnel-hook", "--version"); err != nil {
			return err
		}
		empty = append(empty, time.Since(begun).Seconds()*1000)
	}
	lines, err := d.command("", "grapnel", "log", "--json", "--root", d.dir)
	if err != nil {
		return err
	}
	records := json.NewDecoder(strings.NewReader(lines))
	for i, s := range steps {
		var rec struct {
			Agent, Tool, Decision string
			Changed               []string
			MS                    float64
		}
		if err := records.Decode(&rec); err != nil {
			return fmt.Errorf("cannot read the log of event %d: %w", i+1, err)
		}
		if rec.Decision == "none" && len(rec.Changed) > 0 {
			rec.Decision = "change"
		}
		_, rest, found := strings.Cut(replies[i], s.reply)
		if rec.Agent != s.agent || rec.Decision != s.decision || !found || s.reply == "" && rest != "" {
			return fmt.Errorf("%s, %s: got %s of %s with the reply %q, want %s with %q", s.agent, s.call, rec.Decision, rec.Agent, replies[i], s.decision, s.reply)
		}
		inHook = append(inHook, rec.MS)
		color := map[string]string{"block": "31", "ask": "33", "change": "36", "none": "32"}[rec.Decision]
		call := rec.Tool + "  " + strings.TrimPrefix(s.call, project+"/")
		fmt.Fprintf(d.out, "%s %-53s %s exit 0\n", d.paint("1", fmt.Sprintf("%-12s", s.agent)), call, d.paint(color, fmt.Sprintf("%6s", rec.Decision)))
		if s.reply != "" {
			fmt.Fprintln(d.out, d.paint("2", excerpt(s.reply, rest)))
		}
	}
	const log = "grapnel log --root . | cut -c31-42,61-128" // without ID, time and event
	if lines, err = d.command("", "sh", "-c", log); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\n%s\n%s\n", d.paint("1", "$ "+log), lines)
	fmt.Fprintf(d.out, "\nmedian: %.1f ms in the hooks, %.1f ms in all (program start alone: %.1f ms)\n", median(inHook), median(times), median(empty))
	fmt.Fprintln(d.out, "next: make install, then docs/tutorial.md; docs/README.md has a page per task")
	return nil
}

var callPattern = regexp.MustCompile(`"(command|file_path)":"[^"]*"`) // in the recordings

// payload returns the recorded payload with the call of a step.
func (d *demo) payload(s step) (string, error) {
	file := filepath.Join(d.repository, "dialect", "testdata", filepath.FromSlash(s.recording))
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read a recording (run it at the top of the repository): %w", err)
	}
	_, text, _ = bytes.Cut(text, []byte("-- stdin.json --\n"))
	text, _, _ = bytes.Cut(text, []byte("\n-- "))
	payload := callPattern.ReplaceAllStringFunc(string(text), func(found string) string {
		name, _, _ := strings.Cut(found, ":")
		return name + ":" + strconv.Quote(s.call)
	})
	return strings.ReplaceAll(payload, project, filepath.ToSlash(filepath.Join(d.dir, "project"))), nil
}

// command runs a program and returns its output without the last line break. An exit code other
// than 0 is an error.
func (d *demo) command(stdin, name string, args ...string) (string, error) {
	if name != "sh" {
		name = filepath.Join(d.bin, name)
	}
	cmd := exec.CommandContext(d.ctx, name, args...)
	cmd.Dir, cmd.Stdin = d.dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME="+d.dir, "PATH="+d.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s: %w\n%s", cmd, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// excerpt returns a line of a reply that begins with begin, or two lines if the text needs them.
func excerpt(begin, rest string) string {
	const width = 76 // of 80, beside the indent and the last "…"
	if len(begin) <= width {
		return "  …" + wording.Shorten(begin+rest, width)
	}
	end := strings.LastIndex(begin[:width], " ")
	return "  …" + begin[:end] + "\n   " + wording.Shorten(begin[end+1:]+rest, width)
}

func median(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }

func (d *demo) paint(code, text string) string {
	if !d.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
