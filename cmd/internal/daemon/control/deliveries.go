package control

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

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
)

// A Deliveries changes the state of deliveries and targets.
type Deliveries interface {
	Retry(ctx context.Context, ids ...string) (int, error)
	SwitchOn(ctx context.Context, target string) error
	Close() error
}

// OpenDeliveries returns the owner of the deliveries of a place: the running daemon, or else the
// queue, which only one process at a time can write to.
func OpenDeliveries(place local.Place) (Deliveries, error) {
	if server.Busy(client.Socket(place.State)) {
		return daemonDeliveries{client.Socket(place.State)}, nil
	}
	q, err := service.OpenQueue(context.Background(), place, service.LockWait, nil)
	if errors.Is(err, queue.ErrLocked) {
		return nil, cli.WithHint(fmt.Errorf("cannot change deliveries: %w", err), `wait until the drain has finished, then run the command again`)
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// daemonDeliveries sends the changes to the daemon on a socket.
type daemonDeliveries struct{ socket string }

func (r daemonDeliveries) Retry(ctx context.Context, ids ...string) (int, error) {
	var response struct{ Retried int }
	err := post(ctx, r.socket, "/v1/deliveries/retry", map[string][]string{"ids": ids}, &response)
	return response.Retried, err
}

func (r daemonDeliveries) SwitchOn(ctx context.Context, target string) error {
	err := post(ctx, r.socket, "/v1/deliveries/on", map[string]string{"target": target}, nil)
	if errors.Is(err, errNotFound) {
		return queue.ErrNoTarget
	}
	return err
}

func (daemonDeliveries) Close() error { return nil }

// errNotFound is the error if the daemon does not have the object of a request.
var errNotFound = errors.New("the daemon does not know this request: run \"grapnel daemon restart\" after an update")

// post sends a request to the daemon and decodes its reply.
func post(ctx context.Context, socket, path string, what, into any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://grapnel"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := server.Client(socket, 10*service.LockWait).Do(req)
	if err != nil {
		return fmt.Errorf("the daemon did not make the change: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errNotFound
	case resp.StatusCode >= 300:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("the daemon did not make the change: %s", strings.TrimSpace(string(text)))
	case into == nil:
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// Delivery returns the delivery with an ID.
func Delivery(ctx context.Context, r *queue.Reader, id string) (delivery.Job, error) {
	var jobs []delivery.Job
	if r != nil && id != "" {
		var err error
		if jobs, err = r.Deliveries(ctx, queue.Query{ID: id}); err != nil {
			return delivery.Job{}, err
		}
	}
	if len(jobs) == 0 {
		return delivery.Job{}, cli.WithHint(fmt.Errorf("no delivery %q found", id), `run "grapnel deliveries"`)
	}
	return jobs[0], nil
}

// DeadIDs returns the IDs of dead deliveries to retry. If named is not empty, all of these must
// be dead, or DeadIDs returns an error.
func DeadIDs(ctx context.Context, r *queue.Reader, named []string, target string) ([]string, error) {
	for _, id := range named {
		job, err := Delivery(ctx, r, id)
		switch {
		case err != nil:
			return nil, err
		case job.State == delivery.Waiting:
			return nil, cli.WithHint(fmt.Errorf("delivery %q is not dead: it is waiting, and the next attempt is automatic", id), `run "grapnel deliveries show `+id+`"`)
		case job.State != delivery.Dead:
			return nil, fmt.Errorf("delivery %q is not dead: its state is %s", id, job.State)
		}
	}
	if len(named) > 0 || r == nil {
		return named, nil
	}
	query := queue.Query{State: delivery.Dead}
	if target != "" {
		found, err := Target(ctx, r, target)
		if err != nil {
			return nil, err
		}
		query.Target = found.Name
	}
	jobs, err := r.Deliveries(ctx, query)
	ids := make([]string, 0, len(jobs))
	for i := range slices.Backward(jobs) { // oldest first
		ids = append(ids, jobs[i].ID)
	}
	return ids, err
}

// Target finds a target by its full name, or by the name of its hook if that is unique.
func Target(ctx context.Context, r *queue.Reader, name string) (queue.Target, error) {
	var targets []queue.Target
	if r != nil {
		var err error
		if targets, err = r.Targets(ctx); err != nil {
			return queue.Target{}, err
		}
	}
	var near []queue.Target
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
		return queue.Target{}, cli.WithHint(fmt.Errorf("%d targets have the name %q", len(near), name), "use a full name: "+near[0].Name+", "+near[1].Name)
	case len(names) == 0:
		return queue.Target{}, fmt.Errorf("no target %q found: there are no deliveries yet", name)
	default:
		return queue.Target{}, cli.WithHint(fmt.Errorf("no target %q found", name), "known targets: "+strings.Join(names, ", "))
	}
}

// refusalTime is how old a refused event can be. An older one is of a hook that is rare or gone.
const refusalTime = 7 * 24 * time.Hour

// Refusals returns the targets that refuse deliveries; see [queue.Reader.Refusals].
func Refusals(ctx context.Context, place local.Place) ([]queue.Refusal, error) {
	r, err := queue.OpenReader(place.Queue())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := r.Refusals(ctx, time.Now().Add(-refusalTime))
	return found, errors.Join(err, r.Close())
}

// RefusalHint returns the commands that help with a refusal.
func RefusalHint(r *queue.Refusal) string {
	name := wire.RefOf(r.Target).Name
	if r.Off {
		return "grapnel deliveries on " + name
	}
	return "grapnel deliveries test " + name
}
