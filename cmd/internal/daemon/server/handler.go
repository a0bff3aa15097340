package server

import (
	"context"
	_ "embed" // of openapi.yaml
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
	"github.com/grapnel-dev/grapnel/dialect"
)

// openAPI describes all routes.
//
//go:embed openapi.yaml
var openAPI []byte

// Options are what a [Handler] gives access to. What is nil is not there.
type Options struct {
	Version string // of the daemon; programs of another version answer by themselves

	// Answer answers an event. With a [client.ErrSelf] the program that asks does.
	Answer func(ctx context.Context, q *client.Question) (*client.Answer, error)

	// Stopping is closed when the daemon is about to end: readers of streams go then.
	Stopping <-chan struct{}

	// Declined is told why a question was not answered. It must be quick.
	Declined func(reason string)

	Health     func() (said any, well bool) // what is said of the daemon, as JSON, and whether all its parts work
	Policy     http.Handler
	Records    http.Handler
	Events     http.Handler
	Deliveries http.Handler // and what is below that
	Metrics    http.Handler
}

// atWork is after how long a program is told that its question is being answered, well
// before it would give up.
const atWork = client.Beginning / 4

// maxQuestion is the size in bytes of the longest body.
const maxQuestion = dialect.MaxPayload + 64<<10

// Handler serves what openapi.yaml describes.
func Handler(opts Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+client.Path, opts.answer)
	mux.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, _ *http.Request) {
		said, well := any(map[string]string{"version": opts.Version}), true
		if opts.Health != nil {
			said, well = opts.Health()
		}
		w.Header().Set("Content-Type", "application/json")
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(said)
	})
	for pattern, handler := range map[string]http.Handler{
		"GET /v1/policy": opts.Policy, "GET /v1/records": opts.Records, "GET /v1/events": opts.Events, "GET /metrics": opts.Metrics,
		"/v1/deliveries": opts.Deliveries, "/v1/deliveries/": opts.Deliveries,
	} {
		if handler != nil {
			mux.Handle(pattern, handler)
		}
	}
	return mux
}

