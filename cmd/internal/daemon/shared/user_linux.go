package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
)

// A user has the connections of one user and the process that answers them.
type user struct {
	*daemon

	uid   int
	conns chan *net.UnixConn // nil in it only starts the process

	mu      sync.Mutex
	name    string
	channel *net.UnixConn // to the process; nil = none runs
}

// take queues a connection for the process of the user, and starts the process if none runs. If the
// queue is full, it closes the connection, and grapnel-hook answers by itself.
func (u *user) take(conn *net.UnixConn) {
	if u != nil {
		select {
		case u.conns <- conn:
			return
		default:
		}
	}
	refuse(conn)
}

func refuse(conn *net.UnixConn) {
	if conn != nil {
		_ = conn.Close()
	}
}

// drop closes the connections in the queue.
func (u *user) drop() {
	for {
		select {
		case conn := <-u.conns:
			refuse(conn)
		default:
			return
		}
	}
}

// run runs the process of the user whenever it is needed, until ctx is done or the user does not
// exist. After a failure it starts the process again after a pause, as a service manager does. A
// process that the user has stopped starts again with the next connection.
func (u *user) run(ctx context.Context) {
	defer u.drop()
	for pause := firstPause; ; {
		var first *net.UnixConn
		select {
		case first = <-u.conns:
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		err := u.serve(ctx, first)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, home.ErrNoUser):
			u.log.Warn("connections of an unknown user are refused", "uid", u.uid, "error", err)
			u.refuseFor(ctx, firstPause)
			u.forget(u)
			return
		case err == nil:
			pause = firstPause
			continue
		case time.Since(begun) > longPause:
			pause = firstPause
		}
		u.log.Error("the daemon of a user has failed and starts again", "user", u.name, "uid", u.uid, "after", pause, "error", err)
		u.refuseFor(ctx, pause)
		pause = min(2*pause, longPause)
		u.take(nil)
	}
}

// refuseFor closes connections for some time, so that grapnel-hook does not wait for a process.
func (u *user) refuseFor(ctx context.Context, pause time.Duration) {
	end := time.After(pause)
	for {
		select {
		case conn := <-u.conns:
			refuse(conn)
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// serve starts the process of the user and passes it connections until it ends. Without an error, the
// process has ended because the user or ctx has stopped it.
func (u *user) serve(ctx context.Context, first *net.UnixConn) error {
	p, err := u.start(ctx)
	if err != nil {
		refuse(first)
		return err
	}
	u.attach(p.channel)
	defer u.attach(nil)
	u.pass(p, first)
	for {
		select {
		case conn := <-u.conns:
			u.pass(p, conn)
		case err := <-p.ended:
			_ = p.channel.Close()
			return err
		case <-ctx.Done():
			return p.stop()
		}
	}
}

func (u *user) pass(p *process, conn *net.UnixConn) {
	if conn == nil {
		return
	}
	if err := server.Pass(p.channel, conn); err != nil {
		u.log.Debug("the daemon of a user takes no connection", "user", u.name, "error", err)
	}
}

func (u *user) attach(channel *net.UnixConn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.channel = channel
}

// A process is the daemon of a user.
type process struct {
	cmd     *exec.Cmd
	channel *net.UnixConn
	ended   chan error // nil: it exited with 0
}

// start starts the process of the user.
func (u *user) start(ctx context.Context) (*process, error) {
	a, err := find(ctx, u.uid)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	u.name = a.Name
	u.mu.Unlock()
	near, far, err := server.NewChannel()
	if err != nil {
		return nil, err
	}
	defer func() { _ = far.Close() }()
	p := &process{channel: near, ended: make(chan error, 1)}
	var said output
	p.cmd = exec.Command(u.program, "serve", "--as", a.String()) //nolint:noctx // stop ends it in its own way
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr, p.cmd.ExtraFiles, p.cmd.WaitDelay = "/", a.env(os.Environ()), &said, []*os.File{far}, time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	go func() {
		err := p.cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, cmp.Or(said.text, `this user's "grapnel daemon logs" shows why`))
		}
		p.ended <- err
	}()
	u.log.Info("the daemon of a user runs", "user", a.Name, "uid", a.UID, "pid", p.cmd.Process.Pid)
	if err := files.Write(fileOf(u.uid), nil, 0o600); err != nil {
		u.log.Warn("the daemon of this user will start only with an event", "user", a.Name, "error", err)
	}
	return p, nil
}

// stop closes the channel, so that the process ends its work, and kills the process if that takes too
// long.
func (p *process) stop() error {
	_ = p.channel.Close()
	kill := time.AfterFunc(leave, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return <-p.ended
}

// output keeps the beginning of the output of a process.
type output struct{ text string }

func (o *output) Write(b []byte) (int, error) {
	const limit = 1 << 10
	o.text += printable.Line(string(b[:min(len(b), limit-len(o.text))]))
	o.text = o.text[:min(len(o.text), limit)]
	return len(b), nil
}
