package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/local"
)

// defaultDeliveries is how many deliveries are listed at most, since a store may hold a
// million.
const defaultDeliveries = 1000

func newDeliveries(c *console) *cobra.Command {
	var state, target string
	var limit int
	cmd := &cobra.Command{
		Use:   "deliveries",
		Short: "Show what servers are told, and what they have not heard",
		Long: "Prints one line per delivery, the oldest first: those that wait for their time,\n" +
			"those that were delivered, and the dead ones, which are tried again when you say so.",
		Example: "  grapnel deliveries --state dead\n  grapnel deliveries retry --all-dead --target team\n  grapnel deliveries on team",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := store.DeliveryQuery{State: delivery.State(state), Limit: limit}
			known := []delivery.State{"", delivery.Waiting, delivery.Delivered, delivery.Dead}
			switch {
			case !slices.Contains(known, query.State):
				return cli.Usage(cli.WithHint(fmt.Errorf("unknown state %q", state), "known are waiting, delivered and dead"))
			case limit < 0:
				return cli.Usage(fmt.Errorf("--limit %d: want a number, or 0 for all", limit))
			}
			return c.read(func(r *store.Reader) error { return c.listDeliveries(cmd.Context(), r, query, target) })
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only those in this `STATE`: waiting, delivered or dead")
	cmd.Flags().StringVar(&target, "target", "", "only those of this `HOOK`")
	cmd.Flags().IntVar(&limit, "limit", defaultDeliveries, "only the `N` youngest; 0 for all")
	cmd.AddCommand(newDeliveriesShow(c), newDeliveriesRetry(c), newDeliveriesOn(c))
	return c.jsonFlag(cmd)
}

func newDeliveriesShow(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "show ID",
		Short: "Show all of one delivery, with what is sent",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.read(func(r *store.Reader) error {
				job, err := deliveryOf(cmd.Context(), r, args[0])
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
		Short:   "Have dead deliveries tried again",
		Long:    "Has dead deliveries tried again at once, and as often as new ones.",
		Example: "  grapnel deliveries retry 01KAP4X2\n  grapnel deliveries retry --all-dead --target team",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return cli.Usage(errors.New("--all-dead and IDs: want one of them"))
			case !all && len(args) == 0:
				return cli.Usage(cli.WithHint(errors.New("want the IDs of deliveries, or --all-dead"), `run "grapnel deliveries --state dead"`))
			case !all && target != "":
				return cli.Usage(errors.New("--target goes with --all-dead"))
			}
			var ids []string
			err := c.read(func(r *store.Reader) (err error) {
				ids, err = deadOnes(cmd.Context(), r, args, target)
				return err
			})
			if err != nil {
				return err
			}
			n := 0
			if len(ids) > 0 {
				if err := c.change(func(k keeper) (err error) { n, err = k.Retry(cmd.Context(), ids...); return err }); err != nil {
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
	cmd.Flags().BoolVar(&all, "all-dead", false, "all that are dead")
	cmd.Flags().StringVar(&target, "target", "", "only those of this `HOOK`")
	return c.jsonFlag(cmd)
}

func againText(n int) string {
	switch n {
	case 0:
		return "No delivery is dead."
	case 1:
		return `1 delivery is tried again: by the daemon at once, or by "grapnel drain".`
	default:
		return fmt.Sprintf(`%d deliveries are tried again: by the daemon at once, or by "grapnel drain".`, n)
	}
}

func newDeliveriesOn(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:     "on TARGET",
		Short:   "Tell a server again that wanted to hear no more",
		Long:    "Tells the server of a hook again after it answered 410, which says that it wants\nto hear no more. What has waited since then is delivered.",
		Example: "  grapnel deliveries on team",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var target store.Target
			err := c.read(func(r *store.Reader) (err error) {
				target, err = targetNamed(cmd.Context(), r, args[0])
				return err
			})
			if err != nil {
				return err
			}
			if target.Off {
				if err := c.change(func(k keeper) error { return k.SwitchOn(cmd.Context(), target.Name) }); err != nil {
					return err
				}
			}
			if c.JSON {
				return c.PrintJSON(map[string]any{"target": target.Name, "on": true, "was_off": target.Off, "waiting": target.Waiting})
			}
			if !target.Off {
				_, err = fmt.Fprintf(c.Out, "%s was on.\n", printable.Text(target.Name))
				return err
			}
			_, err = fmt.Fprintf(c.Out, "%s is on again, and %d wait: they are delivered by the daemon at once, or by \"grapnel drain\".\n", printable.Text(target.Name), target.Waiting)
			return err
		},
	})
}

// read has something read from the store. Where there is none, nothing was ever to be
// delivered, and do gets nil.
func (c *console) read(do func(*store.Reader) error) error {
	place, err := c.Place()
	if err != nil {
		return err
	}
	r, err := store.OpenReader(place.Store())
	if errors.Is(err, fs.ErrNotExist) {
		return do(nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
}

// A keeper changes what is to become of deliveries.
type keeper interface {
	Retry(ctx context.Context, ids ...string) (int, error)
	SwitchOn(ctx context.Context, target string) error
	Close() error
}

// change has something changed by whoever keeps the deliveries.
func (c *console) change(do func(keeper) error) error {
	place, err := c.Place()
	if err != nil {
		return err
	}
	k, err := deliveriesOf(place)
	if err != nil {
		return err
	}
	return errors.Join(do(k), k.Close())
}

// lockWait is how long a command waits for another process that keeps the deliveries: a
// drain has them for a moment.
const lockWait = 3 * time.Second

// deliveriesOf is who keeps the deliveries of a place: the daemon that runs, or the store,
// which one process at a time writes to.
func deliveriesOf(place local.Place) (keeper, error) {
	if server.Busy(client.Socket(place.State)) {
		return running{client.Socket(place.State)}, nil
	}
	s, err := openStore(context.Background(), place.Store(), lockWait, nil)
	if errors.Is(err, store.ErrLocked) {
		return nil, cli.WithHint(fmt.Errorf("cannot change deliveries: %w", err), `wait for the drain to end, and say it again`)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// running is a daemon that listens on a socket.
type running struct{ socket string }

func (r running) Retry(ctx context.Context, ids ...string) (int, error) {
	var said struct{ Retried int }
	err := r.post(ctx, "/v1/deliveries/retry", map[string][]string{"ids": ids}, &said)
	return said.Retried, err
}

func (r running) SwitchOn(ctx context.Context, target string) error {
	return r.post(ctx, "/v1/deliveries/on", map[string]string{"target": target}, nil)
}

func (running) Close() error { return nil }

// post has the daemon do something.
func (r running) post(ctx context.Context, path string, what, into any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://grapnel"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := server.Client(r.socket, 10*lockWait).Do(req)
	if err != nil {
		return fmt.Errorf("the daemon does not do it: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return store.ErrNoTarget
	case resp.StatusCode >= 300:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("the daemon does not do it: %s", strings.TrimSpace(string(text)))
	case into == nil:
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// deliveryOf returns the delivery of an ID.
func deliveryOf(ctx context.Context, r *store.Reader, id string) (delivery.Job, error) {
	var jobs []delivery.Job
	if r != nil && id != "" {
		var err error
		if jobs, err = r.Deliveries(ctx, store.DeliveryQuery{ID: id}); err != nil {
			return delivery.Job{}, err
		}
	}
	if len(jobs) == 0 {
		return delivery.Job{}, cli.WithHint(fmt.Errorf("there is no delivery %q", id), `run "grapnel deliveries"`)
	}
	return jobs[0], nil
}

// deadOnes returns the IDs of deliveries that are to be tried again: of those that are
// named all have to be dead, or none is changed.
func deadOnes(ctx context.Context, r *store.Reader, named []string, target string) ([]string, error) {
	for _, id := range named {
		job, err := deliveryOf(ctx, r, id)
		switch {
		case err != nil:
			return nil, err
		case job.State == delivery.Waiting:
			return nil, cli.WithHint(fmt.Errorf("the delivery %q is not dead: it waits, and is tried again by itself", id), `run "grapnel deliveries show `+id+`"`)
		case job.State != delivery.Dead:
			return nil, fmt.Errorf("the delivery %q is not dead, it is %s", id, job.State)
		}
	}
	if len(named) > 0 || r == nil {
		return named, nil
	}
	query := store.DeliveryQuery{State: delivery.Dead}
	if target != "" {
		found, err := targetNamed(ctx, r, target)
		if err != nil {
			return nil, err
		}
		query.Target = found.Name
	}
	jobs, err := r.Deliveries(ctx, query)
	ids := make([]string, 0, len(jobs))
	for i := range slices.Backward(jobs) { // the oldest first
		ids = append(ids, jobs[i].ID)
	}
	return ids, err
}

// targetNamed finds a target by its full name, or by the name of its hook if no other has
// the same.
func targetNamed(ctx context.Context, r *store.Reader, name string) (store.Target, error) {
	var targets []store.Target
	if r != nil {
		var err error
		if targets, err = r.Targets(ctx); err != nil {
			return store.Target{}, err
		}
	}
	var near []store.Target
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.Name
		if t.Name == name {
			return t, nil
		}
		if strings.HasSuffix(t.Name, "::"+name) {
			near = append(near, t)
		}
	}
	switch {
	case len(near) == 1:
		return near[0], nil
	case len(near) > 1:
		return store.Target{}, cli.WithHint(fmt.Errorf("%d targets are named %q", len(near), name), "write one out: "+near[0].Name+", "+near[1].Name)
	case len(names) == 0:
		return store.Target{}, fmt.Errorf("there is no target %q, and no other: nothing was ever to be delivered", name)
	default:
		return store.Target{}, cli.WithHint(fmt.Errorf("there is no target %q", name), "known are "+strings.Join(names, ", "))
	}
}

// deliveryLine is a delivery in a list: without its event, which "show" has.
type deliveryLine struct {
	delivery.Job
	Event json.RawMessage `json:"event,omitempty"` // never; it stands before that of the Job
	Off   bool            `json:"off,omitempty"`   // its target wants to hear no more
}

func (c *console) listDeliveries(ctx context.Context, r *store.Reader, query store.DeliveryQuery, target string) error {
	if target != "" {
		found, err := targetNamed(ctx, r, target)
		if err != nil {
			return err
		}
		query.Target = found.Name
	}
	var jobs []delivery.Job
	var targets []store.Target
	if r != nil {
		var err error
		if jobs, err = r.Deliveries(ctx, query); err != nil {
			return err
		}
		if targets, err = r.Targets(ctx); err != nil {
			return err
		}
	}
	off := make(map[string]*store.Target)
	for i := range targets {
		if targets[i].Off {
			off[targets[i].Name] = &targets[i]
		}
	}
	if len(jobs) == query.Limit && query.Limit > 0 {
		fmt.Fprintf(c.Err, "grapnel: warning: only the %d youngest are listed: --limit 0 lists all\n", query.Limit)
	}
	now := time.Now()
	for i := range slices.Backward(jobs) {
		job := &jobs[i]
		if c.JSON {
			if err := c.PrintLine(deliveryLine{Job: *job, Off: off[job.Target] != nil && job.State == delivery.Waiting}); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(c.Out, "%s  %s  %s  %s  %s\n", job.Created.Local().Format("01-02 15:04:05"), c.deliveryState(job.State), printable.Text(job.ID), printable.Text(job.Target), becomes(job, off[job.Target] != nil, now)); err != nil {
			return err
		}
	}
	if c.JSON {
		return nil
	}
	if len(jobs) == 0 {
		if _, err := fmt.Fprintln(c.Out, "No deliveries."); err != nil {
			return err
		}
	}
	for i := range targets {
		if t := &targets[i]; t.Off && (query.Target == "" || query.Target == t.Name) {
			if _, err := fmt.Fprintf(c.Out, "%s is off since %s (%s), and %d wait: run \"grapnel deliveries on %s\" to tell it again.\n",
				printable.Text(t.Name), t.Since.Local().Format("01-02 15:04:05"), oneLine(t.Why), t.Waiting, printable.Text(t.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *console) deliveryState(s delivery.State) string {
	colour := map[delivery.State]string{delivery.Delivered: cli.Green, delivery.Dead: cli.Red, delivery.Waiting: cli.Yellow}[s]
	return c.Paint(colour, fmt.Sprintf("%-9s", s))
}

func oneLine(text string) string { return printable.Text(strings.Join(strings.Fields(text), " ")) }

// becomes says what has become of a delivery, and what will.
func becomes(job *delivery.Job, off bool, now time.Time) string {
	said := "not tried yet"
	switch {
	case job.Tries == 1:
		said = "1 try"
	case job.Tries > 1:
		said = fmt.Sprintf("%d tries", job.Tries)
	}
	switch {
	case job.State != delivery.Waiting:
	case off:
		said += ", its target is off"
	case job.Next.After(now):
		said += ", again in " + job.Next.Sub(now).Round(time.Second).String()
	default:
		said += ", due"
	}
	if job.Error != "" {
		said += ": " + oneLine(job.Error)
	}
	return said
}

func (c *console) printDelivery(job *delivery.Job) error {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.RFC3339)
	}
	status := ""
	if job.Status > 0 {
		status = fmt.Sprint(job.Status)
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
		{"event", string(job.Event)},
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
