package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/outbound"
)

// ssrfCase has the members of all cases about the outbound guard. Only Reason is compared.
type ssrfCase struct {
	Reason []string `json:"reason"`
	Seed   string   `json:"seed_verdict"`
	Class  string   `json:"ip_class"`
	Group  string   `json:"group"`
	Tier   string   `json:"tier"`
}

// A ruling is a decision with all words and all reasons that apply to it.
type ruling struct {
	words, reasons []string
}

// rulingOn returns the ruling for a permitted action (err == nil) or for an error.
func rulingOn(err error) ruling {
	if err == nil {
		return ruling{[]string{"allow"}, []string{"ok"}}
	}
	return ruling{[]string{"deny"}, reasonsOf(err)}
}

func reasonsOf(err error) []string {
	reasons := []string{"unknown"}
	if known, ok := errors.AsType[*outbound.Error](err); ok {
		reasons = []string{string(known.Fault)}
	}
	if errors.Is(err, grapnel.ErrTimeout) {
		reasons = append(reasons, string(outbound.Timeout))
	}
	return reasons
}

// compareRuling returns the differences from the expected ruling.
func (c *Case) compareRuling(got ruling, reasons []string) []Diff {
	var diffs []Diff
	if word, _ := c.Expect.(string); !slices.Contains(got.words, word) {
		diffs = append(diffs, Diff{Key: "expect", Want: c.Expect, Got: got.words})
	}
	if !slices.ContainsFunc(reasons, func(r string) bool { return slices.Contains(got.reasons, r) }) {
		diffs = append(diffs, Diff{Key: "reason", Want: reasons, Got: got.reasons})
	}
	return diffs
}

