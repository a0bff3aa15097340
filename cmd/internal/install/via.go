package install

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// A Via is the way in which an agent sends events to Grapnel.
type Via string

// The values of Via.
const (
	ViaCommand Via = "command" // the agent starts grapnel-hook at each event
	ViaHTTP    Via = "http"    // the agent sends events to the daemon, at an address of this machine
)

// overHTTP describes how agents send events over HTTP. It is not in the dialects, because the
// hook program contains these and never needs it.
var overHTTP = map[string]struct {
	entry    string            // as dialect.Setup.Entry, with $url and $authorization
	commands map[string]string // events that still start a program, and why
}{
	dialect.ClaudeCode().Name: {
		entry: `{"type": "http", "url": $url, "headers": {"Authorization": $authorization}, "timeout": $timeout, "onFailure": $closed("block")}`,
		commands: map[string]string{
			"SessionStart":   "Claude Code silently skips HTTP hooks there", // seen live, 2.1.329
			"Setup":          "Claude Code silently skips HTTP hooks there", // seen live, 2.1.329
			"TaskCompleted":  "it needs an exit code for a block, which HTTP does not have",
			"TeammateIdle":   "it needs an exit code for a block, which HTTP does not have",
			"WorktreeCreate": "it accepts a line of text, not JSON",
		},
	},
}

// addressPath is the part of the address before the name of the agent.
const addressPath = "/v1/hooks/"

// An Over has the HTTP address and secret of an installation.
type Over struct {
	URL      string            // contains the token of the installation
	Secret   string            // required for each request
	Commands map[string]string // events that still start a program, and why
}

// asks reports whether the agent sends an event over HTTP.
func (o *Over) asks(event string) bool {
	if o == nil {
		return false
	}
	_, stays := o.Commands[event]
	return !stays
}

// values returns the values of the words in an entry over HTTP.
func (o *Over) values() map[string]any {
	return map[string]any{"url": o.URL, "authorization": "Bearer " + o.Secret}
}

// Addresses are the port on which the daemon of a state directory listens for agents over HTTP,
// and the installations that may use it. The port is chosen once, because it is in the settings
// of agents.
type Addresses struct {
	Port   int              `json:"port"`
	Guests map[string]Guest `json:"guests"` // by the token of the installation
}

// A Guest is an installation that sends events over HTTP.
type Guest struct {
	Agent  string      `json:"agent"`
	Secret string      `json:"secret"`         // 32 random bytes in base64
	Mode   fs.FileMode `json:"mode,omitempty"` // mode of the settings before they contained the secret; 0 = unchanged
}

// AddressesFile returns the path of the file that ReadAddresses reads.
func AddressesFile(state string) string { return filepath.Join(state, "http.json") }

// ReadAddresses reads the HTTP addresses of a state directory. If no installation uses HTTP, the
// result has no guests. It rejects a file that other users can read or write, because its secrets
// may be known.
func ReadAddresses(state string) (Addresses, error) {
	name := AddressesFile(state)
	var a Addresses
	switch err := readPrivate(name, &a); {
	case errors.Is(err, fs.ErrNotExist):
		return Addresses{}, nil
	case err != nil:
		return Addresses{}, fmt.Errorf("agents cannot use HTTP: %s: %w", name, err)
	case len(a.Guests) > 0 && (a.Port < 1 || a.Port > 65535):
		return Addresses{}, fmt.Errorf("agents cannot use HTTP: %s: %d is not a port; run \"grapnel install\" again with --via http", name, a.Port)
	}
	return a, nil
}

// Host returns the address that the daemon listens on.
func (a Addresses) Host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port)) }

// URL returns the address to which an agent sends the events of an installation.
func (a Addresses) URL(agent, id string) string {
	u := url.URL{Scheme: "http", Host: a.Host(), Path: addressPath + agent, RawQuery: url.Values{"installation": {id}}.Encode()}
	return u.String()
}

// with returns the addresses with guest id set to g, or without guest id if g is nil. If no guest
// is left, the port is removed.
func (a Addresses) with(id string, g *Guest, port int) Addresses {
	b := Addresses{Port: port, Guests: maps.Clone(a.Guests)}
	delete(b.Guests, id)
	if g != nil {
		if b.Guests == nil {
			b.Guests = map[string]Guest{}
		}
		b.Guests[id] = *g
	}
	if len(b.Guests) == 0 {
		return Addresses{}
	}
	return b
}

func (a Addresses) same(b Addresses) bool { return a.Port == b.Port && maps.Equal(a.Guests, b.Guests) }

// write writes the addresses. Without guests, it removes the file.
func (a Addresses) write(state string) error {
	if len(a.Guests) == 0 {
		if err := os.Remove(AddressesFile(state)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return writePrivate(AddressesFile(state), a)
}

// newSecret returns 256 random bits in base64.
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// The range of ports. It excludes the ports that systems assign to outgoing connections, because
// such a connection would prevent the daemon from listening.
const (
	minPort = 20000
	maxPort = 32767
)

// newPort returns a port that is not in use.
func newPort() (int, error) {
	var last error
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(maxPort-minPort+1))
		if err != nil {
			return 0, err
		}
		port := minPort + int(n.Int64())
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("no port of this machine is free for the daemon: %w", last)
}

// parseAddress reports whether an address in an agent's settings is from Grapnel, and returns the
// token of its installation.
func parseAddress(text string) (id string, ours bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() != "127.0.0.1" {
		return "", false
	}
	agent, ok := strings.CutPrefix(u.Path, addressPath)
	if _, known := overHTTP[agent]; !ok || !known {
		return "", false
	}
	id = u.Query().Get("installation")
	return id, installation.ValidID(id)
}

// reach returns how the agent of a job sends events over HTTP; nil = by command only.
func (s *session) reach(j *job, id, version string) (*Over, error) {
	was, asked := s.addresses.Guests[id]
	via := s.Via
	if via == "" && asked {
		via = ViaHTTP
	}
	j.via = cmp.Or(via, ViaCommand)
	how, can := overHTTP[j.agent.Name]
	switch {
	case via == "" || via == ViaCommand:
		return nil, nil
	case via != ViaHTTP:
		return nil, usagef("unknown value %q for --via, use %s or %s", via, ViaCommand, ViaHTTP)
	case !can:
		return nil, usagef("%s does not support HTTP hooks, only %s: install it without --via http", j.agent.Title, strings.Join(titlesOverHTTP(s.known), " and "))
	case s.Scope == Project:
		return nil, usagef("settings of a project are visible to everyone with its files, and they would contain the secret of the agent: --via http needs --scope user")
	case s.Scope == Managed:
		return nil, usagef("each user has a separate daemon, and the settings of root can contain only one: --via http needs --scope user")
	case version != "" && j.agent.Setup.StrictBefore != "" && older(version, j.agent.Setup.StrictBefore):
		return nil, fmt.Errorf("%s %s is too old for HTTP hooks: update it, or install without --via http", j.agent.Title, version)
	}
	if file := s.managedPolicy(); file != "" {
		return nil, fmt.Errorf("root's policy %s is in force here, and a daemon of this user is not trusted to enforce it: install without --via http, so that grapnel-hook enforces it", file)
	}
	if j.port = s.addresses.Port; j.port == 0 {
		var err error
		if j.port, err = newPort(); err != nil {
			return nil, err
		}
	}
	j.guest = &Guest{Agent: j.agent.Name, Secret: cmp.Or(was.Secret, newSecret()), Mode: was.Mode}
	o := &Over{URL: Addresses{Port: j.port}.URL(j.agent.Name, id), Secret: j.guest.Secret, Commands: maps.Clone(how.commands)}
	for event, hook := range s.Programs[j.agent.Name] {
		if _, stays := o.Commands[event]; !stays {
			o.Commands[event] = fmt.Sprintf("the hook %s starts a program, and programs run next to the agent, not in the daemon", hook)
		}
	}
	return o, nil
}

// managedPolicy returns the path of a policy by root for all users; empty = none found. The user
// owns a system directory below a Root, so the policies in it are ignored.
func (s *session) managedPolicy() string {
	if s.System != systemRoot {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(installation.Managed(s.System), "policy.d", "*.yaml"))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

func titlesOverHTTP(known []Agent) []string {
	var titles []string
	for _, a := range known {
		if _, can := overHTTP[a.Name]; can {
			titles = append(titles, a.Title)
		}
	}
	return titles
}

// hide makes the settings of a job unreadable for other users while they contain a secret, and
// restores their mode afterwards.
func (s *session) hide(j *job, c *Change) {
	target, info, err := resolve(c.File)
	there := err == nil && info != nil
	switch was := s.addresses.Guests[j.rec.ID]; {
	case j.guest == nil:
		if there && was.Mode != 0 && was.Mode != info.Mode().Perm() && c.After != nil {
			c.Mode = was.Mode
		}
	case !there:
		c.Perm, c.Exact = 0o600, true
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		if j.guest.Mode == 0 {
			j.guest.Mode = info.Mode().Perm()
		}
		c.Mode = info.Mode().Perm() &^ 0o077
		j.notes = append(j.notes, fmt.Sprintf("%s gets the mode %04o instead of %04o while it contains the secret", target, c.Mode, info.Mode().Perm()))
	}
}

// admit writes the new addresses before the settings are written, so that the daemon replies to
// an agent that reads its settings at once. back restores the old addresses.
func (s *session) admit(j *job) (back func() error, err error) {
	if j.guest == nil {
		return func() error { return nil }, nil
	}
	was := s.addresses
	return func() error { return s.keepAddresses(was) }, s.keepAddresses(was.with(j.rec.ID, j.guest, j.port))
}

// dismiss removes the guest of a job that no longer uses HTTP, after its entries were removed.
func (s *session) dismiss(j *job) error {
	ids := append(slices.Clone(j.stale), j.rec.ID)
	now := s.addresses
	for _, id := range ids {
		if j.guest == nil || id != j.rec.ID {
			now = now.with(id, nil, now.Port)
		}
	}
	return s.keepAddresses(now)
}

func (s *session) keepAddresses(now Addresses) error {
	if now.same(s.addresses) {
		return nil
	}
	if err := now.write(s.state); err != nil {
		return fmt.Errorf("cannot store the address for agents that use HTTP: %w", err)
	}
	s.addresses = now
	return nil
}

// mask masks the secrets in output for the user.
func (s *session) mask(j *job, text string) string {
	if j.guest != nil {
		text = strings.ReplaceAll(text, j.guest.Secret, "***")
	}
	for _, g := range s.addresses.Guests {
		if g.Secret != "" {
			text = strings.ReplaceAll(text, g.Secret, "***")
		}
	}
	return text
}

// allowedURLs is the setting of Claude Code that lists the addresses that hooks may use.
const allowedURLs = "allowedHttpHookUrls"

// Refuses reports whether a settings file prevents hooks from using an address: it has a list of
// allowed addresses without this one. tree is the result of [Settings].
func Refuses(tree map[string]any, address string) bool {
	list, ok := tree[allowedURLs].([]any)
	return ok && !slices.ContainsFunc(list, func(v any) bool {
		pattern, _ := v.(string)
		return globURL(pattern, address)
	})
}

// globURL matches a pattern in which * matches any text.
func globURL(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(text, parts[0])
	if len(parts) == 1 || !ok {
		return ok && rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		var found bool
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// Proxies returns the variables with which a settings file sends the requests of its agent to a
// proxy, or changes the exceptions. tree is the result of [Settings]. Seen live, 2.1.329: hooks
// over HTTP use the HTTP_PROXY that a project sets, unless NO_PROXY excepts them.
func Proxies(tree map[string]any) []string {
	env, _ := tree["env"].(map[string]any)
	var names []string
	for _, name := range sortedKeys(env) {
		if strings.HasSuffix(strings.ToLower(name), "_proxy") {
			names = append(names, name)
		}
	}
	return names
}

// Proxied returns the environment variable that sends requests of agents to this machine through
// a proxy; empty = none found.
func Proxied(env func(string) string) string {
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		for host := range strings.SplitSeq(env(name), ",") {
			if host = strings.TrimSpace(host); host == "127.0.0.1" || host == "*" {
				return ""
			}
		}
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if env(name) != "" {
			return name
		}
	}
	return ""
}

// refusals adds notes about settings that prevent the agent from using HTTP. If the settings of
// the job itself have such a list, it returns an error, because nothing would be guarded.
func (s *session) refusals(j *job, o *Over) error {
	if name := Proxied(s.Env); name != "" {
		j.notes = append(j.notes, fmt.Sprintf("%s sets a proxy, and %s calls the proxy instead of the daemon if NO_PROXY does not contain 127.0.0.1: set NO_PROXY where you start %s", name, j.agent.Title, j.agent.Title))
	}
	files := []string{j.file}
	for _, l := range j.agent.Layers(s.Home, s.ProjectDir, s.System, s.Env) {
		if !slices.Contains(files, l.File) {
			files = append(files, l.File)
		}
	}
	for _, file := range files {
		data, err := load(file)
		if err != nil || data == nil {
			continue
		}
		tree, err := Settings(file, data, false)
		if err != nil {
			continue
		}
		for _, name := range Proxies(tree) {
			j.notes = append(j.notes, fmt.Sprintf("%s: env.%s can send requests of %s to a proxy instead of the daemon; remove it", file, name, j.agent.Title))
		}
		if !Refuses(tree, o.URL) {
			continue
		}
		u, _ := url.Parse(o.URL)
		pattern := "http://" + u.Host + "/*"
		if file == j.file {
			return &FileError{
				File: file, Problem: allowedURLs + " lists the addresses that hooks may call, and the daemon is not on it, so nothing would be guarded",
				Hint: fmt.Sprintf("add %q to it, or install without --via http", pattern),
			}
		}
		j.notes = append(j.notes, fmt.Sprintf("%s: %s lists the addresses that hooks may call, and the daemon is not on it, so nothing is guarded where this file applies; add %q to it", file, allowedURLs, pattern))
	}
	return nil
}

// costs returns the disadvantages of an installation over HTTP.
func (s *session) costs(j *job, o *Over, events []string) []string {
	a := j.agent
	without := fmt.Sprintf("while the daemon does not run, nothing is guarded: %s shows an error and continues. Keep \"grapnel serve\" running, or block instead with --fail-closed", a.Title)
	if j.closed {
		var open []string
		for _, ev := range a.Events {
			if slices.Contains(events, ev.Native) && o.asks(ev.Native) && !ev.Closed && ev.Can.Block {
				open = append(open, ev.Native)
			}
		}
		without = fmt.Sprintf("while the daemon does not run, %s blocks every call, prompt and permission from version %s on; older versions continue unguarded, and these events always do: %s",
			a.Title, a.Setup.ClosedSince, strings.Join(open, ", "))
	}
	u, _ := url.Parse(o.URL)
	lines := []string{
		without,
		fmt.Sprintf("while the daemon does not run, any program on this machine, also of other users, can listen on %s: it then sees the agent's events and answers them instead of the daemon", u.Host),
		fmt.Sprintf("the secret of %s is in %s: a program that can read that file can call the daemon and create records of events that never happened", a.Title, j.file),
		fmt.Sprintf("a project that %s trusts can redirect the requests with a proxy in the `env` of its settings, or forbid them with %s: neither affects an installation that starts grapnel-hook", a.Title, allowedURLs),
		"the agent's environment variables do not reach the hooks: workers, `env:` and PATH use the daemon's environment",
	}
	var stays []string
	for _, ev := range events {
		if why, ok := o.Commands[ev]; ok {
			stays = append(stays, fmt.Sprintf("%s (%s)", ev, why))
		}
	}
	if len(stays) > 0 {
		lines = append(lines, "these events still start grapnel-hook: "+strings.Join(stays, ", "))
	}
	return append(lines, "a hook that starts a program at any other event always fails, and its on_error decides; this includes hooks of projects and hooks added later. Install again after you add such a hook")
}

// admitted reports whether the addresses are already as the job needs them.
func (s *session) admitted(j *job) bool {
	return s.addresses.with(j.rec.ID, j.guest, cmp.Or(j.port, s.addresses.Port)).same(s.addresses)
}

// Shows reports whether an entry over HTTP contains a secret.
func (f *Found) Shows(secret string) bool {
	var entry struct {
		Headers map[string]string `json:"headers"`
	}
	return json.Unmarshal(f.Entry, &entry) == nil && entry.Headers["Authorization"] == "Bearer "+secret
}

// Asks reports whether an entry of Grapnel sends events over HTTP.
func (f *Found) Asks() bool {
	_, asks := parseAddress(f.Command)
	return f.Ours && asks
}
