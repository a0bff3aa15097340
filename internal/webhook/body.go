// Package webhook has the bodies of the deliveries of `notify:` hooks, and the schedule of their
// attempts. The daemon, the drain and Go agents deliver by the same rules.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// The names of bodies: the formats of a delivery.
const (
	BodyPlain       = "plain"       // the event, as for an `http:` hook; also the default
	BodyCloudEvents = "cloudevents" // the plain event as the data of a CloudEvent 1.0, in structured mode
	BodySummary     = "summary"     // only that the event happened, without its content
	BodyIronClaw    = "ironclaw"    // the summary in the format of IronClaw's outbound webhooks
)

// Bodies returns the names.
func Bodies() []string {
	return []string{BodyPlain, BodyCloudEvents, BodySummary, BodyIronClaw}
}

// The names of bodies that are a message for people, see [Message].
const (
	BodySlack = "slack"
	BodyTeams = "teams"
	BodyNtfy  = "ntfy"
)

// A Delivery is one event for the target of one hook.
type Delivery struct {
	ID      string          // the same in every attempt, so that a receiver can recognize the delivery
	Target  string          // the full name of the hook
	Event   json.RawMessage // see [Event]
	Created time.Time
}

// Event returns the event of a delivery: its plain form with its Verdict, as far as the hook may see it,
// and its origin.
func Event(ev *grapnel.Event, o *wire.Origin) (json.RawMessage, error) {
	plain, err := dialect.Plain().WriteEvent(ev)
	if err != nil {
		return nil, err
	}
	return wire.Originated(plain, o)
}

// Send makes one attempt to deliver j to the server of a `notify:` hook, whose references are resolved.
// The error and the Reply are as of [outbound.Client.Post] and [outbound.Client.Mail].
func Send(ctx context.Context, c *outbound.Client, h *policyfile.HTTP, j *Delivery) (outbound.Reply, error) {
	if h.SMTP != nil {
		return sendMail(ctx, c, h, j)
	}
	m, err := Message(h, j)
	if err != nil {
		return outbound.Reply{}, err
	}
	return c.Post(ctx, m)
}

// Message returns the request of a delivery.
func Message(h *policyfile.HTTP, j *Delivery) (m outbound.Message, err error) {
	m = outbound.Message{URL: h.URL, ID: j.ID, Secrets: h.Secrets, Headers: h.Headers, Timeout: time.Duration(h.Timeout)}
	if len(h.Members) == 0 && !h.ForPeople() {
		m.Body, m.Type, err = Body(h.Body, j)
		return m, err
	}
	ev, origin, err := read(j)
	if err != nil {
		return m, err
	}
	if len(h.Members) > 0 {
		m.Body, err = writeMembers(h.Members, ev, origin)
		return m, err
	}
	n, err := noticeOf(h, j, ev, origin)
	if err != nil {
		return m, err
	}
	switch h.Body {
	case BodySlack:
		m.Body, err = rawjson.Marshal(slack(n))
	case BodyTeams:
		m.Body, err = rawjson.Marshal(teams(n))
	case BodyNtfy:
		i := strings.LastIndexByte(h.URL, '/') + 1
		m.URL = h.URL[:i]
		m.Body, err = rawjson.Marshal(ntfy(n, h.URL[i:]))
	default:
		err = fmt.Errorf("unknown body %q", h.Body)
	}
	return m, err
}

// read returns the event of a delivery with its Verdict, and its origin.
func read(j *Delivery) (*grapnel.Event, *wire.Origin, error) {
	ev, err := wire.Read(j.Event)
	origin, noOrigin := wire.ReadOrigin(j.Event)
	if err := errors.Join(err, noOrigin); err != nil {
		return nil, nil, fmt.Errorf("cannot read the event of the delivery: %w", err)
	}
	return ev, origin, nil
}

// Body returns the body of a delivery in a format, and its media type. The same delivery always has
// the same bytes.
func Body(format string, j *Delivery) (body []byte, media string, err error) {
	media = "application/json"
	body, err = plainEvent(j.Event)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the event of the delivery: %w", err)
	}
	if format == "" || format == BodyPlain {
		return body, media, nil
	}
	ev, origin, err := read(j)
	if err != nil {
		return nil, "", err
	}
	switch format {
	case BodyCloudEvents:
		media = "application/cloudevents+json; charset=utf-8"
		body, err = cloudEvent(j, ev, origin, body)
	case BodySummary:
		if body, err = outbound.WriteBody("", j.Target, ev, j.Created); err == nil {
			body, err = wire.Originated(body, origin)
		}
	case BodyIronClaw:
		body, err = outbound.WriteBody("ironclaw", j.Target, ev, j.Created)
	default:
		err = fmt.Errorf("unknown body %q", format)
	}
	return body, media, err
}

// plainEvent converts an event to the plain dialect, which begins with its version. The rest of
// the event keeps its bytes.
func plainEvent(raw json.RawMessage) ([]byte, error) {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, err
	}
	var top struct {
		Version *int `json:"grapnel"`
	}
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, err
	}
	text := line.Bytes()
	if top.Version != nil {
		return text, nil
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("not a JSON object")
	}
	head := append([]byte(`{"grapnel":`), strconv.Itoa(dialect.PlainVersion)...)
	if len(text) > len("{}") {
		head = append(head, ',')
	}
	return append(head, text[1:]...), nil
}

// A cloudEventJSON is an event of CloudEvents 1.0, with the attributes that Grapnel has values
// for. https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md
type cloudEventJSON struct {
	Version string `json:"specversion"`
	ID      string `json:"id"`     // unique together with the source
	Source  string `json:"source"` // a URI with the scheme of Grapnel
	Type    string `json:"type"`   // begins with a reversed domain name
	Subject string `json:"subject,omitempty"`
	Time    string `json:"time,omitempty"` // RFC 3339
	Media   string `json:"datacontenttype"`

	// Extension attributes. Their names can have lower-case letters and digits only.
	Host     string `json:"grapnelhost,omitempty"`
	User     string `json:"grapneluser,omitempty"`
	Machine  string `json:"grapnelmachine,omitempty"`
	Policy   string `json:"grapnelpolicy,omitempty"`
	Revision string `json:"grapnelrevision,omitempty"`
	Hook     string `json:"grapnelhook,omitempty"`
	Decided  string `json:"grapneldecided,omitempty"` // the first hook that decided

	Data json.RawMessage `json:"data"`
}

func cloudEvent(j *Delivery, ev *grapnel.Event, o *wire.Origin, plain []byte) ([]byte, error) {
	kind := cmp.Or(string(ev.Kind), "unknown")
	ce := cloudEventJSON{
		Version: "1.0", ID: j.ID, Source: "grapnel:agents/" + url.PathEscape(cmp.Or(ev.Agent.Name, "unknown")), Type: "dev.grapnel." + visible(kind),
		Subject: visible(ev.Session.ID), Media: "application/json", Data: plain,
	}
	if at := cmp.Or(ev.Time, j.Created); !at.IsZero() {
		ce.Time = at.UTC().Format(time.RFC3339Nano)
	}
	if o != nil {
		ce.Host, ce.User, ce.Machine, ce.Policy, ce.Revision = visible(o.Host), visible(o.User), visible(o.Machine), visible(o.PolicyDigest), visible(o.PolicyRevision)
		ce.Hook = visible(o.Hook.String())
		if len(o.Decided) > 0 {
			ce.Decided = visible(o.Decided[0].String())
		}
	}
	return rawjson.Marshal(ce)
}

// visible returns a text without control characters, which attributes must not contain.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}
