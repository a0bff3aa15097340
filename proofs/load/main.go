// Load sends events to a daemon as many agents do at once, and prints the rate of answers that
// have a Record:
//
//	go run ./proofs/load                  # 1, 8 and 64 callers, 5 s each
//	go run ./proofs/load -gate -time 10s  # fails 15 % below the rate of today at 64 callers
//	go run ./proofs/load -new             # a new connection for each question
//
// It builds grapnel with the release flags and starts "grapnel serve" below a temporary
// directory. -dir sets the parent of this directory; its disk is part of the measurement. The
// callers run in this process. Each caller keeps one connection, as a long-running agent does;
// with -new it connects for each question, as grapnel-hook does. proofs/bench measures the
// start of a process. Callers and daemon share the machine.
//
// Afterwards it compares the log with the answers: each answer has exactly one Record, no other
// Record exists, no delivery waits, and the chain of Records is complete.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// The gate compares the rate of 64 callers with the budget for unsynced Records, as
// proofs/bench does. The rate does not meet the budget yet, so the gate requires gateToday.
const (
	gateCallers = 64
	gateBudget  = 20000
	gateToday   = 4900
)

// tooSlow reports whether a rate fails the gate: a Record takes more than limit times the allowed
// time.
func tooSlow(rate, limit float64) bool { return rate*limit < min(gateBudget, gateToday) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the parsed command line.
type options struct {
	gate, json bool
	limit      float64
	anew       bool // a new connection for each question
	time       time.Duration
	callers    []int
	rules      int
	dir        string
	profile    string
}

// run returns the exit status: 0 success, 1 the gate failed or a Record was lost, 64 usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{callers: []int{1, 8, gateCallers}}
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.gate, "gate", false, fmt.Sprintf("exit 1 if %d callers get too few Records per second", gateCallers))
	flags.Float64Var(&o.limit, "limit", 1.15, "the gate fails if a Record takes this `multiple` of its time")
	flags.BoolVar(&o.json, "json", false, "print rows as JSON")
	flags.BoolVar(&o.anew, "new", false, "open a connection for each question, like grapnel-hook")
	flags.DurationVar(&o.time, "time", 5*time.Second, "measure each row this `long`")
	flags.IntVar(&o.rules, "rules", 10, "number of `rules` in the policy")
	flags.StringVar(&o.dir, "dir", "", "the `directory` for the files of the daemon; empty = the system's temporary directory")
	flags.StringVar(&o.profile, "profile", "", "keep a CPU profile of the daemon in this `file`")
	flags.Func("callers", "numbers of concurrent callers, as a `list` like 1,8,64", func(text string) (err error) {
		o.callers = nil
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 || n > 4096 {
				return fmt.Errorf("%q is not a number from 1 to 4096", word)
			}
			o.callers = append(o.callers, n)
		}
		return nil
	})
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 64
	case flags.NArg() > 0 || o.time <= 0 || o.rules < 1 || o.limit < 1:
		fmt.Fprintf(stderr, "load: want no arguments, a time and rules above 0, a limit of at least 1, got %q, %v, %d, %g\n", flags.Args(), o.time, o.rules, o.limit)
		return 64
	case o.gate && !slices.Contains(o.callers, gateCallers):
		fmt.Fprintf(stderr, "load: -gate is about %d callers, and -callers does not name them\n", gateCallers)
		return 64
	}
	rows, err := o.measure(ctx, stdout)
	if err == nil && o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(rows)
	}
	if err != nil {
		fmt.Fprintf(stderr, "load: error: %v\n", err)
		return 1
	}
	for _, r := range rows {
		if o.gate && r.Callers == gateCallers && tooSlow(r.Rate, o.limit) {
			fmt.Fprintf(stderr, "load: %.0f Records per second; the budget is %d, today's rate is %d, and a Record may take %.2f times as long\n", r.Rate, gateBudget, gateToday, o.limit)
			return 1
		}
	}
	return 0
}

