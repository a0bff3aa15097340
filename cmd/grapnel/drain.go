package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

func newDrain(c *console) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Do what waits, on a machine without a daemon",
		Long: "Runs the hooks that were put off, and then tells servers what is due, each once.\n" +
			"With --wait it goes on with what comes due within that time, such as a second try.\n\n" +
			"Agents start the same in the background after each answer that left something\nbehind. With a daemon there is nothing to do here: it does it.",
		Example: "  grapnel drain --wait 1m",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait < 0 {
				return cli.Usage(cli.WithHint(fmt.Errorf("--wait %v: want a time to come", wait), "write a number with a unit: 10s, 1m"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return c.drain(ctx, place, wait)
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "go on for so `LONG` with what comes due")
	return c.jsonFlag(cmd)
}

// drained is what a drain has done.
type drained struct {
	Busy bool `json:"busy,omitempty"` // another process has the deliveries, and does them
	Kept int  `json:"kept"`           // deliveries that were put off, and are in the store now
	delivery.Summary
	Waiting int       `json:"waiting"` // deliveries that are left
	Next    time.Time `json:"next,omitzero"`

	mu   sync.Mutex
	last map[string]tried // guarded by mu; by delivery
}

type tried struct {
	job    delivery.Job
	result delivery.Result
}

func (d *drained) observe(j delivery.Job, r delivery.Result, _ time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[j.ID] = tried{j, r}
}

// keeping is an outbox that only keeps: what is due is told by the drain itself, which
// says how that went.
type keeping struct {
	outbox
	kept int
}

func (k *keeping) Put(ctx context.Context, p spool.Pending, h policy.HTTP) error {
	err := k.outbox.Put(ctx, p, h)
	if err == nil {
		k.kept++
	}
	return err
}

func (k *keeping) Flush(context.Context) error { return k.close() }

func (c *console) drain(ctx context.Context, place local.Place, wait time.Duration) error {
	end := time.Now().Add(wait)
	box := &keeping{outbox: outbox{place: place}}
	err := hookcmd.Drain(ctx, place, box)
	done := &drained{Kept: box.kept, last: make(map[string]tried)}
	err = errors.Join(err, c.deliver(ctx, place, end, done))
	shown := c.printDrained(done)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: what is left waits for the next time")
	case err != nil:
		return fmt.Errorf("drain: %w", err)
	default:
		return shown
	}
}

// deliver tells what is due, until the end of the time.
func (c *console) deliver(ctx context.Context, place local.Place, end time.Time, done *drained) error {
	if _, err := os.Stat(place.Store()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := openStore(ctx, place.Store(), max(lockWait, time.Until(end)), nil)
	if errors.Is(err, store.ErrLocked) {
		done.Busy = true
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		sum, err := deliverOnce(ctx, place, s, done.observe)
		done.Delivered += sum.Delivered
		done.Failed += sum.Failed
		done.Dead += sum.Dead
		done.Off += sum.Off
		if err != nil {
			return err
		}
		if done.Next, err = s.NextDue(ctx); err != nil {
			return err
		}
		at := later(done.Next, time.Now().Add(time.Second)) // one that is due waits for its target
		if done.Next.IsZero() || at.After(end) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(at)):
		}
	}
	targets, err := s.Targets(ctx)
	for _, t := range targets {
		done.Waiting += t.Waiting
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// printDrained says what was done, and fails if a server has not heard.
func (c *console) printDrained(d *drained) error {
	var missed []tried
	for _, id := range slices.Sorted(maps.Keys(d.last)) {
		if t := d.last[id]; t.result.State != delivery.Delivered {
			missed = append(missed, t)
		}
	}
	if c.JSON {
		if err := c.PrintJSON(d); err != nil {
			return err
		}
	} else if err := c.sayDrained(d, missed); err != nil {
		return err
	}
	if len(missed) > 0 {
		return cli.ErrFailed
	}
	return nil
}

func (c *console) sayDrained(d *drained, missed []tried) error {
	for _, t := range missed {
		what := "again " + t.result.Next.Local().Format("01-02 15:04:05")
		switch {
		case t.result.Off:
			what = "its target wants no more"
		case t.result.State == delivery.Dead:
			what = "given up"
		}
		if _, err := fmt.Fprintf(c.Out, "%s  %s  %s (%s)\n", printable.Text(t.job.Target), printable.Text(t.job.ID), oneLine(t.result.Error), what); err != nil {
			return err
		}
	}
	if d.Busy {
		_, err := fmt.Fprintln(c.Out, "Hooks that were put off have run. A daemon, or another drain, is running, and tells the servers.")
		return err
	}
	_, err := fmt.Fprintf(c.Out, "Hooks that were put off have run. Deliveries: %d delivered, %d failed, %d given up, %d left waiting.\n", d.Delivered, d.Failed+d.Off, d.Dead, d.Waiting)
	return err
}
