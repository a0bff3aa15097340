// Soak keeps a daemon busy for a long time and prints its resource usage:
//
//	go run ./proofs/soak -time 10m
//
// It builds grapnel with the release flags, starts "grapnel serve" below a temporary directory,
// and sends it some hundred questions a second: from many sessions, with all kinds of answers.
// Meanwhile it runs grapnel-hook processes, requests pages, and connects and disconnects
// subscribers. At intervals it prints the daemon's memory, goroutines, open files and the size of
// its log, and at the end the unanswered events and the times of the replies. Before that, it
// measures the idle daemon for a while.
//
// The exit status is 1 if an idle daemon uses more than 44 MB, 10 MB of private memory or 0.1 % of a CPU, or if open
// files, goroutines or memory grow by more than a bound between the first and the last part of
// the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// Upper limits for a daemon. The idle daemon has answered some events before.
const (
	idlePrivate = 10_000_000 // bytes, see served.Use
	idleRSS     = 44_000_000 // bytes; it changes by up to 3 MB with the pages of the program that the kernel maps
	idleCPU     = 0.001      // share of one CPU

	moreRSS        = 24_000_000 // bytes between the first third of a run and the last
	moreHandles    = 8
	moreGoroutines = 16
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	time, idle time.Duration
	rate       int
	dir        string
}

// run returns the exit status: 0 success, 1 a limit was exceeded or an answer was wrong, 64
// usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.time, "time", 10*time.Minute, "keep the daemon busy this `long`; 0 = only idle")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "leave the daemon idle this `long` before; 0 = not at all")
	flags.IntVar(&o.rate, "rate", 300, "number of events per `second`")
	flags.StringVar(&o.dir, "dir", "", "the `directory` for the files of the daemon; empty = the system's temporary directory")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 64
	case flags.NArg() > 0 || o.time < 0 || o.idle < 0 || o.rate < 1:
		fmt.Fprintf(stderr, "soak: want no arguments, times and a rate, got %q, %v, %v, %d\n", flags.Args(), o.time, o.idle, o.rate)
		return 64
	}
	if err := o.soak(ctx, stdout); err != nil {
		fmt.Fprintf(stderr, "soak: error: %v\n", err)
		return 1
	}
	return 0
}

const policy = `version: 1
hooks:
  - name: canary
    on: tool.before
    match: {command: grapnel-soak-canary}
    block: This is the canary.
  - name: hide
    on: tool.before
    replace: [{pattern: 'hide-[a-z]+', with: "***"}]
  - name: often
    on: tool.before
    match: {command: make}
    limit: {count: 1000000, per: 1h, by: session}
`

// commands are the commands of the agents, each with a text that the reply must contain. If want
// is empty, the reply must be empty.
var commands = []struct{ line, want string }{
	{"go test ./...", ""},
	{"make lint", ""},
	{"grapnel-soak-canary", `"permissionDecision":"deny"`},
	{"echo hide-this", `echo ***`},
}

func (o *options) soak(ctx context.Context, stdout io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.dir, "grapnel-soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	bin, err := served.Build(ctx, dir, "", "grapnel", "grapnel-hook")
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	d, err := served.Start(ctx, bin, root, nil)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, d.Kill())
		}
	}()
	s := &soak{options: o, d: d, bin: bin, out: stdout}
	for n := range 100 { // measure a daemon that has answered events, not a fresh one
		if err := s.ask(n); err != nil {
			return err
		}
	}
	var bad []error
	if o.idle > 0 {
		bad = append(bad, s.idle(ctx))
	}
	if o.time > 0 {
		bad = append(bad, s.busy(ctx))
	}
	stopped = true
	bad = append(bad, d.Stop(), s.whole(ctx))
	return errors.Join(bad...)
}

type soak struct {
	*options
	d    *served.Daemon
	bin  string
	out  io.Writer
	next atomic.Int64
	slow atomic.Int64 // questions that were not answered in time
	errs atomic.Int64
	last atomic.Pointer[error]

	asked, hooked replies // of the daemon, and of grapnel-hook
}

// replies are the times of answers.
type replies struct {
	mu   sync.Mutex
	took []time.Duration
}

func (r *replies) add(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, took)
}

