package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// A daemon is one run of "grapnel serve --all-users".
type daemon struct {
	log     *slog.Logger
	program string // of the processes that run as users
	running sync.WaitGroup

	mu    sync.Mutex
	users map[int]*user
}

// Run accepts connections of all users until ctx is done, and returns when the processes of all users
// have ended.
func Run(ctx context.Context, log *slog.Logger, opts Options) (err error) {
	d := &daemon{log: log, users: map[int]*user{}}
	if d.program, err = program(); err != nil {
		return err
	}
	if err := os.MkdirAll(Directory, 0o700); err != nil {
		return err
	}
	l, err := server.ListenAll(client.All)
	if errors.Is(err, server.ErrRunning) {
		return cli.WithHint(err, `run "systemctl status grapnel"`)
	}
	if err != nil {
		return fmt.Errorf("cannot listen for all users: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	defer d.running.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.running.Go(func() {
		if err := service.ServeMetrics(ctx, opts.Metrics, d.metrics(), log); err != nil {
			stop(err)
		}
	})
	d.startKnown(ctx)
	defer context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })()
	log.Info("listening for all users", "socket", client.All, "pid", os.Getpid())
	for {
		conn, uid, err := l.AcceptUser()
		switch why := context.Cause(ctx); {
		case errors.Is(why, context.Canceled): // a signal
			return nil
		case why != nil:
			return why
		case err != nil:
			return fmt.Errorf("the listener failed: %w", err)
		}
		d.userOf(ctx, uid).take(conn)
	}
}

// program returns the path of this program, which only root may be able to change.
func program() (string, error) {
	if os.Getuid() != 0 {
		return "", cli.WithHint(errors.New("only root can run a daemon for all users"), `without --all-users, the daemon is for you alone`)
	}
	name, err := os.Executable()
	if err == nil {
		err = files.OnlyRootPath(name)
	}
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("root would start a program that others can change: %w", err), "copy the programs to /usr/local/bin, as root")
	}
	return name, nil
}

// userOf returns the user with an ID; nil = there are too many.
func (d *daemon) userOf(ctx context.Context, uid int) *user {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	if u == nil && len(d.users) < maxUsers && ctx.Err() == nil {
		u = &user{daemon: d, uid: uid, conns: make(chan *net.UnixConn, maxQueue)}
		d.users[uid] = u
		d.running.Go(func() { u.run(ctx) })
	}
	return u
}

// forget removes a user that the user database does not know. The file of the user stays, because a
// directory service may be away.
func (d *daemon) forget(u *user) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.users, u.uid)
}

// startKnown starts the daemons of the users that had one before, because they may have deliveries
// and Records to send.
func (d *daemon) startKnown(ctx context.Context) {
	entries, err := os.ReadDir(Directory)
	if err != nil {
		d.log.Warn("daemons start with the next event of each user", "error", err)
	}
	for _, e := range entries {
		if uid, err := strconv.ParseUint(e.Name(), 10, 31); err == nil {
			d.userOf(ctx, int(uid)).take(nil)
		}
	}
}

func fileOf(uid int) string { return filepath.Join(Directory, strconv.Itoa(uid)) }
