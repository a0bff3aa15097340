package main

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/process"
)

// setupWorker sets up a program that runs all the time. The floor is the same event through
// two pipes and back.
func setupWorker(ctx context.Context, s *setup) error {
	w := &process.Worker{Command: process.Command{
		Name: "peer", Args: []string{s.exe("peer"), "worker"}, Dir: s.bin, Executor: process.System,
	}}
	s.atEnd(func() error { return w.Close(context.WithoutCancel(ctx)) })
	ev := shellEvent(plainCommand)
	ask := func() error {
		out, err := w.Handle(ctx, ev)
		if err == nil && out.Decision != grapnel.None {
			err = fmt.Errorf("the worker answers %v", out.Decision)
		}
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	line, err := dialect.Plain().WriteEvent(ev)
	if err != nil {
		return err
	}
	echo, err := s.echo(ctx, append(line, '\n'))
	if err != nil {
		return err
	}
	s.paths[0].subject, s.paths[0].floor = timedErr(ask), timedErr(echo)
	return nil
}