func (r *replies) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.took) == 0 {
		return "none"
	}
	slices.Sort(r.took)
	at := func(share float64) time.Duration {
		return r.took[int(share*float64(len(r.took)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v of %d", at(0.5), at(0.99), len(r.took))
}

// idle measures a daemon without clients.
func (s *soak) idle(ctx context.Context) error {
	select { // wait until the daemon has finished deferred work
	case <-time.After(8 * time.Second): // it returns memory five seconds after a load of policies
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	before, err := s.d.Use()
	if err != nil {
		return err
	}
	begun := time.Now()
	select {
	case <-time.After(s.options.idle):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := s.d.Use()
	if err != nil {
		return err
	}
	cpu := (after.CPU - before.CPU).Seconds() / time.Since(begun).Seconds()
	fmt.Fprintf(s.out, "idle for %v: %.1f MB, %.1f of them private, %.3f %% CPU, %d handles, %d threads\n",
		s.options.idle, float64(after.RSS)/1e6, float64(after.Private)/1e6, 100*cpu, after.Handles, after.Threads)
	var errs []error
	if after.Private > idlePrivate {
		errs = append(errs, fmt.Errorf("the idle daemon uses %.1f MB of private memory, the maximum is %.0f", float64(after.Private)/1e6, idlePrivate/1e6))
	}
	if after.RSS > idleRSS {
		errs = append(errs, fmt.Errorf("the idle daemon uses %.1f MB, the maximum is %.0f", float64(after.RSS)/1e6, idleRSS/1e6))
	}
	// 10 ms more are work that is due once, such as the head of the log.
	if cpu > idleCPU+0.01/time.Since(begun).Seconds() {
		errs = append(errs, fmt.Errorf("the idle daemon uses %.3f %% of a CPU, the maximum is %.2f", 100*cpu, 100*idleCPU))
	}
	return errors.Join(errs...)
}

// A sample is one measurement of the daemon.
type sample struct {
	served.Use
	goroutines int // 0 = unknown
	heap       int64
	log        int64 // bytes of all its files
}

// busy keeps the daemon busy and compares samples from the first and the last part of the run.
func (s *soak) busy(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, s.time)
	defer stop()
	var wait sync.WaitGroup
	const callers = 16
	for i := range callers {
		wait.Go(func() { s.call(ctx, i, time.Second*callers/time.Duration(s.rate)) })
	}
	wait.Go(func() { s.hooks(ctx) })
	wait.Go(func() { s.look(ctx) })
	every := min(max(s.time/60, time.Second), 10*time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	fmt.Fprintf(s.out, "%8s %9s %8s %8s %10s %8s %8s %6s %6s\n", "time", "records", "RSS MB", "heap MB", "goroutines", "handles", "log MB", "slow", "wrong")
	var samples []sample
	begun := time.Now()
	var failed error
loop:
	for {
		select {
		case <-ctx.Done():
			break loop
		case <-s.d.Done():
			failed = fmt.Errorf("the daemon has stopped: %s", s.d.Output())
			stop()
		case <-tick.C:
			got, err := s.sample(ctx)
			if ctx.Err() != nil {
				break loop
			}
			if err != nil {
				failed = err
				stop()
				break loop
			}
			samples = append(samples, got)
			fmt.Fprintf(s.out, "%8v %9d %8.1f %8.1f %10d %8d %8.1f %6d %6d\n", time.Since(begun).Round(time.Second), s.next.Load(),
				float64(got.RSS)/1e6, float64(got.heap)/1e6, got.goroutines, got.Handles, float64(got.log)/1e6, s.slow.Load(), s.errs.Load())
		}
	}
	wait.Wait()
	fmt.Fprintf(s.out, "unanswered: %d of %d events; replies of the daemon: %v; of grapnel-hook: %v\n", s.errs.Load(), s.next.Load()+s.slow.Load()+s.errs.Load(), &s.asked, &s.hooked)
	if failed == nil && s.errs.Load() > 0 {
		failed = fmt.Errorf("%d answers were wrong or missing: %w", s.errs.Load(), *s.last.Load())
	}
	if slow, all := s.slow.Load(), s.next.Load(); failed == nil && slow > 10+all/100 {
		failed = fmt.Errorf("%d of %d questions were not answered in time", slow, slow+all)
	}
	if len(samples) > 0 && samples[0].goroutines == 0 {
		fmt.Fprintln(s.out, "the daemon has no metrics: the number of goroutines is unknown")
	}
	return errors.Join(failed, grown(samples))
}

// grown returns an error if the median of the last third of the samples exceeds the median of
// the first third by more than a limit. It skips the beginning of the first third.
func grown(samples []sample) error {
	n := len(samples) / 3
	if n < 2 {
		return fmt.Errorf("%d samples are too few to find growth: use a longer soak time", len(samples))
	}
	first, last := samples[n/2:n+n/2], samples[len(samples)-n:]
	middle := func(of []sample, what func(*sample) int64) int64 {
		var all []int64
		for i := range of {
			all = append(all, what(&of[i]))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	var errs []error
	for _, c := range []struct {
		name string
		more int64
		what func(*sample) int64
	}{
		{"bytes of memory", moreRSS, func(s *sample) int64 { return s.RSS }},
		{"open files", moreHandles, func(s *sample) int64 { return int64(s.Handles) }},
		{"goroutines", moreGoroutines, func(s *sample) int64 { return int64(s.goroutines) }},
	} {
		if a, b := middle(first, c.what), middle(last, c.what); b > a+c.more {
			errs = append(errs, fmt.Errorf("%d %s grew to %d, the maximum is %d", a, c.name, b, c.more))
		}
	}
	return errors.Join(errs...)
}

// Metrics in the daemon's output. Not every daemon has them.
var (
	goroutines = regexp.MustCompile(`(?m)^go_goroutines (\S+)`)
	heap       = regexp.MustCompile(`(?m)^go_memstats_heap_(?:alloc|inuse)_bytes (\S+)`)
)

func (s *soak) sample(ctx context.Context) (got sample, err error) {
	if got.Use, err = s.d.Use(); err != nil {
		return got, err
	}
	if text, err := s.d.Get(ctx, "/metrics"); err == nil {
		got.goroutines = int(number(goroutines, text))
		got.heap = number(heap, text)
	}
	err = filepath.WalkDir(served.State(s.d.Root), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file can be removed meanwhile
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			got.log += info.Size()
		}
		return nil
	})
	return got, err
}

func number(re *regexp.Regexp, text []byte) int64 {
	m := re.FindSubmatch(text)
	if m == nil {
		return 0
	}
	x, _ := strconv.ParseFloat(string(m[1]), 64)
	return int64(x)
}

// ask sends the n-th event and checks the answer.
func (s *soak) ask(n int) error {
	c := &commands[n%len(commands)]
	id := fmt.Sprintf("soak-%d", n)
	begun := time.Now()
	a, err := client.Ask(s.d.Socket(), s.d.Question(id, served.Event(s.d.Root, fmt.Sprint("session-", n%50), "toolu_"+id, c.line)))
	if err != nil { // grapnel-hook would answer by itself
		s.slow.Add(1)
		return nil //nolint:nilerr // it is counted
	}
	if a.Exit != 0 || len(a.Stderr) > 0 || !strings.Contains(string(a.Stdout), c.want) || c.want == "" && len(a.Stdout) > 0 {
		return fmt.Errorf("event %d, %q: %q, %q, %d", n, c.line, a.Stdout, a.Stderr, a.Exit)
	}
	s.asked.add(time.Since(begun))
	s.next.Add(1)
	return nil
}

func (s *soak) wrong(err error) {
	s.errs.Add(1)
	s.last.Store(&err)
}

// call sends events at a constant rate.
func (s *soak) call(ctx context.Context, caller int, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.ask(1000 + caller + 16*n); err != nil {
				s.wrong(err)
			}
		}
	}
}

// hooks runs grapnel-hook at intervals.
func (s *soak) hooks(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		c := &commands[n%len(commands)]
		cmd := exec.CommandContext(context.WithoutCancel(ctx), served.Exe(s.bin, "grapnel-hook"), "claude-code", "--root", s.d.Root)
		cmd.Dir, cmd.Env = served.Project(s.d.Root), served.Env(s.d.Root)
		cmd.Stdin = strings.NewReader(string(served.Event(s.d.Root, fmt.Sprint("hook-", n%50), fmt.Sprint("toolu_hook_", n), c.line)))
		begun := time.Now()
		out, err := cmd.Output()
		s.hooked.add(time.Since(begun))
		if err != nil || !strings.Contains(string(out), c.want) {
			s.wrong(fmt.Errorf("grapnel-hook, %q: %q, %w", c.line, out, err))
		}
		s.next.Add(1)
		pause(ctx, 200*time.Millisecond)
	}
}

// look reads pages, and disconnects from an endless page after a random time.
func (s *soak) look(ctx context.Context) {
	pages := []string{"/v1/health", "/v1/policy", "/v1/records?limit=20", "/v1/deliveries", "/v1/events"}
	for n := 0; ctx.Err() == nil; n++ {
		if page := pages[n%len(pages)]; page == "/v1/events" {
			brief, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(300*time.Millisecond))))
			_, _ = s.d.Get(brief, page) // until the time is over
			cancel()
		} else if _, err := s.d.Get(ctx, page); err != nil && ctx.Err() == nil {
			if !strings.Contains(err.Error(), "404") { // a daemon without this page
				s.wrong(err)
			}
		}
		pause(ctx, 300*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// whole verifies the log.
func (s *soak) whole(ctx context.Context) error {
	report, err := journal.Verify(ctx, served.Journal(s.d.Root), journal.VerifyOptions{})
	if err == nil && !report.OK() {
		err = fmt.Errorf("the log was changed: %v", report.Findings)
	}
	if err == nil {
		fmt.Fprintf(s.out, "the log has %d Records, and none was changed\n", report.Records)
	}
	return err
}