// answer answers a program, in headers and bytes, or anybody else, in JSON.
func (o *Options) answer(w http.ResponseWriter, r *http.Request) {
	data, status, err := readBody(w, r, maxQuestion)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	q, id, err := o.question(r, data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	inJSON := isJSON(r)
	control := http.NewResponseController(w)
	slow := func() {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		w.WriteHeader(http.StatusProcessing)
	}
	if inJSON { // nobody who asks so waits for it
		slow, q.Version = nil, o.speaks()
	}
	answer, err := o.reply(r.Context(), q, slow)
	if fault.On {
		fault.At("relay: before the reply")
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // net/http removes it after the reply
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	case inJSON:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(dialect.Message{
			Type: dialect.TypeAnswer, ID: id, Reply: &dialect.WireReply{Stdout: string(answer.Stdout), Stderr: string(answer.Stderr), Exit: answer.Exit},
		})
	default:
		h := w.Header()
		h.Set("Content-Type", client.ContentType)
		h.Set(client.HeaderExit, strconv.Itoa(answer.Exit))
		h.Set(client.HeaderStdout, strconv.Itoa(len(answer.Stdout)))
		if answer.Drain {
			h.Set(client.HeaderDrain, "1")
		}
		h.Set("Content-Length", strconv.Itoa(len(answer.Stdout)+len(answer.Stderr)))
		_, _ = w.Write(answer.Stdout)
		_, _ = w.Write(answer.Stderr)
	}
	if fault.On {
		_ = control.Flush()
		fault.At("relay: after the reply")
	}
}

// speaks is the version that a program has to be of.
func (o *Options) speaks() string { return o.Version + "/" + client.Version }

// reply answers a question whose Version is what the program says of itself. An error is
// for the program, which answers by itself then.
func (o *Options) reply(ctx context.Context, q *client.Question, slow func()) (answer *client.Answer, err error) {
	var reason string
	switch {
	case q.Version != o.speaks():
		reason, err = "version", errors.New("this daemon is of version "+o.speaks())
	case o.Answer == nil:
		reason, err = "off", errors.New("this daemon answers no events")
	default:
		reason = "error"
		if answer, err = o.work(ctx, q, slow); errors.Is(err, client.ErrSelf) {
			reason = "self"
		}
	}
	if err != nil && o.Declined != nil {
		o.Declined(reason)
	}
	return answer, err
}

// work has the question answered, and calls slow once if that takes a while; nil is fine.
func (o *Options) work(ctx context.Context, q *client.Question, slow func()) (answer *client.Answer, err error) {
	var mu sync.Mutex
	done := slow == nil
	timer := time.AfterFunc(atWork, func() {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			slow()
		}
	})
	defer func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		done = true
		if r := recover(); r != nil { // one event ends no daemon: the program answers
			answer, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return o.Answer(ctx, q)
}

func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// question reads what is asked, of a request with a body, and the ID that a message has.
func (o *Options) question(r *http.Request, data []byte) (q *client.Question, id string, err error) {
	if isJSON(r) {
		return o.message(r, data)
	}
	q = &client.Question{Version: r.Header.Get(client.HeaderVersion), Payload: data, Parent: r.Header.Get(client.HeaderParent)}
	for name, into := range map[string]*string{
		client.HeaderAgent: &q.Agent, client.HeaderEvent: &q.Event, client.HeaderID: &q.ID, client.HeaderRoot: &q.Root, client.HeaderHome: &q.Home, client.HeaderFiring: &q.Firing,
	} {
		if *into, err = url.PathUnescape(r.Header.Get(name)); err != nil {
			return nil, "", err
		}
	}
	for _, file := range r.Header.Values(client.HeaderPolicy) {
		if file, err = url.PathUnescape(file); err != nil {
			return nil, "", err
		}
		q.Policies = append(q.Policies, file)
	}
	return q, "", nil
}

// message is a question in the words of workers: {"type": "event", "id": ..., "event": ...}.
// The address says whose words the event is in: ?agent=NAME&event=NAME. The ID is not that of
// the firing: some count from 1 in each connection, and of two Records with one ID one is
// kept.
func (o *Options) message(r *http.Request, data []byte) (q *client.Question, id string, err error) {
	m, err := dialect.ReadMessage(data)
	if err != nil {
		return nil, "", err
	}
	if m.Type != dialect.TypeEvent {
		return nil, "", errors.New(`want a message of type "event"`)
	}
	words := r.URL.Query()
	return &client.Question{
		Agent: words.Get("agent"), Event: words.Get("event"), ID: words.Get("installation"), Root: words.Get("root"), Policies: words["policy"],
		Parent: r.Header.Get(client.HeaderParent), Payload: m.Event,
	}, m.ID, nil
}

// readBody reads the body of a request, of so many bytes at most and no longer than bodyTime.
// With an error comes the status that says so.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (data []byte, status int, err error) {
	tooLarge := fmt.Errorf("the body has more than %d bytes", most)
	if r.ContentLength > most {
		return nil, http.StatusRequestEntityTooLarge, tooLarge
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	body := http.MaxBytesReader(w, r.Body, most)
	if r.ContentLength >= 0 {
		data = make([]byte, r.ContentLength)
		_, err = io.ReadFull(body, data)
	} else {
		data, err = io.ReadAll(body)
	}
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return nil, http.StatusRequestEntityTooLarge, tooLarge
	case err != nil:
		w.Header().Set("Connection", "close") // where the next request begins nobody knows
		return nil, http.StatusBadRequest, fmt.Errorf("the body did not arrive: %w", err)
	}
	_ = control.SetReadDeadline(time.Time{}) // the answer takes as long as it takes
	return data, 0, nil
}
