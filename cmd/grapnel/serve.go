package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
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
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := c.Err
			if logTo != "" {
				if err := server.Prepare(client.Socket(place.State)); err != nil { // mostly it is there
					return fmt.Errorf("cannot listen: %w", err)
				}
				file, err := newLogFile(logTo)
				if err != nil {
					return fmt.Errorf("cannot write the log: %w", err)
				}
				defer func() { _ = file.Close() }()
				out = file
			}
			log, err := telemetry.NewLogger(out, "text", "info")
			if err != nil {
				return err
			}
			// What lives is a few megabytes, and an answer leaves little: collecting it less often
			// saves a twelfth of the work under load.
			defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
			d := &daemon{place: place, log: log, begun: time.Now()}
			return d.run(ctx)
		},
	}
	cmd.Flags().StringVar(&logTo, "log", "", "write to this `FILE`, of 1 MiB at most and with one older one, instead of standard error")
	return cmd
}

// A daemon is one run of "grapnel serve".
type daemon struct {
	place local.Place
	log   *slog.Logger
	begun time.Time

	store   *store.Store
	warm    *hookcmd.Warm
	metrics *telemetry.Metrics
	export  *telemetry.Export // nil = no collector is told anything
	servers *servers          // that hooks ask
	door    *door             // for agents that ask over http

	mu      sync.Mutex
	loaded  []policy.Loaded     // of the policies that were loaded last
	failed  map[string]string   // parts that have ended before they should, and why
	deliver *delivery.Deliverer // nil = not yet

	answered, declined atomic.Int64
	unrecorded         atomic.Int64  // answers without a Record
	takenIn            atomic.Uint64 // Records that came by the spool
}

const gcPercent = 400

// stopTime is how long what is under way may take once the daemon is told to stop.
const stopTime = 5 * time.Second

// run works until ctx is done, and returns when everything inside has stopped.
func (d *daemon) run(ctx context.Context) (err error) {
	l, err := server.Listen(client.Socket(d.place.State))
	if errors.Is(err, server.ErrRunning) {
		return cli.WithHint(err, "run \"grapnel daemon status\"")
	}
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	if fault.On {
		fault.At("serve: listening")
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	d.store, err = openStore(ctx, d.place.Store(), drainTime, &store.Options{
		Note: func(err error) { d.log.Warn("the store has a note", "note", err) },
		Due:  func() { d.wake() },
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	forgetTrust()
	d.servers = &servers{clients: map[string]*outbound.Client{}}
	defer func() { err = errors.Join(err, d.servers.close(context.WithoutCancel(ctx))) }()
	d.metrics = telemetry.NewMetrics(telemetry.MetricsOptions{Version: hookcmd.Version, Scope: d.scopeOf, Store: d.storeStats, Deliver: d.deliveryStats, Losses: d.losses})
	told, err := telemetry.FromEnv(os.Getenv)
	if err != nil {
		d.log.Warn("no collector is told anything", "error", err)
	}
	told.Version, told.Metrics, told.Log = hookcmd.Version, d.metrics, d.log
	if d.export, err = telemetry.NewExport(told); err != nil {
		d.log.Warn("no collector is told anything", "error", err)
	}
	d.warm = hookcmd.NewWarm(hookcmd.WarmOptions{State: d.place.State, Keep: d.keep, Ask: d.servers.ask, Loaded: d.policyLoaded, Observe: d.observe, Unrecorded: d.noRecord})
	routes := server.Options{
		Version: hookcmd.Version, Answer: d.answer, Declined: d.declinedFor, Health: d.health,
		Policy: http.HandlerFunc(d.policy), Metrics: d.metrics.Handler(), Stopping: ctx.Done(),
	}
	routes.WithStore(d.store)
	server := server.NewServer(routes, &http.Server{
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	})
	work, endWork := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait() // before the store is closed
	defer endWork()
	for name, run := range map[string]func(context.Context) error{
		"intake": d.intake, "deliver": d.deliveries, "drain": d.drain, "retention": d.retention, "telemetry": d.export.Run,
		"socket": func(ctx context.Context) error { return watchSocket(ctx, l, lost) },
	} {
		parts.Go(func() {
			if err := run(work); err != nil && work.Err() == nil {
				d.partFailed(name, err)
			}
		})
	}
	served := make(chan error, 1)
	shut := d.open(ctx)
	defer shut()
	go func() { served <- server.Serve(l) }() //nolint:contextcheck // an answer lasts as long as the connection of who asked
	if err := d.note(); err != nil {
		d.log.Warn("nobody can see that this daemon runs", "error", err)
	}
	d.log.Info("listening", "socket", client.Socket(d.place.State), "version", hookcmd.Version, "pid", os.Getpid())
	select {
	case <-ctx.Done():
	case err := <-served:
		return errors.Join(fmt.Errorf("cannot go on listening: %w", err), d.warm.Close(context.WithoutCancel(ctx)))
	}
	d.log.Info("stopping")
	endWork()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err = server.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("what took longer was cut off: grapnel-hook answers it by itself", "than", stopTime)
		err = nil
	}
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	shut()
	if !errors.Is(context.Cause(ctx), errLost) { // or else it is that of another daemon
		_ = os.Remove(d.noteFile())
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if errors.Is(context.Cause(ctx), errLost) {
		err = errors.Join(errLost, err)
	}
	return errors.Join(err, d.warm.Close(leave))
}

// errLost is why a daemon ends that nobody can ask, nor stop, any more.
var errLost = errors.New("the socket was removed, so nobody finds this daemon: it ends")

// watchSocket ends the daemon when its socket is lost.
func watchSocket(ctx context.Context, l *server.Listener, lost context.CancelCauseFunc) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if l.Lost() {
			lost(errLost)
			return nil
		}
	}
}

// partFailed says that a part has ended before it should.
func (d *daemon) partFailed(name string, err error) {
	d.log.Error("a part of the daemon has ended", "part", name, "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = map[string]string{}
	}
	d.failed[name] = err.Error()
}

// answer answers one event.
func (d *daemon) answer(ctx context.Context, q *client.Question) (*client.Answer, error) {
	answered, declined := d.metrics.Request()
	a, err := d.warm.Answer(telemetry.WithParent(ctx, q.Parent, ""), q)
	switch {
	case err == nil:
		d.answered.Add(1)
		answered()
	case errors.Is(err, client.ErrSelf):
		declined("self")
	default:
		declined("error")
	}
	return a, err
}

// declinedFor counts a question that is not answered here.
func (d *daemon) declinedFor(reason string) {
	d.declined.Add(1)
	if reason == "version" || reason == "off" { // the others were counted
		_, declined := d.metrics.Request()
		declined(reason)
	}
}

// keep makes durable what an answer leaves.
func (d *daemon) keep(ctx context.Context, lines []spool.Made, notices []hookcmd.Notice) error {
	if fault.On {
		fault.At("serve: before an answer is kept")
	}
	items := make([]store.Item, max(1, len(lines)))
	for i, line := range lines {
		items[i].Line, items[i].Entry = line.Text, line.Entry
	}
	for i := range notices {
		job, err := jobOf(&notices[i].Pending, &notices[i].HTTP)
		if err != nil {
			return err
		}
		items[0].Jobs = append(items[0].Jobs, job)
	}
	err := d.store.Put(ctx, items...)
	if fault.On {
		fault.At("serve: an answer is kept")
	}
	return err
}

// intake takes the spool in until ctx is done.
func (d *daemon) intake(ctx context.Context) error {
	in := &store.Intake{
		Spool: d.place.Spool(), Store: d.store,
		Note: func(err error) { d.log.Warn("the spool is not taken in", "error", err) },
		Took: func(row store.Row) { d.took(ctx, &row) },
	}
	return in.Run(ctx)
}

// took counts a Record that came in by the spool: of a program that has answered by itself.
func (d *daemon) took(ctx context.Context, row *store.Row) {
	d.takenIn.Add(1)
	if row.Late {
		d.metrics.ObserveLate(ctx, &row.Record)
		d.export.ObserveLate(ctx, &row.Record)
		return
	}
	d.observe(ctx, &row.Record)
}

// observe tells metrics and traces of a firing whose Record is kept.
func (d *daemon) observe(ctx context.Context, rec *grapnel.Record) {
	d.metrics.Observe(ctx, rec)
	d.export.Observe(ctx, rec)
}

// wake has due deliveries looked for.
func (d *daemon) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deliver != nil {
		d.deliver.Wake()
	}
}

