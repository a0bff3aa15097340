// Package service implements "grapnel serve": it runs the socket, the index of the log,
// deliveries and telemetry. Outbox and Drain do the pending work on a machine without a
// daemon.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/web"
	"github.com/grapnel-dev/grapnel/internal/certs"
	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A daemon is one run of "grapnel serve".
type daemon struct {
	place local.Place
	log   *slog.Logger
	begun time.Time

	opts Options

	records *index.Index
	journal journal.Writer
	ours    ours // Records that this process appends
	queue   *queue.Queue
	warm    *hookcmd.Warm
	metrics *telemetry.Metrics
	export  *telemetry.Export // nil = nothing is exported to a collector
	servers *remote.Pool      // connections to servers that hooks ask

	mu      sync.Mutex
	loaded  []load.Loaded       // the policies that were loaded last
	unkept  error               // why the last Records were not appended
	failed  map[string]string   // parts that have ended unexpectedly, with the error
	deliver *delivery.Deliverer // nil = not started yet

	keep    policyfile.Retention // of the policies that were loaded last
	forward *forwarding.Group

	loads     chan struct{} // signals that policies were loaded, see memory
	retireNow chan struct{} // signals that keep has changed, or that a segment of the log was closed

	answered, declined atomic.Int64
	unrecorded         atomic.Int64  // replies of this daemon without a Record
	oldLosses          spool.Losses  // replies without a Record before this daemon
	others             atomic.Uint64 // Records of other processes
}

// Options are settings of Run. The zero value is valid.
type Options struct {
	Metrics string         // also serve metrics at this address from [MetricsAddress]; empty = only on the socket
	Passed  *server.Passed // also answer these connections, and stop when no more can come; nil = none
}

// Run replies to events until ctx is done, and returns when all parts have stopped.
func Run(ctx context.Context, place local.Place, log *slog.Logger, opts Options) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	d := &daemon{place: place, log: log, opts: opts, begun: time.Now(), loads: make(chan struct{}, 1), retireNow: make(chan struct{}, 1)}
	return d.run(ctx)
}

// StopTime is how long work in progress may take after the daemon begins to stop.
const StopTime = 5 * time.Second

// run implements Run.
func (d *daemon) run(ctx context.Context) (err error) {
	l, err := server.Listen(client.Socket(d.place.State))
	if errors.Is(err, server.ErrRunning) {
		return cli.WithHint(err, "run \"grapnel daemon status\"")
	}
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	fault.At("serve: listening")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := d.open(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, d.queue.Close(), d.records.Close(), d.journal.Close()) }()
	d.forward = forwarding.NewGroup(d.place, d.records.Reader, d.log)
	d.readTargets()
	d.oldLosses = spool.ReadLosses(d.place.State, d.begun)
	if err := spool.ReserveLosses(d.place.State); err != nil {
		d.log.Warn("cannot create the file that counts lost records", "error", err)
	}
	clearTrustEnv()
	d.servers = remote.NewPool()
	defer func() { err = errors.Join(err, d.servers.Close(context.WithoutCancel(ctx))) }()
	d.metrics = telemetry.NewMetrics(telemetry.MetricsOptions{Version: hookcmd.Version, Origin: d.place.Identity(), Scope: d.scopeOf, Store: d.storeStats, Forward: d.forwardStats, Deliver: d.deliveryStats, Losses: d.losses})
	d.export = d.newExport()
	d.warm = hookcmd.NewWarm(hookcmd.WarmOptions{State: d.place.State, Keep: d.keepAnswer, Ask: d.servers.Send, Webhook: remote.LookWebhook, Loaded: d.policyLoaded, Observe: d.observe, Unrecorded: d.noRecord})
	routes := server.Options{
		Version: hookcmd.Version, Answer: d.answer, Declined: d.declinedFor, Health: d.health,
		Policy: http.HandlerFunc(d.policy), Metrics: d.metrics.Handler(), Stopping: ctx.Done(),
	}
	routes.WithLog(d.records)
	routes.WithQueue(d.queue)
	site := web.New(web.Options{Source: pageSource{d.records, d.queue, d}, Inbox: pageInbox{d.place}, File: File(d.place, "ui.json"), Stopping: ctx.Done(), Log: d.log})
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
		defer cancel()
		err = errors.Join(err, site.Shutdown(end))
	}()
	routes.Page = d.pageRoutes(site)
	server := server.NewServer(routes, &http.Server{
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	})
	work, endWork := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait() // before the index and the queue are closed
	defer endWork()
	for name, run := range d.parts(l, stop) {
		parts.Go(func() {
			if err := run(work); err != nil && work.Err() == nil {
				d.partFailed(name, err)
			}
		})
	}
	served := make(chan error, 1)
	listeners := []net.Listener{l}
	if d.opts.Passed != nil {
		listeners = append(listeners, d.opts.Passed)
	}
	go func() { served <- server.Serve(listeners...) }()
	if err := d.note(); err != nil {
		d.log.Warn("cannot write daemon status file", "error", err)
	}
	d.log.Info("listening", "socket", client.Socket(d.place.State), "version", hookcmd.Version, "pid", os.Getpid())
	select {
	case <-ctx.Done():
	case <-d.opts.Passed.Ended():
	case err := <-served:
		return errors.Join(fmt.Errorf("the listener failed: %w", err), d.warm.Close(context.WithoutCancel(ctx)))
	}
	d.log.Info("stopping")
	endWork()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
	defer cancel()
	if err = server.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests in progress were canceled; grapnel-hook answers these events without the daemon", "timeout", StopTime)
		err = nil
	}
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	if !errors.Is(context.Cause(ctx), errSocketRemoved) { // otherwise the file is of another daemon
		_ = os.Remove(d.noteFile())
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
	defer cancel()
	if errors.Is(context.Cause(ctx), errSocketRemoved) {
		err = errors.Join(errSocketRemoved, err)
	}
	return errors.Join(err, d.warm.Close(leave))
}

