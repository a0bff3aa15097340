package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const (
	defaultLimit = 100
	maxLimit     = 1000

	// heartbeat is how often the server writes to an idle event stream, so that it notices a
	// client that has disconnected.
	heartbeat = 15 * time.Second
)

// WithLog adds the routes that read the Records of a log.
func (o *Options) WithLog(s *index.Index) {
	o.Records = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { records(w, r, s) })
	o.Events = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { events(w, r, s, o.Stopping) })
}

// WithQueue adds the routes that manage the deliveries of a queue.
func (o *Options) WithQueue(q *queue.Queue) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/deliveries", func(w http.ResponseWriter, r *http.Request) { deliveries(w, r, q) })
	mux.HandleFunc("GET /v1/deliveries/targets", func(w http.ResponseWriter, r *http.Request) {
		targets, err := q.Targets(r.Context())
		write(w, targets, err)
	})
	mux.HandleFunc("POST /v1/deliveries/retry", func(w http.ResponseWriter, r *http.Request) {
		var want struct{ IDs []string }
		if !readJSON(w, r, &want) {
			return
		}
		n, err := q.Retry(r.Context(), want.IDs...)
		write(w, map[string]int{"retried": n}, err)
	})
	mux.HandleFunc("POST /v1/deliveries/on", func(w http.ResponseWriter, r *http.Request) {
		var want struct{ Target string }
		if !readJSON(w, r, &want) {
			return
		}
		switch err := q.SwitchOn(r.Context(), want.Target); {
		case errors.Is(err, queue.ErrNoTarget):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	o.Deliveries = mux
}

// maxRequest is the maximum size in bytes of a request body other than an event.
const maxRequest = 1 << 20

// readJSON decodes the body of a request. On an error it writes the response and reports false.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	data, status, err := readBody(w, r, maxRequest)
	if err == nil {
		status, err = http.StatusBadRequest, json.Unmarshal(data, into)
	}
	if err != nil {
		http.Error(w, "cannot read the request: "+err.Error(), status)
	}
	return err == nil
}

func write(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// records writes Records, one per line.
func records(w http.ResponseWriter, r *http.Request, s *index.Index) {
	words := r.URL.Query()
	filter, err := FilterOf(words)
	limit, before := int64(0), int64(0)
	if err == nil {
		limit, err = number(words, "limit", defaultLimit, maxLimit)
	}
	if err == nil {
		before, err = number(words, "before", 0, 1<<62)
	}
	if text := words.Get("text"); err == nil && strings.TrimSpace(text) != "" {
		err = index.ValidText(text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	begun := false
	for row, err := range s.Records(r.Context(), index.Query{Filter: filter, Text: words.Get("text"), Limit: int(limit), Before: before}) {
		switch failed := err != nil && row.Line == nil; {
		case failed && !begun:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		case failed: // the status was already sent
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
			return
		}
		begun = true
		if _, err := fmt.Fprintf(w, "{\"seq\":%d,%s\n", row.Seq, row.Line[1:]); err != nil {
			return
		}
	}
}

// events streams new Records.
func events(w http.ResponseWriter, r *http.Request, s *index.Index, stopping <-chan struct{}) {
	words := r.URL.Query()
	filter, err := FilterOf(words)
	after := int64(-1)
	if last := cmp.Or(r.Header.Get("Last-Event-ID"), words.Get("after")); err == nil && last != "" {
		after, err = number(url.Values{"after": {last}}, "after", 0, 1<<62)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ctx, out := r.Context(), eventStream{w, http.NewResponseController(w)}
	live := s.Subscribe(ctx) // before the stored Records are read, so that none is missed
	if out.send(": the Records of this machine\n\n") != nil {
		return
	}
	if after >= 0 {
		if after, err = out.past(ctx, s, filter, after); err != nil {
			return
		}
	}
	out.follow(ctx, live, filter, after, stopping)
}

// An eventStream writes server-sent events. An error means that the client has disconnected.
type eventStream struct {
	w   io.Writer
	out *http.ResponseController
}

func (e eventStream) send(text string) error {
	if _, err := io.WriteString(e.w, text); err != nil {
		return err
	}
	return e.out.Flush()
}

func (e eventStream) record(seq int64, line []byte) error {
	_, err := fmt.Fprintf(e.w, "id: %d\ndata: %s\n\n", seq, line)
	return err
}

// past sends the Records after a row, and returns the number of the last row.
func (e eventStream) past(ctx context.Context, s *index.Index, filter spool.Filter, after int64) (int64, error) {
	for row, err := range s.Records(ctx, index.Query{Filter: filter, Oldest: true, After: after, Lean: true}) {
		if err != nil && row.Line == nil {
			return after, err
		}
		after = row.Seq
		if err := e.record(row.Seq, row.Line); err != nil {
			return after, err
		}
	}
	return after, e.out.Flush()
}

// follow sends new Records until the client disconnects or the daemon stops.
func (e eventStream) follow(ctx context.Context, live <-chan index.Live, filter spool.Filter, after int64, stopping <-chan struct{}) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			return
		case <-beat.C:
			if e.send(": still here\n\n") != nil {
				return
			}
		case now, more := <-live:
			if !more {
				return
			}
			if now.Dropped > 0 {
				if _, err := fmt.Fprintf(e.w, "event: lost\ndata: %d\n\n", now.Dropped); err != nil {
					return
				}
			}
			if now.Seq > after && filter.Wants(&now.Entry) && e.record(now.Seq, now.Line) != nil || e.out.Flush() != nil {
				return
			}
		}
	}
}

func deliveries(w http.ResponseWriter, r *http.Request, q *queue.Queue) {
	words := r.URL.Query()
	limit, err := number(words, "limit", defaultLimit, maxLimit)
	state := delivery.State(words.Get("state"))
	switch state {
	case "", delivery.Waiting, delivery.Delivered, delivery.Dead:
	default:
		err = fmt.Errorf("unknown state %q: want %s, %s or %s", state, delivery.Waiting, delivery.Delivered, delivery.Dead)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	jobs, err := q.Deliveries(r.Context(), queue.Query{State: state, Target: words.Get("target"), Session: words.Get("session"), ID: words.Get("id"), Limit: int(limit)})
	if jobs == nil {
		jobs = []delivery.Job{}
	}
	write(w, jobs, err)
}

func number(words url.Values, name string, without, most int64) (int64, error) {
	text := words.Get(name)
	if text == "" {
		return without, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s %q: want a number up to %d", name, text, most)
	}
	return n, nil
}

// FilterOf parses the query parameters that select Records.
func FilterOf(words url.Values) (spool.Filter, error) {
	f := spool.Filter{Agent: words.Get("agent"), Session: words.Get("session"), Hook: words.Get("hook"), Machine: words.Get("machine")}
	if since := words.Get("since"); since != "" {
		if ago, err := policyfile.ParseDuration(since); err == nil {
			f.Since = time.Now().Add(-ago)
		} else if f.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return f, fmt.Errorf("since %q: want a duration such as 1h, or a time such as 2026-01-31T12:00:00Z", since)
		}
	}
	for _, kind := range words["event"] {
		f.Events = append(f.Events, grapnel.Kind(kind))
	}
	for _, word := range words["decision"] {
		var d grapnel.Decision
		if err := d.UnmarshalText([]byte(word)); err != nil {
			return f, err
		}
		f.Decisions = append(f.Decisions, d)
	}
	return f, nil
}
