package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// short is an event in few words, as tests of policies say it too.
type short struct {
	policytest.Event

	texts map[string]*string
	kind  string
}

// flags adds the words to those of a command.
func (s *short) flags(flags *pflag.FlagSet) {
	s.texts = map[string]*string{}
	for _, f := range []struct{ name, usage string }{
		{"command", "the event is a shell `LINE` about to be run"},
		{"tool", "it is a call of this tool: a class, or a `NAME` that Claude Code has for it"},
		{"path", "`FILE` that the tool is given"},
		{"content", "`TEXT` that the tool is to write"},
		{"url", "`ADDRESS` that the tool is given"},
		{"input", "what else the tool is given, a `JSON` object"},
		{"output", "the call was made, and gave this `TEXT`"},
		{"error", "the call was made, and failed with this `TEXT`"},
		{"prompt", "the event is a `TEXT` that a person asks"},
	} {
		s.texts[f.name] = flags.String(f.name, "", f.usage)
	}
	flags.StringVar(&s.kind, "on", "", "the event is of this `KIND`, with the rest of it made up: session.start ...")
}

// read takes what was given.
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
		s.Output, _ = json.Marshal(*output) // a text
	}
	if s.kind != "" {
		s.Plain, _ = json.Marshal(map[string]string{"kind": s.kind}) // likewise
	}
}

// given reports whether there is one.
func (s *short) given() bool {
	return s.call() || s.Prompt != nil || s.Plain != nil
}

// call reports whether it is about one of a tool.
func (s *short) call() bool {
	return s.Tool != "" || s.Command != nil || s.Path != nil || s.Content != nil || s.URL != nil || s.Input != nil || s.Output != nil || s.Error != nil
}

// subject is the event as an agent would send it, from where we are.
func (s *short) subject(d *dialect.Dialect) (*subject, error) {
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	if s.Prompt != nil && s.call() || s.Plain != nil && (s.call() || s.Prompt != nil) {
		return nil, cli.Usage(cli.WithHint(errors.New("an event is a call of a tool, a prompt, or of the kind that --on names"), "give the words of one of them"))
	}
	got, err := s.Tell(d, dir)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return &subject{event: got.Event, answer: got.Answer}, nil
}

// recorded is the event of a Record.
func recorded(ctx context.Context, place local.Place, id string) (*subject, error) {
	for k, err := range logOf(place).Read(ctx, store.Query{}) {
		if err != nil || k.ID != id || k.Late {
			continue
		}
		if err := k.Event(); err != nil {
			return nil, fmt.Errorf("read the event of the record %s: %w", id, err)
		}
		got, err := kept(&k.Entry)
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("read the event of the record %s: %w", id, err), "what is kept of events is up to \"records:\" in a policy")
		}
		return &subject{event: got.Event, record: id, answer: got.Answer}, nil
	}
	return nil, cli.WithHint(fmt.Errorf("there is no record %s", printable.Line(id)), "\"grapnel log --json\" lists them with their IDs")
}

// kept is the event of a Record as its agent told it.
func kept(e *spool.Entry) (dialect.Received, error) {
	ev := e.Input
	if ev == nil {
		return dialect.Received{}, errors.New("no event was kept with it")
	}
	payload := []byte(ev.Native)
	d, ok := dialect.FindAgent(ev.Agent.Name)
	if !ok || payload == nil {
		d = dialect.Plain() // an agent of its own name, or an event that was edited
	}
	if payload == nil {
		var err error
		if payload, err = json.Marshal(ev); err != nil {
			return dialect.Received{}, err
		}
	}
	got := dialect.ReceiveAs(d, payload, e.Event)
	return got, got.Err
}