// ssrfURL checks a URL.
func ssrfURL(_ context.Context, c *Case) ([]Diff, error) {
	var d struct {
		ssrfCase
		URL  string  `json:"url"`
		Host *string `json:"expect_host"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	u, err := outbound.Guard{}.CheckURL(d.URL)
	diffs := c.compareRuling(rulingOn(err), d.Reason)
	if d.Host != nil && (err != nil || !sameHost(u.Hostname(), *d.Host)) {
		diffs = append(diffs, Diff{Key: "expect_host", Want: *d.Host, Got: fmt.Sprint(u)})
	}
	return diffs, nil
}

// sameHost compares names by their text, and addresses by their value. It ignores brackets and
// the different forms of zeros in IPv6 addresses.
func sameHost(a, b string) bool {
	one, err := netip.ParseAddr(a)
	other, otherErr := netip.ParseAddr(strings.Trim(b, "[]"))
	return a == b || err == nil && otherErr == nil && one.Unmap() == other.Unmap()
}

// ssrfHeader checks one header.
func ssrfHeader(_ context.Context, c *Case) ([]Diff, error) {
	var d struct {
		ssrfCase
		Header string `json:"header"`
		Value  string `json:"value"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	return c.compareRuling(rulingOn(checkHeaders([][2]string{{d.Header, d.Value}})), d.Reason), nil
}

// ssrfHeaders checks all headers of a webhook.
func ssrfHeaders(_ context.Context, c *Case) ([]Diff, error) {
	var d struct {
		ssrfCase
		Headers [][2]string `json:"headers"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	return c.compareRuling(rulingOn(checkHeaders(d.Headers)), d.Reason), nil
}

func checkHeaders(headers [][2]string) error {
	return outbound.CheckHeaders(func(yield func(string, string) bool) {
		for _, h := range headers {
			if !yield(h[0], h[1]) {
				return
			}
		}
	})
}

// ssrfDNS delivers once for each answer of the name service, and judges the last delivery. Each
// delivery may only dial addresses that were checked. A second lookup gets the answer for the
// connection.
func ssrfDNS(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		ssrfCase
		URL            string          `json:"url"`
		AtRegistration json.RawMessage `json:"at_registration"` // not used: Grapnel does no lookup at registration
		Check          [][]string      `json:"check"`
		Connect        []string        `json:"connect"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	if _, err := (outbound.Guard{}).CheckURL(d.URL); err != nil {
		d.URL = "https://hooks.example.com/" // the case does not test this name
	}
	var last ruling
	for _, answer := range d.Check {
		w, err := newWeb(script{NoDNS: answer == nil, DNS: append([]string{}, answer...), LaterDNS: append([]string{}, d.Connect...)})
		if err != nil {
			return nil, err
		}
		defer w.close()
		err = w.deliver(ctx, outbound.Guard{}, outbound.Config{URL: d.URL, Timeout: outbound.MaxTimeout})
		for _, to := range w.hosts() { // this includes refused attempts
			if !slices.ContainsFunc(answer, func(checked string) bool { return sameHost(to, checked) }) {
				return nil, fmt.Errorf("%s was dialled, and %q were checked", to, answer)
			}
		}
		if last = rulingOn(err); err != nil {
			last.words = append(last.words, "fail")
			continue
		}
		last.words = append(last.words, "ok", "direct")
		last.reasons = append(last.reasons, "pinned")
	}
	return c.compareRuling(last, d.Reason), nil
}

// ssrfTransport delivers to a server.
func ssrfTransport(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		ssrfCase
		URL      string `json:"url"`
		Response struct {
			Status   int               `json:"status"`
			Location string            `json:"location"`
			Headers  map[string]string `json:"headers"`
			Body     int64             `json:"body_bytes"`
			Expanded int64             `json:"expanded_bytes"`
			DripMS   int               `json:"drip_ms"`
		} `json:"response"`
		TLS struct {
			Names      []string `json:"cert_names"`
			IPs        []string `json:"cert_ips"`
			SelfSigned bool     `json:"self_signed"`
		} `json:"tls"`
		Env           map[string]string `json:"env"`
		TimeoutMS     int               `json:"timeout_ms"`
		DNSDelayMS    int               `json:"dns_delay_ms"`
		OperatorAllow []string          `json:"operator_allow"`
		BundleAllow   json.RawMessage   `json:"bundle_allow"` // bundles cannot configure this
		RequestsSent  *int              `json:"requests_sent"`
		Delivered     *bool             `json:"delivered"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	d.URL = cmp.Or(d.URL, "https://hooks.example.com/")
	guard, err := outbound.ParseGuard(d.OperatorAllow)
	if err != nil {
		return nil, err
	}
	r := &d.Response
	answer := script{
		Status: r.Status, Headers: map[string]string{}, Body: r.Body, Expanded: r.Expanded, Drip: inMS(r.DripMS), DNSDelay: inMS(d.DNSDelayMS),
		CertNames: d.TLS.Names, CertIPs: d.TLS.IPs, SelfSigned: d.TLS.SelfSigned,
	}
	if r.Location != "" {
		answer.Headers["Location"] = r.Location
	}
	maps.Copy(answer.Headers, r.Headers)
	w, err := newWeb(answer)
	if err != nil {
		return nil, err
	}
	defer w.close()
	defer setenv(d.Env)()
	cfg := outbound.Config{URL: d.URL, Timeout: cmp.Or(inMS(d.TimeoutMS), outbound.MaxTimeout)}
	begun := time.Now()
	failed := w.deliver(ctx, guard, cfg)
	took := time.Since(begun)
	sent, read, dialled := len(w.got()), w.read.Load(), w.hosts()

	got := rulingOn(failed)
	switch {
	case failed == nil:
		got.words = []string{"allow", "ok"}
		if max(r.Body, r.Expanded) > read {
			got.reasons = append(got.reasons, "body_cap")
		}
		if slices.ContainsFunc(dialled, opened) {
			got.reasons = append(got.reasons, "operator_allow")
		}
		if !w.direct(d.URL) {
			break
		}
		got.words = append(got.words, "direct")
		if len(d.Env) > 0 {
			got.reasons = append(got.reasons, "proxy_ignored")
		}
		if w.script.header("Alt-Svc") == "" {
			break
		}
		if err := w.deliver(ctx, guard, cfg); err == nil && w.direct(d.URL) {
			got.reasons = append(got.reasons, "alt_svc_ignored")
		}
	case got.reasons[0] == string(outbound.Redirect) && len(dialled) == 1:
		got.words = []string{"no_follow", "fail"}
	case len(dialled) > 0, got.reasons[0] == string(outbound.DNSError):
		got.words = []string{"fail"}
	}
	diffs := c.compareRuling(got, d.Reason)
	if len(diffs) > 0 && d.TimeoutMS == 0 && took >= cfg.Timeout {
		// The case does not test the time, so a busy machine may have caused the timeout.
		diffs = append(diffs, Diff{Key: "max_ms", Want: cfg.Timeout.Milliseconds(), Got: took.Milliseconds()})
	}
	if d.RequestsSent != nil && *d.RequestsSent != sent {
		diffs = append(diffs, Diff{Key: "requests_sent", Want: *d.RequestsSent, Got: sent})
	}
	if d.Delivered != nil && *d.Delivered != (failed == nil) {
		diffs = append(diffs, Diff{Key: "delivered", Want: *d.Delivered, Got: failed == nil})
	}
	return diffs, nil
}

// opened reports whether an address is reachable only because the operator allowed its network.
func opened(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && outbound.Guard{}.CheckAddr(addr) != nil
}

func inMS(n int) time.Duration { return time.Duration(n) * time.Millisecond }
