// Demo plays two recorded sessions of real agents through grapnel-hook under the starter policy,
// and shows the reply to each event. It needs only Go: it builds both programs, keeps all files
// in a temporary directory, and does not use the network.
package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/shorten"
)

//go:embed sessions
var sessions embed.FS

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "grapnel-demo-")
	if err != nil {
		return err
	}
	d := demo{ctx: ctx, root: filepath.Join(dir, "root"), bin: filepath.Join(dir, "bin"), color: term.IsTerminal(int(os.Stdout.Fd()))}
	fmt.Println("building grapnel and grapnel-hook ...")
	build := exec.CommandContext(ctx, "go", "build", "-o", d.bin+string(filepath.Separator), "./cmd/grapnel", "./cmd/grapnel-hook")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build (run it from the top of the repository): %w\n%s", err, out)
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(d.bin, "grapnel"), "init", "--root", d.root).CombinedOutput(); err != nil {
		return fmt.Errorf("grapnel init: %w\n%s", err, out)
	}
	for _, session := range []struct{ agent, file string }{
		{"claude-code", "sessions/claude-code.jsonl"},
		{"gemini-cli", "sessions/gemini-cli.jsonl"},
	} {
		if err := d.play(session.agent, session.file); err != nil {
			return fmt.Errorf("%s: %w", session.agent, err)
		}
	}
	fmt.Printf("\n%d events: %s\n", d.events, d.summary())
	fmt.Printf("median %s an event, from starting the program to its exit\n", d.median().Round(10*time.Microsecond))
	fmt.Printf("policy:  %s\nrecords: %s\n", filepath.Join(d.root, "grapnel.yaml"), d.records())
	fmt.Printf("\nlook closer:\n  %s log --root %s --decision block\n  %s status --root %s\n",
		filepath.Join(d.bin, "grapnel"), d.root, filepath.Join(d.bin, "grapnel"), d.root)
	return nil
}

// demo plays sessions and counts the outcomes.
type demo struct {
	ctx       context.Context
	root, bin string
	color     bool
	events    int
	counts    map[string]int
	times     []time.Duration
	offset    int64 // end of the Records that were read
}

func (d *demo) records() string { return filepath.Join(d.root, "state", "spool", "records.jsonl") }

// play sends each recorded event through grapnel-hook, as the agent did.
func (d *demo) play(agent, file string) error {
	data, err := sessions.ReadFile(file)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s, a recorded session\n", d.paint("1", agent))
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var line struct {
			At    int             `json:"at_ms"`
			Stdin json.RawMessage `json:"stdin"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		var stdout, stderr bytes.Buffer
		hook := exec.CommandContext(d.ctx, filepath.Join(d.bin, "grapnel-hook"), agent, "--root", d.root)
		hook.Stdin, hook.Stdout, hook.Stderr = bytes.NewReader(append(line.Stdin, '\n')), &stdout, &stderr
		begun := time.Now()
		err := hook.Run()
		took := time.Since(begun)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		rec, err := d.lastRecord()
		if err != nil {
			return err
		}
		d.show(line.At, line.Stdin, rec, took, stdout.String(), stderr.String())
	}
	return lines.Err()
}

// lastRecord reads the Record of the last event.
func (d *demo) lastRecord() (*grapnel.Record, error) {
	f, err := os.Open(d.records())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(d.offset, 0); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("no Record was stored: %w", err)
	}
	d.offset += int64(len(line))
	var rec grapnel.Record
	return &rec, json.Unmarshal(line, &rec)
}

func (d *demo) show(at int, stdin json.RawMessage, rec *grapnel.Record, took time.Duration, stdout, stderr string) {
	d.events++
	d.times = append(d.times, took)
	word := rec.Decision.String()
	switch {
	case word != "none":
	case len(rec.Changed) > 0:
		word = "change"
	case strings.Contains(stdout, "dditionalContext"):
		word = "context"
	}
	if d.counts == nil {
		d.counts = map[string]int{}
	}
	d.counts[word]++
	color := map[string]string{"block": "31", "ask": "33", "change": "36", "context": "36", "none": "2"}[word]
	fmt.Printf("%7.2fs  %-18s %-7s %5.1f ms  %s\n", float64(at)/1000, rec.Event, d.paint(color, fmt.Sprintf("%-7s", word)), float64(took.Microseconds())/1000, subject(stdin))
	for _, h := range rec.Hooks {
		if h.Decision > grapnel.None || len(h.Changed) > 0 || word == "context" || h.Error != "" {
			fmt.Printf("          by   %s (%s:%d)\n", h.Name, filepath.Base(h.Source), h.Line)
		}
	}
	for _, text := range rec.Unsupported {
		fmt.Printf("          unsupported: %s\n", text)
	}
	if out := strings.TrimSpace(stdout + stderr); out != "" {
		fmt.Printf("          says %s\n", d.paint("2", short(out, 200)))
	}
}

// subject summarizes an event in one line: its tool call or its prompt.
func subject(stdin json.RawMessage) string {
	var p struct {
		Event   string `json:"hook_event_name"`
		Tool    string `json:"tool_name"`
		Prompt  string `json:"prompt"`
		Message string `json:"last_assistant_message"`
		Input   struct {
			Command string `json:"command"`
			File    string `json:"file_path"`
		} `json:"tool_input"`
	}
	if json.Unmarshal(stdin, &p) != nil {
		return ""
	}
	for _, text := range []string{p.Input.Command, p.Input.File, p.Prompt, p.Message} {
		if text != "" {
			return short(strings.TrimSpace(p.Tool+" "+text), 90)
		}
	}
	return strings.TrimSpace(p.Event + " " + p.Tool)
}

func short(text string, limit int) string {
	return shorten.To(strings.Join(strings.Fields(text), " "), limit)
}

func (d *demo) summary() string {
	var parts []string
	for _, word := range []string{"block", "ask", "change", "context", "none"} {
		if n := d.counts[word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(parts, ", ")
}

func (d *demo) median() time.Duration {
	sorted := append([]time.Duration(nil), d.times...)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

func (d *demo) paint(code, text string) string {
	if !d.color || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