// deliveries delivers until ctx is done.
func (d *daemon) deliveries(ctx context.Context) error {
	networks, err := outbound.ParseNetworks(d.place.Opened())
	if err != nil {
		return err
	}
	client := outbound.NewClient(&outbound.Options{Guard: outbound.Guard{Networks: networks}, KeepIdle: keepIdle})
	now := time.Now
	if fault.On {
		now = fault.Now
	}
	deliverer := delivery.New(d.store, delivery.Options{
		Now:    now,
		Client: client, Log: d.log,
		Resolve: func(_ context.Context, j *delivery.Job) (delivery.Target, error) {
			t, opened, err := targetOf(d.place, j)
			if err != nil {
				return t, err
			}
			// Whoever closes a network wants it closed for what waits, too.
			networks, err := outbound.ParseNetworks(opened)
			client.SetNetworks(networks)
			return t, err
		},
		Observe: func(_ delivery.Job, r delivery.Result, _ time.Duration) { d.metrics.DeliveryTried(endOf(&r)) },
	})
	d.mu.Lock()
	d.deliver = deliverer
	d.mu.Unlock()
	return errors.Join(deliverer.Run(ctx), client.Close(context.WithoutCancel(ctx)))
}

// endOf is how a try to deliver ended, in a word.
func endOf(r *delivery.Result) string {
	switch {
	case r.Off:
		return "off"
	case r.State == delivery.Waiting:
		return "again"
	default:
		return string(r.State)
	}
}

const (
	keepIdle = 30 * time.Second // of connections to servers

	// drainAfter is how long hooks may wait before the daemon runs them: until then it is
	// up to the program that put them off, which runs them where the agent is.
	drainAfter = 5 * time.Second
)

// drain runs hooks that nobody else has run, and takes what a drain could not put into the
// store, since that is open here.
func (d *daemon) drain(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if d.overdue(time.Now()) {
			if err := hookcmd.Drain(ctx, d.place, openOutbox{d.store}); err != nil && ctx.Err() == nil {
				d.log.Warn("hooks that wait were not run", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// overdue reports whether hooks wait for the daemon.
func (d *daemon) overdue(now time.Time) bool {
	sp, err := spool.Open(d.place.Spool(), nil)
	if err != nil {
		return false
	}
	since := sp.Waiting()
	return sp.Later() || !since.IsZero() && now.Sub(since) > drainAfter
}

// openOutbox is the store that is open.
type openOutbox struct{ store *store.Store }

func (o openOutbox) Put(ctx context.Context, p spool.Pending, h policy.HTTP) error {
	job, err := jobOf(&p, &h)
	if err != nil {
		return err
	}
	if fault.On {
		fault.At("serve: before a notice is kept")
	}
	err = o.store.Put(ctx, store.Item{Jobs: []delivery.Job{job}})
	if fault.On {
		fault.At("serve: a notice is kept")
	}
	return err
}

// Flush leaves it to the deliverer, which the store wakes.
func (openOutbox) Flush(context.Context) error { return nil }

// scopeOf says of which scope a policy file is that was loaded.
func (d *daemon) scopeOf(file string) (grapnel.Scope, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.loaded {
		if d.loaded[i].File == file {
			for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
				if scope.String() == d.loaded[i].Scope {
					return scope, true
				}
			}
		}
	}
	return 0, false
}

func (d *daemon) storeStats(ctx context.Context) (telemetry.StoreStats, error) {
	size, err := d.store.Size(ctx)
	if err != nil {
		return telemetry.StoreStats{}, err
	}
	waiting, err := d.store.Backlog(ctx, d.place.Spool())
	if err != nil {
		return telemetry.StoreStats{}, err
	}
	stats := telemetry.StoreStats{Records: size.Records, Bytes: size.Bytes, SpoolBytes: waiting.Bytes, TakenIn: d.takenIn.Load()}
	if !waiting.Since.IsZero() {
		stats.Lag = time.Since(waiting.Since)
	}
	return stats, nil
}

func (d *daemon) deliveryStats(ctx context.Context) (telemetry.DeliveryStats, error) {
	targets, err := d.store.Targets(ctx)
	stats := telemetry.DeliveryStats{}
	for _, t := range targets {
		one := telemetry.TargetStats{Target: t.Name, Off: t.Off, Jobs: map[string]int{
			string(delivery.Waiting): t.Waiting, string(delivery.Dead): t.Dead, string(delivery.Delivered): t.Delivered,
		}}
		if !t.Oldest.IsZero() {
			one.Oldest = map[string]time.Duration{string(delivery.Waiting): time.Since(t.Oldest)}
		}
		stats.Targets = append(stats.Targets, one)
	}
	return stats, err
}

func (d *daemon) policyLoaded(set *policy.Set) {
	d.mu.Lock()
	d.loaded = set.Files
	d.mu.Unlock()
	d.metrics.Expect(set.Specs)
	var broken error
	for i := range set.Files {
		if errs := set.Files[i].Errors; len(errs) > 0 && broken == nil {
			broken = errs[0]
		}
	}
	d.metrics.PolicyLoaded(time.Now(), broken)
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

// health is what is said of the daemon, and whether all its parts work.
func (d *daemon) health() (said any, well bool) {
	health := map[string]any{
		"version": hookcmd.Version, "pid": os.Getpid(), "since": d.begun.UTC().Format(time.RFC3339), "answered": d.answered.Load(), "declined": d.declined.Load(),
	}
	if http := d.door.health(); http != nil {
		health["http"] = http
	}
	store := d.storeHealth()
	if store != (server.StoreHealth{}) {
		health["store"] = store
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.failed) > 0 {
		health["failed"] = maps.Clone(d.failed)
	}
	return health, len(d.failed) == 0 && store.Well()
}

// storeHealth says whether Records are lost or in danger.
func (d *daemon) storeHealth() server.StoreHealth {
	c := d.store.Condition()
	h := server.StoreHealth{Restored: c.Restored, Lost: c.Lost, Unrecorded: d.unrecorded.Load()}
	if c.Err != nil {
		h.Error = c.Err.Error()
	}
	return h
}

// losses counts for the metrics what storeHealth says.
func (d *daemon) losses() telemetry.Losses {
	h := d.storeHealth()
	return telemetry.Losses{Failing: h.Error != "", Restored: h.Restored, Rows: h.Lost, Answers: h.Unrecorded}
}

// noRecord counts an answer of which no Record could be kept. The first is logged: more
// follow while a disk is full.
func (d *daemon) noRecord(err error) {
	if d.unrecorded.Add(1) == 1 {
		d.log.Error("a record was lost", "error", err)
	}
}

func (d *daemon) noteFile() string { return daemonFile(d.place, noteName) }

// note writes down which daemon this is.
func (d *daemon) note() error {
	said, _ := d.health()
	data, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return os.WriteFile(d.noteFile(), data, 0o600)
}
