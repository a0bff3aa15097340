// Bench prints what a hook costs, beside the budget for it:
//
//	go run ./test/bench              # -dialects shows every agent, not the worst alone
//	BENCH_JSON=rows.json go run ./test/bench -gate
//
// It builds grapnel-hook and a minimal Go program, starts them in turn with
// /bin/true, and compares the minima of many interleaved runs; a ratio of minima
// carries over from one machine to another and shrugs off what else runs there.
// In-process rows are given in nanoseconds. With -gate, a row that is more than
// 15 % above its budget even after it was measured again makes the exit status 1,
// and a machine that is too busy for that many runs within some minutes gets fewer. On one
// that is slow at starting programs, which the static Go program beside them shows, as much
// more time may pass.
//
// It does not measure agents, models or the hooks that users write, and a part of
// Grapnel that does not exist yet has no row. For time inside one function use
// "go test -bench" in its package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// retries is how often a row that would fail is measured again, and patience how
// long a gate may measure altogether.
const (
	retries  = 8
	patience = 4 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Getenv("BENCH_JSON"), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit status: 0 good, 1 a row failed the gate or could not be
// measured, 64 usage.
func run(ctx context.Context, args []string, jsonFile string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	gate := flags.Bool("gate", false, "exit 1 when a row is more than 15 % above its budget")
	everyone := flags.Bool("dialects", false, "show the rows of all agents, not of the worst alone")
	n := flags.Int("n", 200, "interleaved `runs` of each program")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 64
	case flags.NArg() > 0 || *n < 1:
		fmt.Fprintf(stderr, "bench: want no arguments and at least one run, got %q and %d\n", flags.Args(), *n)
		return 64
	}

	fmt.Fprintf(stdout, "minima of %d interleaved runs, %s/%s, %d CPUs, %s\n\n",
		*n, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	rows, beside, err := all(ctx, plan{runs: *n, retries: retries}, *gate)
	if err != nil {
		fmt.Fprintf(stderr, "bench: error: %v\n", err)
		return 1
	}
	table := rows
	if !*everyone {
		table = worst(rows)
	}
	if err := printTable(stdout, table); err != nil {
		fmt.Fprintf(stderr, "bench: error: %v\n", err)
		return 1
	}
	for _, note := range beside {
		fmt.Fprintf(stdout, "\nfor comparison: %s\n", note)
	}
	if jsonFile != "" {
		if err := writeJSON(jsonFile, rows); err != nil {
			fmt.Fprintf(stderr, "bench: error: %v\n", err)
			return 1
		}
	}
	bad := failed(rows)
	if len(bad) == 0 {
		return 0
	}
	fmt.Fprintf(stdout, "\nmore than %.0f %% above budget: %s\n", 100*tolerance, strings.Join(bad, "; "))
	if *gate {
		return 1
	}
	return 0
}

// all sets everything up in a temporary directory, measures every row, and says
// what was measured beside them.
func all(ctx context.Context, p plan, gate bool) (rows []row, beside []string, err error) {
	dir, err := os.MkdirTemp("", "grapnel-bench-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin, err := build(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	background := &daemons{bin: bin}
	defer func() { err = errors.Join(err, background.end()) }()
	spawned, err := spawnContests(ctx, dir, bin, background)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the programs: %w", err)
	}
	kept, err := background.durable(ctx, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the daemon: %w", err)
	}
	played, err := replayContests(ctx, dir, bin)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the Records: %w", err)
	}
	inside, err := engineContests(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the engines: %w", err)
	}
	agents, err := hostContests(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the agents: %w", err)
	}
	warm, end, failed := workerContest(ctx, bin)
	defer func() { err = errors.Join(err, end()) }()
	if failed != nil {
		return nil, nil, fmt.Errorf("set up the worker: %w", failed)
	}
	served, hangUp, failed := servedContests(ctx, dir, bin)
	defer func() { err = errors.Join(err, hangUp()) }()
	if failed != nil {
		return nil, nil, fmt.Errorf("set up the served hook: %w", failed)
	}
	tests, err := testContests(ctx, dir, bin)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the tests of a policy: %w", err)
	}
	if gate {
		p.until = time.Now().Add(patience)
	}
	var least *contest
	// One group after the other: whatever one leaves in the caches of the CPU
	// must not land on another.
	for _, g := range append(spawned, inside, agents, warm, served, kept, tests, played) {
		more, err := measure(ctx, p, g)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, more...)
		for _, c := range g.beside {
			ratio, err := c.ratio()
			if err != nil {
				return nil, nil, err
			}
			beside = append(beside, fmt.Sprintf("%s in %s, %.2f of %s", c.name, c.show(c.subject.min), ratio, c.reference.name))
			least = c
		}
	}
	static, err := least.ratio()
	if err != nil {
		return nil, nil, err
	}
	more := pace(static, least.reference.unrest())
	for i := range rows {
		rows[i].allow(more)
	}
	if more > 1 {
		beside = append(beside, fmt.Sprintf("where the budgets were made it takes %.2f; half of the runs of %s took %.2f times the shortest here: the gate lets %.2f times as much time pass",
			usual, least.reference.name, least.reference.unrest(), more))
	}
	return rows, beside, nil
}

// build compiles what is measured, as it is shipped: the Makefile alone says how. It
// returns where it lies, and copies it there, as it is installed: what a linker has just
// written lies scattered in the memory of the file system and starts up to a tenth slower.
func build(ctx context.Context, dir string) (bin string, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/grapnel-dev/grapnel").Output()
	if err != nil {
		return "", fmt.Errorf("find the Makefile: %w", err)
	}
	built := filepath.Join(dir, "build")
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", strings.TrimSpace(string(root)), "build",
		"BIN="+built+string(filepath.Separator), "PROGRAMS=./cmd/grapnel-hook ./cmd/grapnel ./test/bench/static ./test/bench/echoworker")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	bin = filepath.Join(dir, "bin")
	return bin, os.CopyFS(bin, os.DirFS(built))
}
