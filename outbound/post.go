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
	"unicode"

	"github.com/grapnel-dev/grapnel"
)

// A Message is a request to a server that responds with a status.
type Message struct {
	URL     string            // https, or http if the Guard's Networks contain all addresses of the host
	ID      string            // the Webhook-Id: equal for repeated deliveries of the same message; visible ASCII, at most 256 bytes
	Body    []byte            //
	Type    string            // content type of the body; empty = application/json
	Secrets []string          // signature keys, as in HookConfig; nil = unsigned
	Headers map[string]string // additional headers; Authorization is allowed
	Timeout time.Duration     // limit from the lookup to the end of the response; 0 = DefaultHookTimeout
}

// A Reply is the response of a server, or the last reply of an e-mail server.
type Reply struct {
	Status     int           // 0 = no valid response
	Text       string        // the beginning of the response body in one line, without the secrets of the request
	RetryAfter time.Duration // how long the server asks the client to wait; 0 = not set
	Final      bool          // the server refuses this message for good: another attempt is useless
}

// Post sends one message, signed as in the Standard Webhooks specification with the current time.
// For a status from 200 to 299 the error is nil. Otherwise it returns an [*Error], together with
// the Reply if there is one. Redirects are not followed; the error contains the scheme and host
// of the target. The response body is discarded after a short time, because the server has
// answered once its headers arrived.
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
		// The response is read only for its beginning and to reuse the connection, which is not worth a
		// long wait.
		_ = a.tcp.SetReadDeadline(time.Now().Add(maxDrain))
		head, err := io.ReadAll(io.LimitReader(a.Body, maxExcerpt))
		reply.Text = excerpt(string(head), secretsOf(r))
		refused = c.refusal(r.url, a.Response, reply.Text)
		if err == nil {
			_, err = io.Copy(io.Discard, a.Body)
		}
		return err
	})
	if reply.Status != 0 {
		return reply, refused
	}
	return reply, err
}

// request checks a message and returns the request and its time limit.
func (c *Client) request(m Message) (request, time.Duration, error) {
	u, err := c.Guard().CheckHookURL(m.URL)
	if err != nil {
		return request{}, 0, fmt.Errorf("url: %w", err)
	}
	names := slices.Sorted(maps.Keys(m.Headers)) // sorted, so that the error is always the same
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
		return request{}, 0, fault(BadTimeout, "timeout %v: must be more than 0 and at most %v", m.Timeout, MaxTimeout)
	case m.ID == "" || len(m.ID) > 256 || strings.ContainsFunc(m.ID, func(r rune) bool { return r <= ' ' || r > '~' }):
		return request{}, 0, fault(BadHeader, "invalid message ID %.40q", m.ID)
	}
	header := http.Header{"User-Agent": {"grapnel"}}
	for name, value := range m.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", cmp.Or(m.Type, "application/json"))
	sign(header, signers, m.ID, time.Now(), m.Body)
	return request{url: u, header: header, body: m.Body, head: maxAnswer, again: true}, timeout, nil
}

// maxDrain is the time limit for reading a response body that is discarded.
const maxDrain = time.Second

// maxExcerpt is the maximum size of the beginning of a response in bytes, maxReplyText the maximum
// number of characters of it in a Reply.
const (
	maxExcerpt   = 1 << 10
	maxReplyText = 200
)

// secretsOf returns the parts of a request that a server may repeat in its response, and that must not
// be stored: an address can contain a token.
func secretsOf(r request) []string {
	secrets := []string{r.url.RequestURI(), r.url.Path, r.url.RawQuery}
	for part := range strings.SplitSeq(r.url.Path, "/") {
		if len(part) >= 8 {
			secrets = append(secrets, part)
		}
	}
	for name, values := range r.header {
		if value := values[0]; name != "User-Agent" && name != "Content-Type" && len(value) >= 8 {
			secrets = append(append(secrets, value), strings.Fields(value)...)
		}
	}
	return secrets
}

// excerpt returns the beginning of a server's text in one line, with visible characters only, and
// without secrets.
func excerpt(text string, secrets []string) string {
	text = strings.ToValidUTF8(text, "")
	for _, secret := range secrets {
		if len(secret) > 3 {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxReplyText {
		text = string(runes[:maxReplyText]) + "..."
	}
	return text
}

// refusal returns the error for a response that is not a success. text is the beginning of its body.
func (c *Client) refusal(u *url.URL, resp *http.Response, text string) error {
	host := u.Hostname()
	if text != "" {
		text = ": " + text
	}
	switch code := resp.StatusCode; {
	case code < 300:
		return nil
	case code < 400:
		return fault(Redirect, "%s answered with a redirect (status %d)%s, which Grapnel does not follow: use the URL of its target", host, code, c.leads(u, resp.Header.Get("Location")))
	case code == http.StatusGone:
		return fault(Rejected, "%s accepts no more deliveries (status %d)%s", host, code, text)
	case code == http.StatusTooManyRequests:
		return fault(Refused, "%s limits the delivery rate (status %d)%s", host, code, text)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500 && code < 600:
		return fault(Refused, "%s answered with status %d%s", host, code, text)
	case code >= 600:
		return fault(BadAnswer, "%s answered with the invalid status %d", host, code)
	default:
		return fault(Rejected, "%s answered with status %d%s", host, code, text)
	}
}

// leads describes the target of a redirect, without its path, which may be secret, and why the
// guard forbids it.
func (c *Client) leads(from *url.URL, location string) string {
	to, err := from.Parse(location)
	if location == "" || err != nil || to.Host == "" {
		return ""
	}
	text := fmt.Sprintf(" to %.100q", to.Scheme+"://"+to.Host)
	if _, err := c.Guard().CheckHookURL((&url.URL{Scheme: to.Scheme, Host: to.Host, Path: "/"}).String()); err != nil {
		text += fmt.Sprintf(" (%v)", err)
	}
	return text
}

// retryAfter returns the wait time of a Retry-After header, in seconds or as a date. A date is
// relative to the server's clock if the response has a Date header.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if most := int64(MaxRetryAfter / time.Second); err != nil || seconds > most { // too many digits for int64
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

// MaxRetryAfter is the upper limit for a server's wait time.
const MaxRetryAfter = 24 * time.Hour
