package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
)

// defaultDeliveries is the maximum number of deliveries in a list. A queue may hold a million.
const defaultDeliveries = 1000

func newDeliveries(c *console) *cobra.Command {
	var state, target string
	var limit int
	cmd := &cobra.Command{
		Use:   "deliveries",
		Short: "List and manage webhook deliveries",
		Long: `Print one line per delivery, oldest first: waiting, delivered and dead ones. A dead delivery
is sent again only when you retry it.`,
		Example: "  grapnel deliveries --state dead\n  grapnel deliveries retry --all-dead --target team\n  grapnel deliveries on team",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := queue.Query{State: delivery.State(state), Limit: limit}
			known := []delivery.State{"", delivery.Waiting, delivery.Delivered, delivery.Dead}
			switch {
			case !slices.Contains(known, query.State):
				return cli.Usage(cli.WithHint(fmt.Errorf("unknown state %q", state), "use waiting, delivered or dead"))
			case limit < 0:
				return cli.Usage(fmt.Errorf("--limit %d: want a number, or 0 for all", limit))
			}
			return c.read(func(r *queue.Reader) error { return c.listDeliveries(cmd.Context(), r, query, target) })
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only deliveries in this `STATE`: waiting, delivered or dead")
	cmd.Flags().StringVar(&target, "target", "", "only deliveries of this `HOOK`")
	cmd.Flags().IntVar(&limit, "limit", defaultDeliveries, "only the `N` newest deliveries; 0 for all")
	cmd.AddCommand(newDeliveriesShow(c), newDeliveriesRetry(c), newDeliveriesOn(c), newDeliveriesTest(c))
	return c.jsonFlag(cmd)
}

func newDeliveriesShow(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "show ID",
		Short: "Show one delivery and its content",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.read(func(r *queue.Reader) error {
				job, err := control.Delivery(cmd.Context(), r, args[0])
				if err != nil {
					return err
				}
				if c.JSON {
					return c.PrintJSON(job)
				}
				return c.printDelivery(&job)
			})
		},
	})
}

func newDeliveriesRetry(c *console) *cobra.Command {
	var all bool
	var target string
	cmd := &cobra.Command{
		Use:     "retry [ID...]",
		Short:   "Retry dead deliveries",
		Long:    "Retry dead deliveries now, with the same retry schedule as new ones.",
		Example: "  grapnel deliveries retry 01KAP4X2\n  grapnel deliveries retry --all-dead --target team",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return cli.Usage(errors.New("pass --all-dead or IDs, not both"))
			case !all && len(args) == 0:
				return cli.Usage(cli.WithHint(errors.New("no delivery given: pass IDs or --all-dead"), `run "grapnel deliveries --state dead"`))
			case !all && target != "":
				return cli.Usage(errors.New("--target needs --all-dead"))
			}
			var ids []string
			err := c.read(func(r *queue.Reader) (err error) {
				ids, err = control.DeadIDs(cmd.Context(), r, args, target)
				return err
			})
			if err != nil {
				return err
			}
			n := 0
			if len(ids) > 0 {
				if err := c.change(func(k control.Deliveries) (err error) { n, err = k.Retry(cmd.Context(), ids...); return err }); err != nil {
					return err
				}
			}
			if c.JSON {
				return c.PrintJSON(map[string]any{"retried": n, "ids": append([]string{}, ids...)})
			}
			_, err = fmt.Fprintf(c.Out, "%s\n", againText(n))
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all-dead", false, "retry all dead deliveries")
	cmd.Flags().StringVar(&target, "target", "", "only deliveries of this `HOOK`")
	return c.jsonFlag(cmd)
}

func againText(n int) string {
	switch n {
	case 0:
		return "No delivery is dead."
	case 1:
		return `1 delivery will be retried: by the daemon at once, or by "grapnel drain".`
	default:
		return fmt.Sprintf(`%d deliveries will be retried: by the daemon at once, or by "grapnel drain".`, n)
	}
}

