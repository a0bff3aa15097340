// Crash kills a daemon again and again while agents send events to it, and verifies that nothing
// was lost:
//
//	go run ./proofs/crash               # 1,000 kills
//	go run ./proofs/crash -kills 30 -v  # each point once, and some more; less than a minute
//	go run ./proofs/crash -sync         # the same with records: {sync: true}
//	go test ./proofs/crash              # a short form, and other failures of a daemon
//
// Without sync, a Record must survive a killed daemon; with it also a power cut, which this
// program cannot make, but TestPowerCut can. It can kill a daemon before the flush, and then no
// reply may have come.
//
// It builds grapnel with the build tag "faults", so that a process can die at named points:
// before and after a commit, between storing an answer and sending its reply, while it reads the
// log. First, one daemon dies at each point, so that no point depends on chance. After that,
// half of the kills happen at a random point, the others at a random time. Meanwhile real
// grapnel-hook processes run, which answer by themselves when no daemon runs. Callers in this
// process ask only the daemon.
//
// At the end it starts a daemon, stops it cleanly, and checks: Each answer has one Record with
// the same decision. Each webhook for such an answer was delivered at least once, always under
// the same ID. The chain of Records is complete. No file of an interrupted operation is left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit status: 0 success, 1 something was lost or not tried, 64 usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kills := flags.Int("kills", 1000, "how `often` the daemon is killed; at least once at each point")
	seed := flags.Uint64("seed", rand.Uint64(), "seed of the random numbers")
	sync := flags.Bool("sync", false, "have each Record flushed to the disk before its reply")
	verbose := flags.Bool("v", false, "print each kill")
	keep := flags.Bool("keep", false, "keep the directory after the test")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 64
	case flags.NArg() > 0 || *kills < 1:
		fmt.Fprintf(stderr, "crash: want no arguments and at least one kill, got %q and %d\n", flags.Args(), *kills)
		return 64
	}
	if err := crash(ctx, *kills, *seed, *sync, *verbose, *keep, stdout); err != nil {
		fmt.Fprintf(stderr, "crash: error: %v (seed %d)\n", err, *seed)
		return 1
	}
	return 0
}

// remove removes a directory. It retries, because a drain that grapnel-hook started may still
// write there.
func remove(dir string) error {
	err := os.RemoveAll(dir)
	for end := time.Now().Add(limit); err != nil && time.Now().Before(end); err = os.RemoveAll(dir) {
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func crash(ctx context.Context, kills int, seed uint64, sync, verbose, keep bool, stdout io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "grapnel-crash-")
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	defer func() {
		if keep {
			fmt.Fprintln(stdout, "left in", dir)
			return
		}
		err = errors.Join(err, remove(dir))
	}()
	bin := filepath.Join(dir, "bin")
	if err := served.Compile(ctx, bin, "faults", "grapnel", "grapnel-hook"); err != nil {
		return err
	}
	t := newTrial(bin, filepath.Join(dir, "root"), seed)
	t.logf = func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	t.sync, t.verbose = sync, verbose
	begun := time.Now()
	kills = max(kills, len(points))
	if err := t.run(ctx, kills); err != nil {
		return err
	}
	t.logf("%d kills in %v (seed %d)\n%v", kills, time.Since(begun).Round(time.Second), seed, t.report())
	return nil
}
