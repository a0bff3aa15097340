package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// DefaultHookTimeout is the time limit of a Hook if its Timeout is 0.
const DefaultHookTimeout = 10 * time.Second

// A HookConfig is the policy's configuration of a Hook. It cannot open networks.
type HookConfig struct {
	Name    string            // name of the hook, with its source
	URL     string            // https, or http if the Guard's Networks contain all addresses of the host
	Secrets []string          // signature keys: base64, with or without the prefix whsec_, or whsk_ and an Ed25519 key; nil = unsigned
	Headers map[string]string // additional headers; Authorization is allowed
	Timeout time.Duration     // limit for one request, from the lookup to the end of the response; 0 = DefaultHookTimeout
	Body    string            // request body: plain, the event; summary, a notification without content; empty = plain

	// Circuit breaker: after Failures consecutive failures, Handle fails immediately for the time
	// Cooldown. Then one request tests the server. 0 = 5 failures, 30 s.
	Failures int
	Cooldown time.Duration
}

// A Hook is a hook that sends each event to a server and waits for the response: an Outcome in
// the same JSON as a program's. It is safe for concurrent use.
//
// Requests are signed as in the Standard Webhooks specification. Webhook-Id is equal for equal
// requests of one firing, Webhook-Timestamp is the time of sending, and Webhook-Signature
// contains one signature for each secret. Failed requests are not retried.
//
// A valid response is a JSON object with a status from 200 to 299. An explicitly empty body, with
// status 204, 205 or the length 0, means no opinion. Everything else is an error.
type Hook struct {
	client  *Client
	name    string
	url     *url.URL
	header  http.Header
	signers []signer
	timeout time.Duration
	summary bool
	limits  circuit.Limits

	mu    sync.Mutex
	state circuit.State // guarded by mu
}

// Hook returns a hook that sends events to a server. The error describes the first problem of
// cfg, in the order of the [Fault] constants.
func (c *Client) Hook(cfg HookConfig) (*Hook, error) {
	h, err := c.newHook(cfg)
	if err != nil {
		return nil, fmt.Errorf("hook %q: %w", cfg.Name, err)
	}
	return h, nil
}

func (c *Client) newHook(cfg HookConfig) (*Hook, error) {
	u, err := c.Guard().CheckHookURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	names := slices.Sorted(maps.Keys(cfg.Headers)) // sorted, so that the error is always the same
	if err := checkHeaders(func(yield func(string, string) bool) {
		for _, name := range names {
			if !yield(name, cfg.Headers[name]) {
				return
			}
		}
	}, true); err != nil {
		return nil, err
	}
	h := &Hook{
		client: c, name: cfg.Name, url: u, header: http.Header{"User-Agent": {"grapnel"}}, timeout: cmp.Or(cfg.Timeout, DefaultHookTimeout),
		summary: cfg.Body == "summary", limits: circuit.Limits{Failures: cfg.Failures, Cooldown: cfg.Cooldown},
	}
	for name, value := range cfg.Headers {
		h.header.Set(name, value)
	}
	h.header.Set("Content-Type", "application/json")
	if h.header.Get("Accept") == "" {
		h.header.Set("Accept", "application/json")
	}
	if h.signers, err = newSigners(cfg.Secrets); err != nil {
		return nil, err
	}
	switch {
	case h.timeout < 0 || h.timeout > MaxTimeout:
		return nil, fault(BadTimeout, "timeout %v: must be more than 0 and at most %v", cfg.Timeout, MaxTimeout)
	case cfg.Body != "" && cfg.Body != "plain" && !h.summary:
		return nil, fault(BadBody, "unknown body %q", cfg.Body)
	}
	return h, nil
}

// ReadsID marks the Hook as a seam.IDReader, because the Webhook-Id is derived from the
// event's ID.
func (h *Hook) ReadsID() {}

// Handle sends an event to the server and returns its Outcome. It fails immediately while the
// circuit breaker is open. The Outcome has the response as its Output, unless the server sent
// none. The body of a response with an error status is not read.
func (h *Hook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	pass, err := h.enter(time.Now())
	if err != nil {
		return grapnel.Outcome{}, err
	}
	out, err := h.ask(ctx, ev)
	h.leave(time.Now(), pass, err)
	return out, err
}

func (h *Hook) ask(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	plain, err := dialect.Plain().WriteEvent(ev)
	if err != nil {
		return grapnel.Outcome{}, fault(BadBody, "cannot encode the event: %w", err)
	}
	response, err := h.send(ctx, ev.ID, plain)
	if err != nil {
		return grapnel.Outcome{Output: response}, err
	}
	out, err := dialect.Plain().ReadOutcome(ev, dialect.Output{Stdout: response.Stdout})
	if err != nil {
		return grapnel.Outcome{Output: response}, fault(BadAnswer, "%s: %w", h.url.Hostname(), err)
	}
	out.Output = response
	return out, nil
}

func (h *Hook) enter(now time.Time) (circuit.Pass, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pass circuit.Pass
	if h.state, pass = h.state.Enter(now, h.limits, h.timeout+time.Second); pass == circuit.Refused {
		return pass, fault(CircuitOpen, "%s is %w", h.url.Hostname(), h.state.Err(now))
	}
	return pass, nil
}