func newDeliveriesOn(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:     "on TARGET",
		Short:   "Resume deliveries to a disabled target",
		Long:    "Resume deliveries to the server of a hook after it answered 410 (gone), which disabled it.\nDeliveries that waited since then are sent.",
		Example: "  grapnel deliveries on team",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var target queue.Target
			err := c.read(func(r *queue.Reader) (err error) {
				target, err = control.Target(cmd.Context(), r, args[0])
				return err
			})
			if err != nil {
				return err
			}
			if target.Off {
				if err := c.change(func(k control.Deliveries) error { return k.SwitchOn(cmd.Context(), target.Name) }); err != nil {
					return err
				}
			}
			if c.JSON {
				return c.PrintJSON(map[string]any{"target": target.Name, "on": true, "was_off": target.Off, "waiting": target.Waiting})
			}
			if !target.Off {
				_, err = fmt.Fprintf(c.Out, "%s is not disabled.\n", printable.Text(target.Name))
				return err
			}
			_, err = fmt.Fprintf(c.Out, "%s is enabled again. %d deliveries wait: the daemon sends them now, or run \"grapnel drain\".\n", printable.Text(target.Name), target.Waiting)
			return err
		},
	})
}

func newDeliveriesTest(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "test HOOK",
		Short: "Send an example event through a notify hook now",
		Long: `Send one example event through a notify hook and print what was sent, the answer of the server
and the next step. The event is not stored and not retried.`,
		Example: "  grapnel deliveries test team",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			dir, err := cli.WorkDir()
			if err != nil {
				return err
			}
			t, err := control.TryHook(cmd.Context(), place, dir, args[0])
			if err != nil {
				return err
			}
			if c.JSON {
				err = c.PrintJSON(t)
			} else {
				err = c.printTrial(t)
			}
			if err == nil && !t.Delivered {
				err = cli.ErrFailed
			}
			return err
		},
	})
}