// open opens the log, its index and the queue.
func (d *daemon) open(ctx context.Context) (err error) {
	d.journal.Dir = d.place.Journal()
	d.records, err = OpenIndex(ctx, d.place, storeWait, &index.Options{
		Note:  func(err error) { d.log.Warn("log warning", "note", err) },
		Own:   d.ours.take,
		Other: func(line *spool.Line) { d.appended(ctx, line) },
	})
	if err != nil {
		return err
	}
	d.queue, err = OpenQueue(ctx, d.place, storeWait, &queue.Options{Note: func(err error) { d.log.Warn("queue warning", "note", err) }, Due: d.wake})
	if err != nil {
		return errors.Join(err, d.records.Close())
	}
	return nil
}

// parts returns what runs beside the socket until its context is done, by name.
func (d *daemon) parts(l *server.Listener, stop context.CancelCauseFunc) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"index": d.records.Run, "deliver": d.deliveries, "drain": d.drain, "retention": d.retention, "head": d.saveHead, "telemetry": d.export.Run, "memory": d.memory, "metrics": d.serveMetrics,
		"forward": d.forward.Run, "alive": d.alive,
		"socket": func(ctx context.Context) error { return watchSocket(ctx, l, stop) },
	}
}

// errSocketRemoved is why a daemon stops if no client can connect to it any more.
var errSocketRemoved = errors.New("the socket was removed, so clients cannot find this daemon: it stops")

// lookAgain is how often the daemon checks that its socket file is in place.
const lookAgain = time.Second

// watchSocket stops the daemon when its socket file was removed or replaced.
func watchSocket(ctx context.Context, l *server.Listener, stop context.CancelCauseFunc) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if l.SocketRemoved() {
			stop(errSocketRemoved)
			return nil
		}
	}
}

// partFailed stores and logs that a part has ended unexpectedly.
func (d *daemon) partFailed(name string, err error) {
	d.log.Error("part of the daemon failed", "part", name, "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = map[string]string{}
	}
	d.failed[name] = err.Error()
}

// answer replies to one event.
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

// declinedFor counts a question that the daemon did not answer.
func (d *daemon) declinedFor(reason string) {
	d.declined.Add(1)
	if reason == "version" || reason == "off" { // answer has counted the other reasons
		_, declined := d.metrics.Request()
		declined(reason)
	}
}

// keepAnswer stores the notices of a reply and then its Records, see [hookcmd.WarmOptions]. If the
// process is killed in between, the hook program answers the event again, and the notices have the
// same IDs.
func (d *daemon) keepAnswer(ctx context.Context, lines [][]byte, notices []hookcmd.Notice, sync bool) error {
	fault.At("serve: before an answer is kept")
	err := d.keepNotices(ctx, notices, sync)
	fault.At("serve: the notices of an answer are kept")
	if err == nil && len(lines) > 0 {
		err = d.append(lines, sync)
	}
	fault.At("serve: an answer is kept")
	return err
}

// append appends Records of this process to the log.
func (d *daemon) append(lines [][]byte, sync bool) error {
	d.ours.add(lines)
	begun, err := d.journal.AppendAll(sync, lines...)
	if err != nil {
		d.ours.remove(lines) // another process, or a Spool of this one, appends them
	}
	d.appendFailed(err)
	d.records.Wake()
	if begun > 0 {
		select {
		case d.retireNow <- struct{}{}: // a segment can be sealed
		default:
		}
	}
	return err
}

// keepNotices stores the notices of a reply.
func (d *daemon) keepNotices(ctx context.Context, notices []hookcmd.Notice, sync bool) error {
	if len(notices) == 0 {
		return nil
	}
	jobs := make([]delivery.Job, len(notices))
	for i := range notices {
		var err error
		if jobs[i], err = jobFor(&notices[i].Pending, &notices[i].HTTP); err != nil {
			return err
		}
	}
	if err := d.queue.Put(ctx, jobs...); err != nil || !sync {
		return err
	}
	return d.queue.Flush()
}

// newExport returns what sends telemetry to collectors; nil = the environment names none, or is wrong.
func (d *daemon) newExport() *telemetry.Export {
	o, err := telemetry.FromEnv(os.Getenv)
	if err != nil {
		d.log.Warn("cannot export telemetry", "error", err)
	}
	o.Version, o.Origin, o.Metrics, o.Log = hookcmd.Version, d.place.Identity(), d.metrics, d.log
	if o.RootCAs, err = certs.Roots(nil, d.place.Reach().CA); err != nil {
		d.log.Warn("telemetry trusts only the certificate authorities of the system", "error", err)
	}
	export, err := telemetry.NewExport(o)
	if err != nil {
		d.log.Warn("cannot export telemetry", "error", err)
	}
	return export
}

// appended counts a line that another process has appended: a hook program replied without the daemon.
func (d *daemon) appended(ctx context.Context, line *spool.Line) {
	if line.Torn != nil {
		return
	}
	d.others.Add(1)
	if line.Entry.Late {
		d.metrics.ObserveLate(ctx, &line.Entry.Record)
		d.export.ObserveLate(ctx, &line.Entry.Record)
		return
	}
	d.observe(ctx, &line.Entry.Record)
}

// observe passes a stored Record to metrics and traces.
func (d *daemon) observe(ctx context.Context, rec *grapnel.Record) {
	d.metrics.Observe(ctx, rec)
	d.export.Observe(ctx, rec)
}
