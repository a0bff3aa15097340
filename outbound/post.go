package outbound

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A Message is a body for a server that answers with a status.
type Message struct {
	URL     string            // https; http where the Guard's Networks hold all addresses of the host
	ID      string            // the Webhook-Id: the same whenever the same is said again; visible ASCII, at most 256 bytes
	Body    []byte            //
	Type    string            // of the body; empty = application/json
	Secrets []string          // keys of signatures, as of a HookConfig; nil = nothing is signed
	Headers map[string]string // beside our own; Authorization may be among them
	Timeout time.Duration     // from the lookup to the end of the answer; 0 = DefaultHookTimeout
}

// A Reply is what a server answered.
type Reply struct {
	Status     int           // 0 = nothing that is an answer
	RetryAfter time.Duration // that it asks us to wait; 0 = it does not
}

// Post sends one message, signed as the Standard Webhooks say with the time of now, and
// returns the answer: a status from 200 to 299 without an error, and beside an [*Error]
// what there is. Redirects are not followed; the error says where one leads, as far as
// the host. Nobody looks at the body of an answer, and no more than a little of it is
// read: once its headers are there, the server has answered.
func (c *Client) Post(ctx context.Context, m Message) (Reply, error) {
	r, timeout, err := c.request(m)
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
	defer cancel()
	var reply Reply
	var refused error
	err = c.exchange(ctx, r, func(a answer) error {
		reply = Reply{Status: a.StatusCode, RetryAfter: retryAfter(a.Header, time.Now())}
		refused = c.refusal(r.url, a.Response)
		// What comes now is read for the connection alone, and one that takes longer is not worth it.
		_ = a.tcp.SetReadDeadline(time.Now().Add(maxDrain))
		_, err := io.Copy(io.Discard, a.Body)
		return err
	})
	if reply.Status != 0 {
		return reply, refused
	}
	return reply, err
}

// request is a message as it is sent.
func (c *Client) request(m Message) (request, time.Duration, error) {
	u, err := c.Guard().CheckHookURL(m.URL)
	if err != nil {
		return request{}, 0, fmt.Errorf("url: %w", err)
	}
	names := slices.Sorted(maps.Keys(m.Headers)) // the same error each time
	if err := checkHeaders(func(yield func(string, string) bool) {
		for _, name := range names {
			if !yield(name, m.Headers[name]) {
				return
			}
		}
	}, true); err != nil {
		return request{}, 0, err
	}
	signers, err := newSigners(m.Secrets)
	timeout := cmp.Or(m.Timeout, DefaultHookTimeout)
	switch {
	case err != nil:
		return request{}, 0, err
	case timeout < 0 || timeout > MaxTimeout:
		return request{}, 0, fault(BadTimeout, "timeout %v: it is more than 0 and at most %v", m.Timeout, MaxTimeout)
	case m.ID == "" || len(m.ID) > 256 || strings.ContainsFunc(m.ID, func(r rune) bool { return r <= ' ' || r > '~' }):
		return request{}, 0, fault(BadHeader, "the id %.40q of a message is none", m.ID)
	}
	header := http.Header{"User-Agent": {"grapnel"}}
	for name, value := range m.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", cmp.Or(m.Type, "application/json"))
	sign(header, signers, m.ID, time.Now(), m.Body)
	return request{url: u, header: header, body: m.Body, head: maxAnswer, again: true}, timeout, nil
}

// maxDrain is how long the body of an answer may take that nobody looks at.
const maxDrain = time.Second

// refusal says what an answer means that is no success.
func (c *Client) refusal(u *url.URL, resp *http.Response) error {
	host := u.Hostname()
	switch code := resp.StatusCode; {
	case code < 300:
		return nil
	case code < 400:
		return fault(Redirect, "%s answered with a redirect (status %d)%s, which is not followed: give the URL that it leads to", host, code, c.leads(u, resp.Header.Get("Location")))
	case code == http.StatusGone:
		return fault(Rejected, "%s wants to hear no more (status %d)", host, code)
	case code == http.StatusTooManyRequests:
		return fault(Refused, "%s wants to hear less often (status %d)", host, code)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500 && code < 600:
		return fault(Refused, "%s answered with status %d", host, code)
	case code >= 600:
		return fault(BadAnswer, "%s answered with the status %d, which there is not", host, code)
	default:
		return fault(Rejected, "%s answered with status %d", host, code)
	}
}

// leads says where a redirect leads, without what may be a secret, and what is wrong with
// going there.
func (c *Client) leads(from *url.URL, location string) string {
	to, err := from.Parse(location)
	if location == "" || err != nil || to.Host == "" {
		return ""
	}
	said := fmt.Sprintf(" to %.100q", to.Scheme+"://"+to.Host)
	if _, err := c.Guard().CheckHookURL((&url.URL{Scheme: to.Scheme, Host: to.Host, Path: "/"}).String()); err != nil {
		said += fmt.Sprintf(" (%v)", err)
	}
	return said
}

// retryAfter is how long an answer asks us to wait, in seconds or until a date. That is
// one by the clock of the server, if it says what time it has.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if most := int64(MaxRetryAfter / time.Second); err != nil || seconds > most { // it has too many digits
			seconds = most
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		now = at
	}
	return min(max(0, until.Sub(now)), MaxRetryAfter)
}

// MaxRetryAfter is the longest that a server can ask us to wait.
const MaxRetryAfter = 24 * time.Hour
