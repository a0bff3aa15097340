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
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
)

// Budgets of an event that "grapnel-hook --serve" answers, in nanoseconds: twice what was
// measured. It takes the policy as it is at that moment and writes the same Record, so what
// it saves is the start of a process, which takes a millisecond.
const (
	servedBudget      = 200_000
	servedRulesBudget = 900_000
)

// servedContests returns the rows about a hook that an agent's plugin keeps running, and
// what ends it.
func servedContests(ctx context.Context, dir, bin string) (g group, end func() error, err error) {
	var open []*conversation
	end = func() error {
		var errs []error
		for _, c := range open {
			errs = append(errs, c.close())
		}
		return errors.Join(errs...)
	}
	for _, with := range []struct {
		name, policy string
		budget       float64
	}{
		{"served event, no policy", "", servedBudget},
		{"served event, 50 rules, one Record line", policyFile(50, watchThis), servedRulesBudget},
	} {
		root := filepath.Join(dir, fmt.Sprintf("served-%d", len(open)))
		if err := os.MkdirAll(root, 0o700); err != nil {
			return g, end, err
		}
		if with.policy != "" {
			if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(with.policy), 0o600); err != nil {
				return g, end, err
			}
		}
		c, err := converse(ctx, filepath.Join(bin, "grapnel-hook"), root)
		if err != nil {
			return g, end, err
		}
		open = append(open, c)
		said, err := c.ask(canaryCommand)
		if err == nil && strings.Contains(said, canaryReason) != (with.policy != "") {
			err = fmt.Errorf("%s: the canary is answered with %q", with.name, said)
		}
		if err != nil {
			return g, end, err
		}
		var failed error
		row := timed(with.name, with.budget, func() {
			if said, err := c.ask(shellLine); err != nil || strings.Contains(said, canaryReason) {
				failed = errors.Join(fmt.Errorf("the served hook says %q", said), err)
			}
		})
		run := row.subject.run
		row.subject.run = func() (float64, error) {
			cost, err := run()
			return cost, errors.Join(err, failed)
		}
		if with.policy != "" {
			if err := recorded(filepath.Join(root, "state")); err != nil {
				return g, end, err
			}
		}
		g.contests = append(g.contests, row)
	}
	return g, end, nil
}

// A conversation is one with "grapnel-hook --serve", as a plugin of OpenCode leads it.
type conversation struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	asked  int
}

func converse(ctx context.Context, exe, root string) (*conversation, error) {
	c := &conversation{cmd: exec.CommandContext(ctx, exe, dialect.OpenCode.Name, "--serve", "--root", root)}
	c.cmd.Dir, c.cmd.Stderr = root, os.Stderr
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + root, "LANG=C"}
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if hello, err := c.hear(); err != nil || hello.Type != dialect.TypeHello {
		return nil, errors.Join(errors.New("the served hook does not begin with a hello"), err, c.close())
	}
	return c, nil
}

// ask tells of a call of a shell with an ID of its own, and returns what the agent is told.
func (c *conversation) ask(line string) (string, error) {
	c.asked++
	ev := shellEvent(line)
	ev.Tool.ID = fmt.Sprintf("toolu_%0*d", idDigits, c.asked)
	payload, err := dialect.OpenCode.WriteEvent(ev)
	if err != nil {
		return "", err
	}
	text, err := dialect.Message{Type: dialect.TypeEvent, ID: ev.Tool.ID, Event: json.RawMessage(payload)}.Write()
	if err != nil {
		return "", err
	}
	if _, err := c.stdin.Write(text); err != nil {
		return "", err
	}
	m, err := c.hear()
	if err != nil {
		return "", err
	}
	if m.Type != dialect.TypeAnswer || m.ID != ev.Tool.ID || m.Reply == nil {
		return "", fmt.Errorf("the served hook answers %s with %+v", ev.Tool.ID, m)
	}
	return m.Reply.Stdout, nil
}

func (c *conversation) hear() (*dialect.Message, error) {
	line, err := c.stdout.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return dialect.ReadMessage(line)
}

func (c *conversation) close() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }
