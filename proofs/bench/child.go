package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

// A request asks a child, which is the bench of one commit in a separate process. So each commit
// sets up its paths with its own code, and one driver can run two commits in turn.
//
// Each request is a line of JSON on its standard input, and each reply a line on its standard
// output. At the end of its input the child removes its files and exits.
type request struct {
	Open string `json:"open,omitempty"` // set up this group, after cleaning up the one before
	Run  int    `json:"run"`            // else: run this path of the group once
}

type reply struct {
	Paths []string `json:"paths,omitempty"` // the names of the paths of the group; "" = not measured
	Units []string `json:"units,omitempty"` // of their costs
	Cost  float64  `json:"cost"`            // of the run
	Error string   `json:"error,omitempty"`
}

// serve measures the rows of requests until in ends.
func (o *options) serve(ctx context.Context, in io.Reader, out, progress io.Writer) (err error) {
	b, err := newBench(ctx, o.quick, progress)
	if err != nil {
		return err
	}
	return errors.Join(b.serve(ctx, o.groups, in, out), b.close())
}

func (b *bench) serve(ctx context.Context, groups []group, in io.Reader, out io.Writer) (err error) {
	s := &setup{bench: b}
	defer func() { err = errors.Join(err, s.cleanUp()) }()
	requests, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var req request
		switch err := requests.Decode(&req); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a request: %w", err)
		}
		var r reply
		var failed error
		if req.Open == "" {
			r.Cost, failed = s.runOnce(req.Run)
		} else {
			if failed = s.cleanUp(); failed == nil {
				s, failed = b.openNamed(ctx, groups, req.Open)
			}
			r.describe(s.paths)
		}
		if failed != nil {
			r.Error = failed.Error()
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

// unknownGroup begins the error for a group that does not exist.
const unknownGroup = "no group"

func (b *bench) openNamed(ctx context.Context, groups []group, name string) (*setup, error) {
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
	if i < 0 {
		return &setup{bench: b}, fmt.Errorf("%s %q", unknownGroup, name)
	}
	s, _, err := b.open(ctx, groups[i])
	return s, err
}

func (r *reply) describe(paths []*path) {
	for _, p := range paths {
		name := p.name
		if p.screened {
			name = "dialect " + p.detail
		}
		if p.notYet != "" {
			name = ""
		}
		r.Paths, r.Units = append(r.Paths, name), append(r.Units, p.unit.name)
	}
}

// runOnce runs a path once and returns its cost.
func (s *setup) runOnce(i int) (float64, error) {
	switch {
	case i < 0 || i >= len(s.paths):
		return 0, fmt.Errorf("no path %d", i)
	case s.paths[i].err != nil:
		return 0, s.paths[i].err
	case s.paths[i].subject == nil:
		return 0, errors.New("nothing to measure")
	}
	return s.paths[i].subject.run()
}

// A side is one of the two compared commits: the other end of serve.
type side struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	request *json.Encoder
	restart func() (*side, error) // starts the same side again; nil = never
}

// startSide starts a bench in the checkout dir.
func startSide(ctx context.Context, exe, dir string, o *options, progress io.Writer) (*side, error) {
	args := []string{"-child"}
	if o.quick {
		args = append(args, "-quick")
	}
	s := &side{cmd: exec.CommandContext(ctx, exe, args...), restart: func() (*side, error) { return startSide(ctx, exe, dir, o, progress) }}
	s.cmd.Dir, s.cmd.Stderr = dir, progress
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	s.out, s.request = json.NewDecoder(bufio.NewReader(stdout)), json.NewEncoder(s.in)
	return s, s.cmd.Start()
}

func (s *side) ask(req request) (reply, error) {
	var r reply
	err := s.request.Encode(req)
	if err == nil {
		err = s.out.Decode(&r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return r, err
}

// renew starts the side in a new process and sets the group up again. The place of a process in memory
// can make it some percent slower for as long as it lives.
func (s *side) renew(group string) error {
	if s.restart == nil {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	next, err := s.restart()
	if err != nil {
		return err
	}
	*s = *next
	_, err = s.ask(request{Open: group})
	return err
}

func (s *side) close() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }
