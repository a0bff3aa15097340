package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	"github.com/grapnel-dev/grapnel/daemon/relay"
	"github.com/grapnel-dev/grapnel/daemon/relay/thin"
	"github.com/grapnel-dev/grapnel/daemon/store"
	"github.com/grapnel-dev/grapnel/policy"
)

func newServe(c *console) *cobra.Command {
	var logTo string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer events from one warm process, and keep and deliver what they leave",
		Long: `Serve is the daemon of this machine, in the foreground. With it grapnel-hook asks here, so
that policies are loaded once and workers stay running; Records and deliveries are kept in a
database, and deliveries are tried until they succeed. Without it nothing stops working:
grapnel-hook then answers by itself, with the same bytes.

It listens on STATE/daemon/socket, which only this user can reach. "grapnel daemon start"
runs it in the background.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := c.err
			if logTo != "" {
				if err := relay.Prepare(thin.Socket(place.State)); err != nil { // mostly it is there
					return fmt.Errorf("cannot listen: %w", err)
				}
				file, err := newLogFile(logTo)
				if err != nil {
					return fmt.Errorf("cannot write the log: %w", err)
				}
				defer func() { _ = file.Close() }()
				out = file
			}
			log := slog.New(slog.NewTextHandler(out, nil))
			d := &daemon{place: place, log: log, begun: time.Now()}
			return d.run(ctx)
		},
	}
	cmd.Flags().StringVar(&logTo, "log", "", "write to this `FILE`, of 1 MiB at most and with one older one, instead of standard error")
	return cmd
}

// A daemon is one run of "grapnel serve".
type daemon struct {
	place answer.Place
	log   *slog.Logger
	begun time.Time

	store *store.Store
	warm  *answer.Warm

	mu     sync.Mutex
	loaded []policy.Loaded // of the policies that were loaded last

	answered, declined atomic.Int64
}

// stopTime is how long what is under way may take once the daemon is told to stop.
const stopTime = 5 * time.Second

// run works until ctx is done, and returns when everything inside has stopped.
func (d *daemon) run(ctx context.Context) (err error) {
	l, err := relay.Listen(thin.Socket(d.place.State))
	if errors.Is(err, relay.ErrRunning) {
		return withHint(err, "run \"grapnel daemon status\"")
	}
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	d.store, err = openStore(ctx, d.place.Store(), 2*stopTime, &store.Options{
		Note: func(err error) { d.log.Warn("the store has a note", "note", err) },
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	d.warm = answer.NewWarm(answer.WarmOptions{State: d.place.State, Keep: d.keep, Ask: ask, Loaded: d.policyLoaded})
	routes := relay.Options{
		Version: answer.Version, Answer: d.answer, Declined: func(string) { d.declined.Add(1) }, Health: d.health,
		Policy: http.HandlerFunc(d.policy), Stopping: ctx.Done(),
	}
	routes.WithStore(d.store)
	server := &http.Server{
		Handler:           relay.Handler(routes),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	if err := d.note(); err != nil {
		d.log.Warn("nobody can see that this daemon runs", "error", err)
	}
	d.log.Info("listening", "socket", thin.Socket(d.place.State), "version", answer.Version, "pid", os.Getpid())
	select {
	case <-ctx.Done():
	case err := <-served:
		return errors.Join(fmt.Errorf("cannot go on listening: %w", err), d.warm.Close(context.WithoutCancel(ctx)))
	}
	d.log.Info("stopping")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err = server.Shutdown(end)
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	_ = os.Remove(d.noteFile())
	return errors.Join(err, d.warm.Close(end))
}

// answer answers one event.
func (d *daemon) answer(ctx context.Context, q *thin.Question) (*thin.Answer, error) {
	a, err := d.warm.Answer(ctx, q)
	if err == nil {
		d.answered.Add(1)
	}
	return a, err
}

// keep makes durable what an answer leaves.
func (d *daemon) keep(ctx context.Context, lines [][]byte, notices []answer.Notice) error {
	items := make([]store.Item, max(1, len(lines)))
	for i, line := range lines {
		items[i].Line = line
	}
	for i := range notices {
		job, err := jobOf(&notices[i].Pending, &notices[i].HTTP)
		if err != nil {
			return err
		}
		items[0].Jobs = append(items[0].Jobs, job)
	}
	return d.store.Put(ctx, items...)
}

func (d *daemon) policyLoaded(set *policy.Set) {
	d.mu.Lock()
	d.loaded = set.Files
	d.mu.Unlock()
	for i := range set.Files {
		if f := &set.Files[i]; len(f.Errors) > 0 {
			d.log.Warn("a policy is broken", "file", f.File, "state", f.State, "error", f.Errors[0])
		}
	}
}

// policy shows the policies that were loaded last.
func (d *daemon) policy(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	loaded := append([]policy.Loaded{}, d.loaded...)
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(loaded)
}

// health is what is said of the daemon.
func (d *daemon) health() any {
	return map[string]any{
		"version": answer.Version, "pid": os.Getpid(), "since": d.begun.UTC().Format(time.RFC3339), "answered": d.answered.Load(), "declined": d.declined.Load(),
	}
}

func (d *daemon) noteFile() string { return daemonFile(d.place, noteName) }

// note writes down which daemon this is.
func (d *daemon) note() error {
	data, err := json.Marshal(d.health())
	if err != nil {
		return err
	}
	return os.WriteFile(d.noteFile(), data, 0o600)
}
