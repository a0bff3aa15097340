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
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/fault"
)

// openAPI describes all routes.
//
//go:embed openapi.yaml
var openAPI []byte

// Options are the parts of a [Handler]. A route with a nil handler does not exist.
type Options struct {
	Version string // of the daemon; clients of another version reply without it

	// Answer replies to an event. If it returns a [client.ErrSelf], the client replies itself.
	Answer func(ctx context.Context, q *client.Question) (*client.Answer, error)

	// Stopping is closed when the daemon is about to stop. Streams end then.
	Stopping <-chan struct{}

	// Declined is called with the reason why a question was not answered. It must return quickly.
	Declined func(reason string)

	Health     func() (report any, well bool) // the report is written as JSON
	Policy     http.Handler
	Records    http.Handler
	Events     http.Handler
	Deliveries http.Handler // and the routes below it
	Metrics    http.Handler
	Page       http.Handler // opens the browser page, see package web
}

// processingAfter is when a waiting client gets the status 102, well before it gives up.
const processingAfter = client.Beginning / 4

// maxQuestion is the maximum size of a request with an event, in bytes.
const maxQuestion = dialect.MaxPayload + 64<<10

// Handler serves the routes of openapi.yaml.
func Handler(opts Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+client.Path, opts.answer)
	mux.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, _ *http.Request) {
		report, well := any(map[string]string{"version": opts.Version}), true
		if opts.Health != nil {
			report, well = opts.Health()
		}
		w.Header().Set("Content-Type", "application/json")
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(report)
	})
	for pattern, handler := range map[string]http.Handler{
		"GET /v1/policy": opts.Policy, "GET /v1/records": opts.Records, "GET /v1/events": opts.Events, "GET /metrics": opts.Metrics,
		"POST /v1/ui": opts.Page, "POST /v1/ui/confirm": opts.Page,
		"/v1/deliveries": opts.Deliveries, "/v1/deliveries/": opts.Deliveries,
	} {
		if handler != nil {
			mux.Handle(pattern, handler)
		}
	}
	return mux
}

// answer replies to grapnel-hook with headers and raw bytes, and to other clients with JSON.
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
	if inJSON { // such clients do not expect the status 102
		slow, q.Version = nil, o.protocol()
	}
	answer, err := o.reply(r.Context(), q, slow)
	fault.At("relay: before the reply")
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

// protocol returns the version that a client must have.
func (o *Options) protocol() string { return o.Version + "/" + client.Version }

// reply answers a question. After an error, the client replies itself. If the answer takes a
// while, reply calls slow once; nil is allowed.
func (o *Options) reply(ctx context.Context, q *client.Question, slow func()) (answer *client.Answer, err error) {
	var reason string
	switch {
	case q.Version != o.protocol():
		reason, err = "version", errors.New("this daemon has version "+o.protocol())
	case o.Answer == nil:
		reason, err = "off", errors.New("this daemon does not answer events")
	default:
		reason = "error"
		if answer, err = o.safeAnswer(ctx, q, slow); errors.Is(err, client.ErrSelf) {
			reason = "self"
		}
	}
	if err != nil && o.Declined != nil {
		o.Declined(reason)
	}
	return answer, err
}

// safeAnswer calls Answer and turns a panic into an error.
func (o *Options) safeAnswer(ctx context.Context, q *client.Question, slow func()) (answer *client.Answer, err error) {
	var mu sync.Mutex
	done := slow == nil
	timer := time.AfterFunc(processingAfter, func() {
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
		if r := recover(); r != nil { // one event must not end the daemon
			answer, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return o.Answer(ctx, q)
}

func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// question reads the question of a request, and the ID if it is a message.
func (o *Options) question(r *http.Request, data []byte) (q *client.Question, id string, err error) {
	if isJSON(r) {
		return o.message(r, data)
	}
	q = &client.Question{Payload: data, Parent: r.Header.Get(client.HeaderParent)}
	for name, into := range map[string]*string{
		client.HeaderVersion: &q.Version,
		client.HeaderAgent:   &q.Agent, client.HeaderEvent: &q.Event, client.HeaderID: &q.ID, client.HeaderRoot: &q.Root, client.HeaderHome: &q.Home, client.HeaderFiring: &q.Firing,
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

// message reads a question in the protocol of workers: {"type": "event", "id": ..., "event": ...}.
// The address names the language of the event: ?agent=NAME&event=NAME. The ID of the message
// is not the ID of the firing, because some clients count from 1 in each connection, and the
// store keeps one Record of each ID.
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

// readBody reads a body of at most most bytes within bodyTime. With an error it returns the HTTP
// status for it.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (data []byte, status int, err error) {
	tooLarge := fmt.Errorf("the body is larger than %d bytes", most)
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
		w.Header().Set("Connection", "close") // the beginning of the next request is unknown
		return nil, http.StatusBadRequest, fmt.Errorf("cannot read the body: %w", err)
	}
	_ = control.SetReadDeadline(time.Time{}) // computing the answer is not limited by this deadline
	return data, 0, nil
}
