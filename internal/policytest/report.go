package policytest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// String returns FILE:LINE: NAME (AGENT).
func (r *Result) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", r.Test.File.Path, r.Test.Line, r.Test.Name, r.Agent)
}

// Details describes the result of a test: the mismatches, the event, its verdict, the results of
// the hooks, and the command that explains it. The text is not escaped for terminals.
func (r *Result) Details() string {
	var b strings.Builder
	if r.Error != nil {
		fmt.Fprintf(&b, "\t%-8s %v\n", "error", r.Error)
	}
	for _, m := range r.Mismatches {
		fmt.Fprintf(&b, "\t%v\n", m)
	}
	if len(r.Firings) == 0 {
		return b.String()
	}
	for i := range r.Firings[:len(r.Firings)-1] {
		f := &r.Firings[i]
		fmt.Fprintf(&b, "\t%-8s %s: %v\n", "before", sample.ShownEvent(f.Record.Input), f.Decision)
	}
	f := &r.Firings[len(r.Firings)-1]
	fmt.Fprintf(&b, "%v\n", f)
	if by := f.By(); len(by) > 0 {
		fmt.Fprintf(&b, "\t%-8s %s\n", "by", strings.Join(by, ", "))
	}
	if command := r.explain(f.Record.Input); command != "" {
		fmt.Fprintf(&b, "\t%-8s %s\n", "explain", command)
	}
	return b.String()
}

// explain returns the command that explains a Verdict.
func (r *Result) explain(ev *grapnel.Event) string {
	const most = 1000 // bytes; longer commands are not practical to copy
	if len(ev.Native) == 0 || len(ev.Native) > most || r.Policy == "" {
		return ""
	}
	return fmt.Sprintf("printf '%%s' %s | grapnel explain %s --policy %s", shell.QuoteWord(string(bytes.TrimSpace(ev.Native))), r.Agent, shell.QuoteWord(r.Policy))
}

// A Line is a Result for a line of JSON.
type Line struct {
	File       string            `json:"file"`
	Line       int               `json:"line"`
	Col        int               `json:"col"`
	Name       string            `json:"name"`
	Agent      string            `json:"agent"`
	Status     Status            `json:"status"`
	Policy     string            `json:"policy,omitempty"`
	Pack       string            `json:"pack,omitempty"`
	Skip       string            `json:"skip,omitempty"`
	Error      *policyfile.Error `json:"error,omitempty"`
	Mismatches []Mismatch        `json:"mismatches,omitempty"`

	// For the event that was checked.
	Event    *grapnel.Event    `json:"event,omitempty"`
	Verdict  *grapnel.Verdict  `json:"verdict,omitempty"`
	Would    grapnel.Decision  `json:"would,omitempty"`
	By       []string          `json:"by,omitempty"` // the hooks that caused the Verdict
	Hooks    []grapnel.HookRun `json:"hooks,omitempty"`
	Reply    *LineReply        `json:"reply,omitempty"`
	MS       float64           `json:"ms"`
	BenchRow *Bench            `json:"bench,omitempty"`
}

// LineReply is the reply to the agent.
type LineReply struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
}

// Report returns the result as plain data.
func (r *Result) Report() Line {
	t := r.Test
	line := Line{
		File: t.File.Path, Line: t.Line, Col: t.Col, Name: t.Name, Agent: r.Agent, Status: r.Status, Policy: r.Policy, Pack: t.File.Pack,
		Skip: t.Skip, Mismatches: r.Mismatches, MS: float64(r.Took.Round(time.Microsecond)) / float64(time.Millisecond), BenchRow: r.Bench,
	}
	if r.Error != nil {
		line.Error = r.failure()
	}
	if len(r.Firings) > 0 && line.Error == nil {
		f := &r.Firings[len(r.Firings)-1]
		line.Event, line.Verdict, line.Would, line.By, line.Hooks = f.Record.Input, &f.Verdict, f.Record.Would, f.By(), f.Runs()
		line.Reply = &LineReply{Stdout: string(f.Reply.Stdout), Stderr: string(f.Reply.Stderr), Exit: f.Reply.Exit}
	}
	return line
}

// failure returns the error of a test that could not run, with its position.
func (r *Result) failure() *policyfile.Error {
	if at, ok := errorAt(r.Error); ok {
		return at
	}
	return &policyfile.Error{File: r.Test.File.Path, Line: r.Test.Line, Col: r.Test.Col, Msg: r.Error.Error()}
}

// junit is the report format that continuous integration systems read.
type junit struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`

	took time.Duration
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	File    string     `xml:"file,attr"`
	Line    int        `xml:"line,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitNote `xml:"failure"`
	Error   *junitNote `xml:"error"`
	Skipped *junitNote `xml:"skipped"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes results as JUnit XML: a suite for each file, and the errors of files that
// cannot be read.
func WriteJUnit(w io.Writer, results []Result, errs []*policyfile.Error) error {
	var out junit
	at := map[string]int{}
	suite := func(file string) *junitSuite {
		i, ok := at[file]
		if !ok {
			i = len(out.Suites)
			at[file] = i
			out.Suites = append(out.Suites, junitSuite{Name: filepath.ToSlash(file)})
		}
		return &out.Suites[i]
	}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
	class := func(file string) string { return strings.TrimSuffix(filepath.ToSlash(file), ".yaml") }
	for _, err := range errs {
		s := suite(err.File)
		s.Tests++
		s.Errors++
		s.Cases = append(s.Cases, junitCase{Name: filepath.Base(err.File), Class: class(err.File), File: filepath.ToSlash(err.File), Line: err.Line, Time: seconds(0), Error: &junitNote{Message: err.Msg, Text: err.Error()}})
	}
	for i := range results {
		r := &results[i]
		file := r.Test.File.Path
		s := suite(file)
		s.Tests++
		s.took += r.Took
		c := junitCase{Name: fmt.Sprintf("%s (%s)", r.Test.Name, r.Agent), Class: class(file), File: filepath.ToSlash(file), Line: r.Test.Line, Time: seconds(r.Took)}
		switch r.Status {
		case Failed:
			s.Failures++
			c.Failure = &junitNote{Message: r.Mismatches[0].String(), Text: r.Details()}
		case Broken:
			s.Errors++
			c.Error = &junitNote{Message: r.Error.Error(), Text: r.Details()}
		case Skipped:
			s.Skipped++
			c.Skipped = &junitNote{Message: r.Test.Skip}
		case Passed:
		}
		s.Cases = append(s.Cases, c)
	}
	for i := range out.Suites {
		out.Suites[i].Time = seconds(out.Suites[i].took)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