func (h *Hook) leave(now time.Time, pass circuit.Pass, err error) {
	result := circuit.Answered
	if err != nil {
		if result = circuit.Unknown; ServerFailed(err) {
			result = circuit.Failed
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = h.state.Leave(now, h.limits, pass, result)
}

// ServerFailed reports whether an error of a Hook means that the server cannot answer, and not
// that this one request is wrong. Errors of single requests must not open the circuit breaker:
// otherwise a model could disable the hook by writing text that the server rejects.
func ServerFailed(err error) bool {
	known, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, context.Canceled) && !errors.Is(err, grapnel.ErrTimeout) {
		return false
	}
	switch known.Fault {
	case DNSError, DNSForbiddenIP, ForbiddenIP, Unreachable, TLS, Timeout, Redirect, Refused, BadAnswer, TooLarge:
		return true
	default:
		return false
	}
}

// Ask sends one request about an event in the plain dialect and returns the JSON object of the
// response, or nil. id is the event's ID. Ask ignores the circuit breaker of Handle. The error is
// an [*Error].
func (h *Hook) Ask(ctx context.Context, id string, plain []byte) (json.RawMessage, error) {
	response, err := h.send(ctx, id, plain)
	if err != nil {
		return nil, err
	}
	return response.Stdout, nil
}

// send sends the request of Ask. It returns an invalid response together with the error, and nil
// if the server sent no response.
func (h *Hook) send(ctx context.Context, id string, plain []byte) (response *grapnel.Output, err error) {
	body := bytes.TrimSpace(plain)
	if h.summary {
		ev, err := wire.Read(body)
		if err == nil {
			body, err = writeSummary(h.name, ev, cmp.Or(ev.Time, time.Now()))
		}
		if err == nil {
			var origin *wire.Origin
			if origin, err = wire.ReadOrigin(plain); err == nil {
				body, err = wire.Originated(body, origin)
			}
		}
		if err != nil {
			return nil, fault(BadBody, "cannot decode the event: %w", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, h.timeout))
	defer cancel()
	header := h.header.Clone()
	sign(header, h.signers, h.messageID(id, body), time.Now(), body)
	err = h.client.exchange(ctx, request{url: h.url, header: header, body: body, head: maxHookHead, again: true}, func(a answer) (err error) {
		response = &grapnel.Output{Status: a.StatusCode}
		response.Stdout, err = readHookAnswer(h.url.Hostname(), a.Response, a.limit)
		return err
	})
	return response, err
}

// messageID returns an ID that is equal for equal requests of one firing, so that a server can
// repeat its first response. A changed event gets another ID.
func (h *Hook) messageID(id string, body []byte) string {
	if id == "" {
		return "msg_" + rand.Text()
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s\x00", id, h.name)
	_, _ = sum.Write(body)
	return "msg_" + hex.EncodeToString(sum.Sum(nil)[:16])
}

const (
	// maxHookAnswer is the size limit for a hook's response in bytes, as for programs.
	maxHookAnswer = 1 << 20

	maxHookHead = 64 << 10 // size limit for response headers in bytes

	// maxFrames is the size limit for the chunk framing of a response in bytes.
	maxFrames = 4 << 20
)

// readHookAnswer reads and checks a server's response. It returns the text of a response that is
// not a JSON object together with the error.
func readHookAnswer(host string, resp *http.Response, limit *io.LimitedReader) ([]byte, error) {
	switch code := resp.StatusCode; {
	case code == http.StatusNoContent, code == http.StatusResetContent:
		return nil, nil
	case code >= 600:
		return nil, fault(BadAnswer, "%s answered with the invalid status %d", host, code)
	case code == http.StatusTooManyRequests:
		return nil, fault(Refused, "%s limits the request rate (status %d)", host, code)
	case code == http.StatusGone:
		return nil, fault(Rejected, "%s no longer answers at this URL (status %d): remove the hook", host, code)
	case code >= 500, code == http.StatusRequestTimeout:
		return nil, fault(Refused, "%s answered with status %d", host, code)
	case code >= 400:
		return nil, fault(Rejected, "%s answered with status %d", host, code)
	case code >= 300:
		return nil, fault(Redirect, "%s answered with a redirect (status %d), which Grapnel does not follow: use the URL of its target", host, code)
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, fault(BadAnswer, "%s answered in the encoding %.40q, which Grapnel did not request", host, coding)
	}
	if resp.ContentLength > maxHookAnswer {
		return nil, tooLarge(host)
	}
	limit.N += maxHookAnswer + maxFrames
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHookAnswer+1))
	switch {
	case len(text) > maxHookAnswer, err != nil && limit.N <= 0:
		return nil, tooLarge(host)
	case err != nil:
		return nil, err // exchange converts it to an Error
	}
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	switch {
	case len(text) == 0 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0:
		// A server that crashes after sending the headers looks like this, so it is not an
		// opinion.
		return nil, fault(BadAnswer, "%s answered with status %d and closed the connection: for no opinion, send status 204 or Content-Length: 0", host, resp.StatusCode)
	case len(text) == 0:
		return nil, nil
	case text[0] != '{' || !json.Valid(text):
		return text, fault(BadAnswer, "%s answered with status %d, but not with a JSON object", host, resp.StatusCode)
	}
	return text, nil
}

func tooLarge(host string) error {
	return fault(TooLarge, "the response of %s is larger than %d bytes", host, maxHookAnswer)
}
