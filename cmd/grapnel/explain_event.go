package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/explain"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// short is an event in a few words, in the format that policy tests use too.
type short struct {
	policytest.Event

	texts map[string]*string
	kind  string
}

// flags adds the flags for the event to a command.
func (s *short) flags(flags *pflag.FlagSet) {
	s.texts = map[string]*string{}
	for _, f := range []struct{ name, usage string }{
		{"command", "the event is a shell `LINE`"},
		{"tool", "the event is a call of this tool: a class, or a tool `NAME` of Claude Code"},
		{"path", "`FILE` in the tool's input"},
		{"content", "`TEXT` that the tool writes"},
		{"url", "`ADDRESS` in the tool's input"},
		{"input", "other tool input, a `JSON` object"},
		{"output", "the call returned this `TEXT`"},
		{"error", "the call failed with this `TEXT`"},
		{"prompt", "the event is this user prompt, a `TEXT`"},
	} {
		s.texts[f.name] = flags.String(f.name, "", f.usage)
	}
	flags.StringVar(&s.kind, "on", "", "an event of this `KIND`, such as session.start, with sample values")
}

// read takes the values of the flags that were set.
func (s *short) read(flags *pflag.FlagSet) {
	given := func(name string) *string {
		if !flags.Changed(name) {
			return nil
		}
		return s.texts[name]
	}
	if tool := given("tool"); tool != nil {
		s.Tool = *tool
	}
	s.Command, s.Path, s.Content, s.URL = given("command"), given("path"), given("content"), given("url")
	s.Error, s.Prompt = given("error"), given("prompt")
	if input := given("input"); input != nil {
		s.Input = json.RawMessage(*input)
	}
	if output := given("output"); output != nil {
		s.Output, _ = json.Marshal(*output) // a JSON string
	}
	if s.kind != "" {
		s.Plain, _ = json.Marshal(map[string]string{"kind": s.kind}) // likewise
	}
}

// given reports whether the flags name an event.
func (s *short) given() bool {
	return s.call() || s.Prompt != nil || s.Plain != nil
}

// call reports whether the flags describe a tool call.
func (s *short) call() bool {
	return s.Tool != "" || s.Command != nil || s.Path != nil || s.Content != nil || s.URL != nil || s.Input != nil || s.Output != nil || s.Error != nil
}

// subject returns the event as an agent in the working directory would send it.
func (s *short) subject(d *dialect.Dialect) (*explain.Subject, error) {
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	if s.Prompt != nil && s.call() || s.Plain != nil && (s.call() || s.Prompt != nil) {
		return nil, cli.Usage(cli.WithHint(errors.New("the flags describe different events: a tool call, a prompt, or the kind of --on"), "pass the flags of one event only"))
	}
	got, err := s.Received(d, dir)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return explain.NewSubject(got), nil
}