func (c *console) printTrial(t *control.Trial) error {
	result := c.Paint(typeset.Green, "delivered")
	if !t.Delivered {
		result = c.Paint(typeset.Red, "failed") + ": " + oneLine(t.Error)
	}
	status := ""
	if t.Status > 0 {
		status = strings.TrimSpace(fmt.Sprint(t.Status) + " " + oneLine(t.Answer))
	}
	for _, row := range [][2]string{{"hook", printable.Text(t.Hook)}, {"to", printable.Text(t.To)}, {"sent", printable.Text(strings.TrimSpace(t.Sent))}, {"answer", status}, {"result", result}, {"next", t.Next}} {
		if row[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(c.Out, "%-7s %s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}

// read calls do with a reader of the queue. If the queue does not exist, no event was ever
// queued for delivery, and do gets nil.
func (c *console) read(do func(*queue.Reader) error) error {
	place, err := c.Place()
	if err != nil {
		return err
	}
	r, err := queue.OpenReader(place.Queue())
	if errors.Is(err, fs.ErrNotExist) {
		return do(nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
}

// change calls do with the deliveries of the running daemon or, without a daemon, of the queue.
func (c *console) change(do func(control.Deliveries) error) error {
	place, err := c.Place()
	if err != nil {
		return err
	}
	k, err := control.OpenDeliveries(place)
	if err != nil {
		return err
	}
	return errors.Join(do(k), k.Close())
}

// deliveryLine is a delivery in a list. It omits the event, which "show" prints.
type deliveryLine struct {
	delivery.Job
	Event json.RawMessage `json:"event,omitempty"` // always empty; hides the Event of the Job
	Off   bool            `json:"off,omitempty"`   // the target is disabled
}

func (c *console) listDeliveries(ctx context.Context, r *queue.Reader, query queue.Query, target string) error {
	if target != "" {
		found, err := control.Target(ctx, r, target)
		if err != nil {
			return err
		}
		query.Target = found.Name
	}
	var jobs []delivery.Job
	var targets []queue.Target
	if r != nil {
		var err error
		if jobs, err = r.Deliveries(ctx, query); err != nil {
			return err
		}
		if targets, err = r.Targets(ctx); err != nil {
			return err
		}
	}
	off := make(map[string]*queue.Target)
	for i := range targets {
		if targets[i].Off {
			off[targets[i].Name] = &targets[i]
		}
	}
	if len(jobs) == query.Limit && query.Limit > 0 {
		fmt.Fprintf(c.Err, "grapnel: warning: only the %d newest are listed; --limit 0 lists all\n", query.Limit)
	}
	now := time.Now()
	for i := range slices.Backward(jobs) {
		if err := c.printDeliveryLine(&jobs[i], off[jobs[i].Target] != nil, now); err != nil {
			return err
		}
	}
	if c.JSON {
		return nil
	}
	if len(jobs) == 0 {
		fmt.Fprintln(c.Out, "No deliveries.")
	}
	for i := range targets {
		if t := &targets[i]; t.Off && (query.Target == "" || query.Target == t.Name) {
			fmt.Fprintf(c.Out, "%s is disabled since %s (%s), and %d deliveries wait: run \"grapnel deliveries on %s\" to enable it.\n",
				printable.Text(t.Name), t.Since.Local().Format("01-02 15:04:05"), oneLine(t.Why), t.Waiting, printable.Text(t.Name))
		}
	}
	return nil
}

// printDeliveryLine prints a delivery in a list. It returns an error if the output is closed.
func (c *console) printDeliveryLine(job *delivery.Job, off bool, now time.Time) error {
	if c.JSON {
		return c.PrintLine(deliveryLine{Job: *job, Off: off && job.State == delivery.Waiting})
	}
	_, err := fmt.Fprintf(c.Out, "%s  %s  %s  %s  %s\n", job.Created.Local().Format("01-02 15:04:05"), c.deliveryState(job.State), printable.Text(job.ID), printable.Text(job.Target), progressText(job, off, now))
	return err
}

func (c *console) deliveryState(s delivery.State) string {
	style := map[delivery.State]typeset.Style{delivery.Delivered: typeset.Green, delivery.Dead: typeset.Red, delivery.Waiting: typeset.Yellow}[s]
	return c.Paint(style, fmt.Sprintf("%-9s", s))
}

func oneLine(text string) string { return printable.Text(strings.Join(strings.Fields(text), " ")) }

// progressText describes the tries of a delivery so far and the next step.
func progressText(job *delivery.Job, off bool, now time.Time) string {
	text := "not tried yet"
	switch {
	case job.Tries == 1:
		text = "1 try"
	case job.Tries > 1:
		text = fmt.Sprintf("%d tries", job.Tries)
	}
	switch {
	case job.State != delivery.Waiting:
	case off:
		text += ", its target is disabled"
	case job.Next.After(now):
		text += ", again in " + job.Next.Sub(now).Round(time.Second).String()
	default:
		text += ", due"
	}
	if job.Error != "" {
		text += ": " + oneLine(job.Error)
	}
	return text
}

func (c *console) printDelivery(job *delivery.Job) error {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.RFC3339)
	}
	status, event := "", string(job.Event)
	if job.Status > 0 {
		status = fmt.Sprint(job.Status)
	}
	if job.State == delivery.Delivered && event == "" {
		event = "deleted after the delivery"
	}
	for _, row := range [][2]string{
		{"id", job.ID},
		{"state", string(job.State)},
		{"target", job.Target},
		{"record", job.Record},
		{"session", job.Session},
		{"created", at(job.Created)},
		{"tries", fmt.Sprint(job.Tries)},
		{"next", at(job.Next)},
		{"ended", at(job.Ended)},
		{"status", status},
		{"error", job.Error},
		{"event", event},
	} {
		if row[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(c.Out, "%-8s %s\n", row[0], printable.Text(row[1])); err != nil {
			return err
		}
	}
	return nil
}
