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
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/dialect"
)

// setupServe sets up events that "grapnel-hook --serve" answers. An agent's plugin keeps it
// running. It reads the current policy for each event and writes the same Records, so it
// saves the start of a process. The floor is the same event through two pipes and back.
func setupServe(ctx context.Context, s *setup) error {
	for i, policy := range []string{"", policyFile(50, watchThis)} {
		root, err := s.root(fmt.Sprintf("serve-%d", i), policy)
		if err != nil {
			return err
		}
		c, err := converse(ctx, s.exe("grapnel-hook"), root)
		if err != nil {
			return err
		}
		s.atEnd(c.close)
		reply, err := c.ask(canaryCommand)
		if err == nil && strings.Contains(reply, canaryReason) != (policy != "") {
			err = fmt.Errorf("the reply to the canary is %q", reply)
		}
		if err == nil && policy != "" {
			err = recorded(served.State(root))
		}
		if err != nil {
			return err
		}
		line, err := c.message(shellLine)
		if err != nil {
			return err
		}
		echo, err := s.echo(ctx, line)
		if err != nil {
			return err
		}
		s.paths[i].floor = timedErr(echo)
		s.paths[i].subject = timedErr(func() error {
			reply, err := c.ask(shellLine)
			if err == nil && strings.Contains(reply, canaryReason) {
				err = fmt.Errorf("the reply is %q", reply)
			}
			return err
		})
	}
	return nil
}

// A conversation sends events to "grapnel-hook --serve", as the plugin for OpenCode does.
type conversation struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	session string
	events  int
}

func converse(ctx context.Context, exe, root string) (*conversation, error) {
	c := &conversation{session: sessionID, cmd: exec.CommandContext(ctx, exe, dialect.OpenCode().Name, "--serve", "--root", root)}
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
	if hello, err := c.read(); err != nil || hello.Type != dialect.TypeHello {
		return nil, errors.Join(errors.New("the served hook does not start with a hello"), err, c.close())
	}
	return c, nil
}

// ask sends a shell call with a new ID, and returns the reply.
func (c *conversation) ask(line string) (string, error) {
	text, err := c.message(line)
	if err != nil {
		return "", err
	}
	if _, err := c.stdin.Write(text); err != nil {
		return "", err
	}
	m, err := c.read()
	if err != nil {
		return "", err
	}
	if m.Type != dialect.TypeAnswer || m.ID != c.id() || m.Reply == nil {
		return "", fmt.Errorf("the reply to event %s is %+v", c.id(), m)
	}
	return m.Reply.Stdout, nil
}

// message writes the next event.
func (c *conversation) message(line string) ([]byte, error) {
	c.events++
	ev := shellEvent(line)
	ev.Tool.ID, ev.Session.ID = c.id(), c.session
	payload, err := dialect.OpenCode().WriteEvent(ev)
	if err != nil {
		return nil, err
	}
	return dialect.Message{Type: dialect.TypeEvent, ID: ev.Tool.ID, Event: json.RawMessage(payload)}.Write()
}

// id returns the ID of the last event.
func (c *conversation) id() string { return fmt.Sprintf("toolu_%0*d", idDigits, c.events) }

func (c *conversation) read() (*dialect.Message, error) {
	line, err := c.stdout.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return dialect.ReadMessage(line)
}

func (c *conversation) close() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }
