package policy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const (
	maxInFlight = 100
	maxCooldown = time.Hour
	maxFailures = 1000
	maxSecrets  = 8

	maxRecipients = 50
)

// forbiddenIn returns why a file of this scope cannot contain the server; "" = it can. Policies of
// projects and plugins may name servers, but they must not send the user's secrets or use
// unencrypted connections.
func forbiddenIn(h *policyfile.HTTP, scope grapnel.Scope) string {
	if scope != grapnel.ScopeProject && scope != grapnel.ScopePlugin {
		return ""
	}
	if len(h.Secrets) > 0 {
		return "a project has no `secret`: write the hook into your own policy"
	}
	for name, value := range h.Headers {
		if policyfile.IsReference(value) {
			return fmt.Sprintf("header %s: a project must not send the value of a variable or file: write the hook into your own policy", name)
		}
	}
	if h.SMTP != nil {
		return "a project sends no e-mail: write the hook into your own policy"
	}
	if !strings.HasPrefix(strings.ToLower(h.URL), "https:") {
		return "hooks of a project may only use https"
	}
	return ""
}

// CheckHTTP returns an error for the first server that a file of this scope cannot contain, or nil.
func CheckHTTP(p *policyfile.Policy, file string, scope grapnel.Scope) *policyfile.Error {
	for i := range p.Hooks {
		if h := &p.Hooks[i]; h.HTTP != nil {
			if why := forbiddenIn(h.HTTP, scope); why != "" {
				return &policyfile.Error{File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q: %s: %s", h.Name, h.HTTP.Key(), why)}
			}
		}
	}
	return nil
}

// makes returns the function that builds the hook of a server; nil = the hook is skipped.
func (b *Builder) makes(h *policyfile.HTTP) func(policyfile.HTTP) (grapnel.Hook, error) {
	if h.Notify {
		return b.Notify
	}
	return b.HTTP
}

// buildHTTP builds the hook of an `http:` or `notify:` action.
func (b *Builder) buildHTTP(h *policyfile.Hook, spec *grapnel.Spec) error {
	spec.Timeout = policyfile.FirstDuration(h.HTTP.Timeout, h.Timeout, min(b.Defaults.Timeout, policyfile.Duration(policyfile.MaxHTTPTimeout)), policyfile.Duration(policyfile.DefaultTimeout))
	b.defaultOnError(spec)
	FailOpen(spec)
	if h.HTTP.Async {
		spec.Phase = grapnel.PhaseObserve
	}
	asked := *h.HTTP
	asked.Timeout, asked.Source, asked.Scope, asked.Dir = policyfile.Duration(spec.Timeout), spec.Source.Name, spec.Source.Scope, filepath.Dir(spec.Source.File)
	var err error
	if spec.Hook, err = b.makes(h.HTTP)(asked); err != nil {
		return fmt.Errorf("%s: %w", h.HTTP.Key(), err)
	}
	return nil
}

// http parses an `http:` action: a URL, or a mapping.
func (p *fileParser) http(n *yaml.Node) *policyfile.HTTP {
	h := &policyfile.HTTP{}
	if n.Kind != yaml.Map {
		h.URL = p.url(n)
		return h
	}
	p.mapping(n, "http", p.serverKeys(h), []key{
		{"body", func(n *yaml.Node) { h.Body = p.oneOf(n, "plain", "summary") }},
		{"breaker", func(n *yaml.Node) { h.Breaker = p.breaker(n) }},
	})
	if n.Get("url") == nil {
		p.fail(n, "for example `http: {url: https://policy.example.com/v1/decide}`", "http has no `url`")
	}
	return h
}

// notify parses a `notify:` action: a URL, or a mapping.
func (p *fileParser) notify(n *yaml.Node) *policyfile.HTTP {
	h := &policyfile.HTTP{Notify: true, Async: true}
	if n.Kind != yaml.Map {
		h.URL = p.url(n)
		return h
	}
	p.mapping(n, "notify", p.serverKeys(h), []key{
		{"smtp", func(n *yaml.Node) { h.SMTP = p.smtp(n) }},
		{"body", func(n *yaml.Node) { p.notifyBody(n, h) }},
		{"title", func(n *yaml.Node) { h.Title = p.expression(n, match.KeyTitle) }},
		{"text", func(n *yaml.Node) { h.Text = p.expression(n, match.KeyText) }},
		{"ordered", func(n *yaml.Node) { h.Ordered = p.boolean(n) }},
		{"timeout", func(n *yaml.Node) {
			h.Timeout = p.duration(n)
			p.inTime(n, h.Timeout)
		}},
		{"max_in_flight", func(n *yaml.Node) {
			if h.Most = *p.integer(n); h.Most < 1 || h.Most > maxInFlight {
				p.fail(n, "", "max_in_flight: want a number from 1 to %d", maxInFlight)
			}
		}},
	})
	p.notifyKeys(n, h)
	return h
}

// notifyKeys rejects keys of a `notify:` that do not fit together.
func (p *fileParser) notifyKeys(n *yaml.Node, h *policyfile.HTTP) {
	url := n.Get("url")
	switch {
	case url == nil && n.Get("smtp") == nil:
		p.fail(n, "for example `notify: {url: https://hooks.example.com/agents, secret: env:HOOK_SECRET}`", "notify has no `url`")
	case h.Body == "ntfy" && !ntfyTopic().MatchString(h.URL):
		p.fail(cmp.Or(url, n), "for example https://ntfy.sh/mytopic", "`body: ntfy` needs the URL of a topic: one name of letters, digits, - and _ after the host")
	}
	for _, key := range []string{"url", "secret", "headers", "body"} {
		if at := n.Get(key); at != nil && n.Get("smtp") != nil {
			p.fail(at, "remove it", "`%s` has no effect with `smtp`", key)
		}
	}
	for _, key := range []string{"title", "text"} {
		if at := n.Get(key); at != nil && !h.ForPeople() {
			p.fail(at, "", "`%s` needs `smtp`, or `body: slack`, `teams` or `ntfy`", key)
		}
	}
}

// ntfyTopic matches the URL of a topic: POST to the root of the server with the topic in the body has
// the same effect. ntfy accepts these names.
var ntfyTopic = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]+://[^/?#]+/[-_A-Za-z0-9]{1,64}$`) })

// notifyBody parses the body of a `notify:`: the name of a format, or a mapping of expressions.
func (p *fileParser) notifyBody(n *yaml.Node, h *policyfile.HTTP) {
	if n.Kind != yaml.Map {
		h.Body = p.oneOf(n, "plain", "cloudevents", "summary", "slack", "teams", "ntfy")
		return
	}
	left := policyfile.MaxBodyParts
	h.Members = p.bodyParts(n, &left)
}

// bodyParts parses a mapping or a list of expressions. left is how many parts the body may still have.
func (p *fileParser) bodyParts(n *yaml.Node, left *int) []policyfile.BodyPart {
	var parts []policyfile.BodyPart
	add := func(name string, n *yaml.Node) {
		part := policyfile.BodyPart{Name: name}
		switch *left--; {
		case *left == -1:
			p.fail(n, "", "the body has more than %d parts", policyfile.MaxBodyParts)
		case *left < 0:
			return
		case n.Kind == yaml.Map, n.Kind == yaml.List:
			part.List, part.Parts = n.Kind == yaml.List, p.bodyParts(n, left)
		default:
			part.Expr = p.expression(n, match.KeyBody)
		}
		parts = append(parts, part)
	}
	for _, item := range n.Items {
		add("", item)
	}
	for _, pair := range n.Pairs {
		add(pair.Key.Text, pair.Value)
	}
	if len(parts) == 0 && *left >= 0 {
		p.fail(n, `for example {text: '"blocked: " + tool.command'}`, "a mapping or list of a body must not be empty")
	}
	return parts
}

// smtp parses the server and the addresses of an e-mail. "grapnel check" and the client check them
// strictly.
func (p *fileParser) smtp(n *yaml.Node) *policyfile.SMTP {
	m := &policyfile.SMTP{}
	p.mapping(n, "smtp", []key{
		{"server", func(n *yaml.Node) {
			if m.Server = p.text(n); !mailServer().MatchString(m.Server) {
				p.fail(n, `for example "mail.example.com:587"`, "want the host and port of a server")
			}
		}},
		{"from", func(n *yaml.Node) {
			m.From = p.text(n)
			p.address(n)
		}},
		{"to", func(n *yaml.Node) {
			m.To = p.texts(n)
			for _, item := range itemsOf(n) {
				p.address(item)
			}
		}},
		{"user", func(n *yaml.Node) { m.User = p.text(n) }},
		{"password", func(n *yaml.Node) {
			if m.Password = p.text(n); !policyfile.IsReference(m.Password) {
				p.fail(n, "write file:PATH or env:NAME", "a policy must not contain a password") // it is not shown
			} else {
				p.reference(n)
			}
		}},
	})
	for _, key := range []string{"server", "from", "to"} {
		if n.Kind == yaml.Map && n.Get(key) == nil {
			p.fail(n, `for example smtp: {server: "mail.example.com:587", from: grapnel@example.com, to: team@example.com}`, "smtp has no `%s`", key)
		}
	}
	if (m.User == "") != (m.Password == "") {
		p.fail(n, "", "`user` and `password` need each other")
	}
	if len(m.To) > maxRecipients {
		p.fail(n, "", "more than %d recipients", maxRecipients)
	}
	return m
}

var mailServer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`) })

// address rejects obvious mistakes in an e-mail address.
func (p *fileParser) address(n *yaml.Node) {
	if text := n.Text; text != "" && (!strings.Contains(strings.Trim(text, "@"), "@") || strings.ContainsFunc(text, unicode.IsControl)) {
		p.fail(n, "for example team@example.com", "this is not an e-mail address")
	}
}

// httpOptions reads the options of an `http:` action.
func (p *fileParser) httpOptions(h *policyfile.Hook, o *options) {
	h.HTTP.Name = h.Name
	h.HTTP.Async = o.async != nil && p.boolean(o.async)
	p.unheard(h, o, h.HTTP.Async)
	p.inTime(o.hook.Get("timeout"), h.Timeout)
	if o.speaks != "" || o.env != nil {
		p.fail(o.hook, "", "hook %q: `speaks` and `env` need `run`, and cannot be used with http", h.Name)
	}
}

// notifyOptions rejects keys that have no effect on a `notify:` action, which never delays an event
// or decides about it.
func (p *fileParser) notifyOptions(h *policyfile.Hook, o *options) {
	h.HTTP.Name = h.Name
	p.inTime(o.hook.Get("timeout"), h.Timeout)
	for _, key := range []string{"on_error", "message", "async", "speaks", "env"} {
		if at := o.hook.Get(key); at != nil {
			p.fail(at, "remove it", "hook %q: `%s` has no effect with `notify`, which runs in the background and cannot decide", h.Name, key)
		}
	}
	if at := o.hook.Get("timeout"); at != nil && h.HTTP.Timeout > 0 {
		p.fail(at, "remove one of them", "hook %q has two timeouts", h.Name)
	}
}

// serverKeys returns the keys that `http:` and `notify:` share.
func (p *fileParser) serverKeys(h *policyfile.HTTP) []key {
	return []key{
		{"url", func(n *yaml.Node) { h.URL = p.url(n) }},
		{"secret", func(n *yaml.Node) { h.Secrets = p.secrets(n) }},
		{"headers", func(n *yaml.Node) { h.Headers = p.headers(n) }},
	}
}

// inTime rejects a timeout above MaxHTTPTimeout.
func (p *fileParser) inTime(n *yaml.Node, timeout policyfile.Duration) {
	if time.Duration(timeout) > policyfile.MaxHTTPTimeout {
		p.fail(n, fmt.Sprintf("write %s or less: the agent waits for the server", policyfile.FormatDuration(policyfile.MaxHTTPTimeout)), "the timeout of a server is at most %v", policyfile.MaxHTTPTimeout)
	}
}

// url rejects obvious mistakes in the URL of a server. "grapnel check" and the HTTP client check it
// strictly.
func (p *fileParser) url(n *yaml.Node) string {
	text := p.text(n)
	if text == "" {
		return ""
	}
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	switch scheme = strings.ToLower(scheme); {
	case scheme != "https" && scheme != "http" || host == "":
		p.fail(n, "for example https://policy.example.com/v1/decide", "this is not a URL of a server")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		p.fail(n, "write %20 for a space and %5C for a backslash", "the URL contains white space, a control character or a backslash")
	case strings.Contains(host, "@"):
		p.fail(n, "use a header: headers: {authorization: env:NAME}", "the URL contains a user name or a password")
	}
	return text
}

func (p *fileParser) secrets(n *yaml.Node) []string {
	texts := p.texts(n)
	if len(texts) > maxSecrets {
		p.fail(n, "", "more than %d secrets", maxSecrets)
	}
	for _, item := range itemsOf(n) {
		switch {
		case item.Kind == yaml.Null || item.Text == "": // texts reports this error
		case policyfile.IsReference(item.Text):
			p.reference(item)
		case !strings.HasPrefix(item.Text, policyfile.KeyPrefix):
			p.fail(item, "env:NAME, file:PATH, or whsec_ and the key in base64", "this is not a secret") // the value may be a secret, so it is not shown
		default:
			if err := policyfile.CheckKey(item.Text); err != nil {
				p.fail(item, "", "secret: %v", err)
			}
		}
	}
	return texts
}

// reference checks the syntax of env:NAME and file:PATH.
func (p *fileParser) reference(n *yaml.Node) {
	kind, name, _ := strings.Cut(n.Text, ":")
	letter := func(r rune) bool {
		return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		p.fail(n, "", "%s: the name is missing", kind)
	case kind == "env" && strings.ContainsFunc(name, func(r rune) bool { return !letter(r) }):
		p.fail(n, "", "env: %q is not the name of a variable", name)
	}
}

func (p *fileParser) headers(n *yaml.Node) map[string]string {
	if n.Kind != yaml.Map || len(n.Pairs) == 0 {
		p.fail(n, "for example {x-team: core}", "headers must be a mapping of names to values")
		return nil
	}
	headers := make(map[string]string, len(n.Pairs))
	for _, pair := range n.Pairs {
		name, value := pair.Key.Text, p.text(pair.Value)
		if policyfile.IsReference(value) {
			p.reference(pair.Value)
		} else if strings.EqualFold(name, "authorization") {
			p.fail(pair.Value, "write env:NAME or file:PATH", "header %s: a policy must not contain credentials", name)
		}
		headers[name] = value
	}
	return headers
}

func (p *fileParser) breaker(n *yaml.Node) policyfile.Breaker {
	var b policyfile.Breaker
	p.mapping(n, "breaker", []key{
		{"failures", func(n *yaml.Node) {
			if b.Failures = *p.integer(n); b.Failures < 1 || b.Failures > maxFailures {
				p.fail(n, "", "failures: want a number from 1 to %d", maxFailures)
			}
		}},
		{"cooldown", func(n *yaml.Node) {
			if b.Cooldown = p.duration(n); time.Duration(b.Cooldown) > maxCooldown {
				p.fail(n, "", "cooldown: want at most %s", policyfile.FormatDuration(maxCooldown))
			}
		}},
	})
	return b
}