// A row is the result for one number of callers. Times are milliseconds.
type row struct {
	Callers int     `json:"callers"`
	Records int     `json:"records"`
	Rate    float64 `json:"rate"` // per second
	P50     float64 `json:"p50_ms"`
	P95     float64 `json:"p95_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Slow    int     `json:"slow"`   // questions that were not answered in time
	CPU     float64 `json:"cpu_us"` // of the daemon, for each Record: microseconds; 0 = unknown
	RSS     int64   `json:"rss"`    // of the daemon, afterwards: bytes; 0 = unknown
}

// measure runs the load for each number of callers, and verifies that every answer has a Record.
func (o *options) measure(ctx context.Context, stdout io.Writer) (rows []row, err error) {
	dir, err := os.MkdirTemp(o.dir, "grapnel-load-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	tags, env := "", []string(nil)
	if o.profile != "" {
		name, err := filepath.Abs(o.profile)
		if err != nil {
			return nil, err
		}
		tags, env = "faults", []string{"GRAPNEL_FAULT_PROFILE=" + name}
	}
	bin, err := served.Build(ctx, dir, tags, "grapnel")
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), policy(o.rules), 0o600); err != nil {
		return nil, err
	}
	d, err := served.Start(ctx, bin, root, env)
	if err != nil {
		return nil, err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, d.Kill())
		}
	}()
	if err := inForce(d); err != nil {
		return nil, err
	}
	if !o.json {
		fmt.Fprintf(stdout, "%d rules, %v per row, %s/%s, %d CPUs, %s\n\n%8s %9s %9s %8s %8s %8s %8s %6s %7s %7s\n", o.rules, o.time,
			runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), "callers", "records/s", "records", "p50 ms", "p95 ms", "p99 ms", "max ms", "slow", "CPU µs", "RSS MB")
	}
	asked := map[string]bool{"load-canary": true} // true = it was answered
	answers := 1
	for _, n := range o.callers {
		r, ids, slow, err := o.load(ctx, d, n)
		if err != nil {
			return nil, fmt.Errorf("%d callers: %w", n, err)
		}
		for _, id := range ids {
			asked[id] = true
		}
		for _, id := range slow {
			asked[id] = false
		}
		answers += len(ids)
		rows = append(rows, r)
		if !o.json {
			fmt.Fprintf(stdout, "%8d %9.0f %9d %8.2f %8.2f %8.2f %8.2f %6d %7.0f %7.1f\n", r.Callers, r.Rate, r.Records, r.P50, r.P95, r.P99, r.Max, r.Slow, r.CPU, float64(r.RSS)/1e6)
		}
	}
	stopped = true
	if err := d.Stop(); err != nil {
		return nil, err
	}
	if err := kept(ctx, root, asked); err != nil {
		return nil, err
	}
	if !o.json {
		fmt.Fprintf(stdout, "\nthe log has one Record for each of %d answers, and none was changed\n", answers)
	}
	return rows, nil
}

// shellLine is the command of every event. No rule blocks it.
const shellLine = `npm test -- --reporter=dot 2>&1 | tail -n 40`

// policy returns a policy of n rules about commands. The last rule blocks the canary.
func policy(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nhooks:\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "  - name: rule-%d\n    on: tool.before\n    match: {command: kubectl delete namespace team-%d}\n    ask: This deletes a namespace. Go on?\n", i, i)
	}
	b.WriteString("  - name: canary\n    on: tool.before\n    match: {command: grapnel-load-canary}\n    block: This is the canary.\n")
	return []byte(b.String())
}

// inForce verifies that the daemon applies the policy. A daemon without rules would look fast.
func inForce(d *served.Daemon) error {
	a, err := client.Ask(d.Socket(), d.Question("load-canary", served.Event(d.Root, "canary", "toolu_canary", "grapnel-load-canary")))
	if err != nil {
		return fmt.Errorf("ask about the canary: %w: %s", err, d.Output())
	}
	if !strings.Contains(string(a.Stdout), "This is the canary.") {
		return fmt.Errorf("the policy is not in force: the canary is answered with %q, %q", a.Stdout, a.Stderr)
	}
	return nil
}

// load runs n callers for the configured time. Each caller sends its next question after the last
// answer.
func (o *options) load(ctx context.Context, d *served.Daemon, n int) (r row, ids, slow []string, err error) {
	type result struct {
		ids   []string
		slow  []string
		times []time.Duration
		err   error
	}
	results := make([]result, n)
	before, _ := d.Use()
	begun := time.Now()
	end := begun.Add(o.time)
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() {
			got := &results[i]
			session := fmt.Sprintf("load-%d-%d", n, i)
			ask := func(q *client.Question) (*client.Answer, error) { return client.Ask(d.Socket(), q) }
			if !o.anew {
				caller, err := d.Call(ctx)
				if err != nil {
					got.err = err
					return
				}
				defer caller.Close()
				ask = caller.Ask
			}
			for at := time.Now(); at.Before(end) && ctx.Err() == nil; {
				id := spool.NewID(at)
				a, err := ask(d.Question(id, served.Event(d.Root, session, "toolu_"+id, shellLine)))
				now := time.Now()
				if err != nil && len(got.slow) < 100 {
					got.slow = append(got.slow, id) // grapnel-hook would answer by itself
					continue
				}
				if err != nil || a.Exit != 0 || len(a.Stderr) > 0 {
					got.err = fmt.Errorf("the daemon does not answer: %w (%+v): %s", err, a, d.Output())
					return
				}
				got.ids, got.times = append(got.ids, id), append(got.times, now.Sub(at))
				at = now
			}
		})
	}
	wait.Wait()
	took := time.Since(begun)
	after, _ := d.Use()
	var times []time.Duration
	for i := range results {
		err = errors.Join(err, results[i].err)
		ids, times, slow = append(ids, results[i].ids...), append(times, results[i].times...), append(slow, results[i].slow...)
	}
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return r, nil, nil, err
	}
	slices.Sort(times)
	ms := func(share float64) float64 {
		at := min(len(times)-1, int(float64(len(times))*share))
		return math.Round(float64(times[at].Microseconds())) / 1000
	}
	return row{
		Callers: n, Records: len(ids), Rate: math.Round(float64(len(ids)) / took.Seconds()),
		P50: ms(0.5), P95: ms(0.95), P99: ms(0.99), Max: ms(1), Slow: len(slow), CPU: math.Round(float64((after.CPU - before.CPU).Microseconds()) / float64(len(ids))), RSS: after.RSS,
	}, ids, slow, nil
}

// kept verifies that the log has exactly one Record for each answer.
func kept(ctx context.Context, root string, asked map[string]bool) (err error) {
	r := served.Log(root).Open()
	defer func() { err = errors.Join(err, r.Close()) }()
	seen := make(map[string]bool, len(asked))
	for rec, err := range r.Records(ctx, index.Query{}) {
		switch {
		case err != nil:
			return err
		case seen[rec.ID]:
			return fmt.Errorf("answer %s has two Records", rec.ID)
		}
		seen[rec.ID] = true
		if _, ok := asked[rec.ID]; !ok {
			return fmt.Errorf("record %s has no answer", rec.ID)
		}
	}
	for id, answered := range asked {
		if answered && !seen[id] {
			return fmt.Errorf("answer %s has no Record", id)
		}
	}
	report, err := journal.Verify(ctx, served.Journal(root), journal.VerifyOptions{})
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("the log was changed: %v", report.Findings)
	}
	if report.Records != int64(len(seen)) {
		return fmt.Errorf("the journal has %d Records, and %d were read", report.Records, len(seen))
	}
	return nil
}
