package main

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor"
)

// notByAgent returns an error if an agent runs this command, also through a shell or a terminal
// that it has opened. do is the action that only a person can take.
func (c *console) notByAgent(do string) error {
	agent, err := ancestor.Agent()
	switch {
	case err != nil:
		c.Warn(fmt.Errorf("cannot check whether an agent runs this command: %w", err))
	case agent != nil:
		return cli.WithHint(fmt.Errorf("%v runs this command, and only a person can %s", agent, do), "the user runs it, in a terminal of their own")
	}
	return nil
}

// byPerson also returns an error if one of the streams is not a terminal. otherwise completes the
// hint.
func (c *console) byPerson(do, otherwise string, streams ...any) error {
	if err := c.notByAgent(do); err != nil {
		return err
	}
	if slices.ContainsFunc(streams, func(s any) bool { return !cli.Terminal(s) }) {
		return cli.WithHint(fmt.Errorf("only a user at a terminal can %s", do), "run it in a terminal, without pipes"+otherwise)
	}
	return nil
}
