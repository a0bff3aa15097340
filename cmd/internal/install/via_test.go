package install

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// overOf returns the description of HTTP hooks of an agent; nil = the agent has none.
func overOf(a Agent) *Over {
	how, can := overHTTP[a.Name]
	if !can {
		return nil
	}
	return &Over{URL: Addresses{Port: 24100}.URL(a.Name, tokenA), Secret: "c2VjcmV0", Commands: how.commands}
}

func (m *machine) overHTTP() Request {
	req := m.request("claude-code")
	req.Via = ViaHTTP
	return req
}

func (m *machine) addresses() Addresses {
	m.t.Helper()
	a, err := ReadAddresses(m.state)
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

// byEvent returns the handlers in the settings, by event.
func (m *machine) byEvent() map[string]map[string]any {
	m.t.Helper()
	var settings struct {
		Hooks map[string][]struct{ Hooks []map[string]any }
	}
	if err := json.Unmarshal([]byte(m.read(filepath.Join(m.home, ".claude", "settings.json"))), &settings); err != nil {
		m.t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for event, groups := range settings.Hooks {
		all[event] = groups[0].Hooks[0]
	}
	return all
}

func TestOverHTTP(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	settings := filepath.Join(m.home, ".claude", "settings.json")
	m.write(settings, "{\n\t\"model\": \"opus\"\n}\n")
	before := tree(t, m.home)

	req := m.overHTTP()
	req.FailClosed = true
	req.Programs = map[string]map[string]string{"claude-code": {"PostToolUse": "gofmt"}}
	res := m.install(req)
	guests := m.addresses()
	if len(guests.Guests) != 1 || guests.Port < minPort || guests.Port > maxPort {
		t.Fatalf("addresses: %+v", guests)
	}
	id := m.records()[0].ID
	guest := guests.Guests[id]
	if raw, err := base64.RawURLEncoding.DecodeString(guest.Secret); err != nil || len(raw) != 32 {
		t.Errorf("secret %q: %d bytes, %v", guest.Secret, len(raw), err)
	}
	commands := []string{"SessionStart", "Setup", "PostToolUse", "TaskCompleted", "TeammateIdle"}
	if diff := cmp.Diff(commands, res.Files[0].Commands); diff != "" {
		t.Errorf("events that stay commands (-want +got):\n%s", diff)
	}
	for event, h := range m.byEvent() {
		want := map[string]any{"type": "http", "url": guests.URL("claude-code", id), "timeout": 60.0, "headers": map[string]any{"Authorization": "Bearer " + guest.Secret}}
		if strings.Contains(strings.Join(commands, " "), event) {
			want = map[string]any{"type": "command", "command": m.program + " --id " + id, "timeout": 60.0}
		}
		switch event {
		case "UserPromptSubmit", "PreToolUse", "PermissionRequest":
			want["onFailure"] = "block"
		case "SessionEnd":
			want["timeout"] = 3.0
		}
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("%s (-want +got):\n%s", event, diff)
		}
	}
	if shown, err := json.Marshal(res); err != nil || strings.Contains(string(shown), guest.Secret) {
		t.Errorf("what people are shown has the secret in it: %s", shown)
	}
	costs := strings.Join(res.Costs, "\n")
	for _, want := range []string{"while the daemon does not run", "also of other users", "secret", "environment", "SessionStart", "PostToolUse (the hook gofmt starts a program", "proxy", "blocks every call"} {
		if !strings.Contains(costs, want) {
			t.Errorf("the costs do not name %q:\n%s", want, costs)
		}
	}
	for _, name := range []string{settings, AddressesFile(m.state)} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}

	// Again, without Via: nothing changes, and the secret stays.
	at := m.read(settings)
	again := m.request("claude-code")
	again.FailClosed, again.Programs = true, req.Programs
	if res := m.install(again); res.Changed() || len(res.Costs) != 0 || m.read(settings) != at {
		t.Errorf("installing again changed something: %s", res.Files[0].Diff)
	}
	if diff := cmp.Diff(guests, m.addresses()); diff != "" {
		t.Errorf("installing again changed the addresses:\n%s", diff)
	}

	// The policy has no program any more: this event uses HTTP too.
	again.Programs = nil
	if res := m.install(again); !res.Changed() || m.byEvent()["PostToolUse"]["type"] != "http" {
		t.Errorf("PostToolUse is %v", m.byEvent()["PostToolUse"])
	}

	// Back to the command: no part of HTTP is left.
	back := m.request("claude-code")
	back.Via = ViaCommand
	m.install(back)
	if text := m.read(settings); strings.Contains(text, "http") || strings.Contains(text, guest.Secret) {
		t.Errorf("by the command, the settings hold %s", text)
	}
	if got := m.addresses(); len(got.Guests) != 0 || got.Port != 0 {
		t.Errorf("by the command, the addresses are %+v", got)
	}
	m.install(m.overHTTP())
	m.uninstall(m.request("claude-code"))
	if diff := cmp.Diff(before, tree(t, m.home)); diff != "" {
		t.Errorf("uninstall left (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(AddressesFile(m.state)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the addresses are still there: %v", err)
	}
}

// A dry run writes no file, and reports the changes.
func TestOverHTTPDryRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := tree(t, m.home, m.state)
	req := m.overHTTP()
	req.DryRun = true
	res := m.install(req)
	if diff := cmp.Diff(before, tree(t, m.home, m.state)); diff != "" {
		t.Errorf("a dry run wrote:\n%s", diff)
	}
	if len(res.Costs) == 0 || !strings.Contains(res.Files[0].Diff, `"Bearer ***"`) {
		t.Errorf("costs %q, diff %s", res.Costs, res.Files[0].Diff)
	}
}

func TestOverHTTPRefused(t *testing.T) {
	t.Parallel()
	settings := func(text string) func(m *machine, req *Request) {
		return func(m *machine, _ *Request) { m.write(filepath.Join(m.home, ".claude", "settings.json"), text) }
	}
	tests := map[string]struct {
		with func(m *machine, req *Request)
		want string
	}{
		"another agent":    {func(_ *machine, req *Request) { req.Agents = []string{"gemini-cli"} }, "Gemini CLI does not support HTTP hooks, only Claude Code"},
		"a project":        {func(m *machine, req *Request) { req.Scope, req.ProjectDir = Project, m.project }, "--scope user"},
		"managed":          {func(_ *machine, req *Request) { req.Scope = Managed }, "--scope user"},
		"another way":      {func(_ *machine, req *Request) { req.Via = "pigeon" }, "unknown value"},
		"an old version":   {func(_ *machine, req *Request) { req.Versions["claude-code"] = "2.1.100" }, "too old"},
		"not on the list":  {settings(`{"allowedHttpHookUrls": ["https://hooks.example.com/*"]}`), "allowedHttpHookUrls"},
		"an empty list":    {settings(`{"allowedHttpHookUrls": []}`), "allowedHttpHookUrls"},
		"broken settings":  {settings(`{`), "settings.json:1"},
		"a second program": {func(m *machine, req *Request) { req.Program = filepath.Join(m.home, "none") }, "none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			req := m.overHTTP()
			tt.with(m, &req)
			before := tree(t, m.home, m.project)
			res, err := Install(context.Background(), req)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want an error with %q", res, err, tt.want)
			}
			if diff := cmp.Diff(before, tree(t, m.home, m.project)); diff != "" {
				t.Errorf("it wrote:\n%s", diff)
			}
			if len(m.addresses().Guests) != 0 {
				t.Error("somebody may ask")
			}
		})
	}
}

// If the settings cannot be written, no secret is valid, and an earlier installation stays
// unchanged.
func TestOverHTTPTakenBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	settings := filepath.Join(m.home, ".claude", "settings.json")
	m.write(settings, "{}\n")
	req := m.overHTTP()
	req.Confirm = func(*Result, []FileResult) (bool, error) { // another program writes at this moment
		m.write(settings, "{\"model\": \"x\"}\n")
		return true, nil
	}
	if _, err := Install(context.Background(), req); !errors.Is(err, ErrChanged) {
		t.Fatalf("got %v", err)
	}
	if a := m.addresses(); len(a.Guests) != 0 || len(m.records()) != 0 {
		t.Errorf("left: %+v, %v", a, m.records())
	}
	m.install(m.overHTTP())
	was := m.addresses()
	req = m.request("claude-code")
	req.Via, req.Confirm = ViaCommand, func(*Result, []FileResult) (bool, error) {
		m.write(settings, m.read(settings)+"\n")
		return true, nil
	}
	if _, err := Install(context.Background(), req); !errors.Is(err, ErrChanged) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(was, m.addresses()); diff != "" {
		t.Errorf("the entries still ask, and the addresses have changed:\n%s", diff)
	}
}

// Entries over HTTP are recognized without a record too.
func TestOverHTTPWithoutRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	settings := filepath.Join(m.home, ".claude", "settings.json")
	m.install(m.overHTTP())
	if err := os.RemoveAll(m.state); err != nil {
		t.Fatal(err)
	}
	m.uninstall(m.request("claude-code"))
	if text, err := os.ReadFile(settings); err == nil && strings.Contains(string(text), "v1/hooks") {
		t.Errorf("left: %s", text)
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	ours := map[string]bool{
		"http://127.0.0.1:24100/v1/hooks/claude-code?installation=" + tokenA:             true,
		"http://127.0.0.1:1/v1/hooks/claude-code?installation=" + tokenA:                 true,
		"https://127.0.0.1:24100/v1/hooks/claude-code?installation=" + tokenA:            false,
		"http://example.com/v1/hooks/claude-code?installation=" + tokenA:                 false,
		"http://127.0.0.1.example.com/v1/hooks/claude-code?installation=" + tokenA:       false,
		"http://127.0.0.1:24100@example.com/v1/hooks/claude-code?installation=" + tokenA: false,
		"http://127.0.0.1:24100/v1/hooks/codex?installation=" + tokenA:                   false,
		"http://127.0.0.1:24100/v1/hooks/claude-code?installation=../x":                  false,
		"http://127.0.0.1:24100/v1/hooks/claude-code":                                    false,
		"http://127.0.0.1:24100/other?installation=" + tokenA:                            false,
		"":           false,
		"http://%zz": false,
	}
	for address, want := range ours {
		if id, got := parseAddress(address); got != want || got && id != tokenA {
			t.Errorf("parseAddress(%q) = %q, %v, want %v", address, id, got, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	const address = "http://127.0.0.1:24100/v1/hooks/claude-code?installation=" + tokenA
	for text, want := range map[string]bool{
		`{}`: false, `{"allowedHttpHookUrls": "x"}`: false,
		`{"allowedHttpHookUrls": []}`:                                true,
		`{"allowedHttpHookUrls": [7]}`:                               true,
		`{"allowedHttpHookUrls": ["http://127.0.0.1:24100/*"]}`:      false,
		`{"allowedHttpHookUrls": ["x", "*"]}`:                        false,
		`{"allowedHttpHookUrls": ["http://127.0.0.1:24101/*"]}`:      true,
		`{"allowedHttpHookUrls": ["http://127.0.0.1:24100"]}`:        true,
		`{"allowedHttpHookUrls": ["http://*/v1/*/claude-code?*aa"]}`: false,
		`{"allowedHttpHookUrls": ["http://*/v2/*/claude-code?*aa"]}`: true,
		`{"allowedHttpHookUrls": ["` + address + `"]}`:               false,
		`{"allowedHttpHookUrls": ["http://127.0.0.1:24100/*/b"]}`:    true,
		`{"allowedHttpHookUrls": ["https://127.0.0.1:24100/*", ""]}`: true,
	} {
		var settings map[string]any
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			t.Fatal(err)
		}
		if got := Refuses(settings, address); got != want {
			t.Errorf("Refuses(%s) = %v, want %v", text, got, want)
		}
	}
}

func TestProxied(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"HTTP_PROXY": "http://p"}, "HTTP_PROXY"},
		{map[string]string{"http_proxy": "http://p", "NO_PROXY": "example.com"}, "http_proxy"},
		{map[string]string{"HTTP_PROXY": "http://p", "NO_PROXY": "example.com, 127.0.0.1"}, ""},
		{map[string]string{"ALL_PROXY": "http://p", "no_proxy": "*"}, ""},
		{map[string]string{"HTTPS_PROXY": "http://p"}, ""},
	} {
		if got := Proxied(func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("Proxied(%v) = %q, want %q", tt.env, got, tt.want)
		}
	}
	settings := map[string]any{"env": map[string]any{"HTTP_PROXY": "x", "no_proxy": "", "PATH": "x"}}
	if diff := cmp.Diff([]string{"HTTP_PROXY", "no_proxy"}, Proxies(settings)); diff != "" {
		t.Error(diff)
	}
}

// If other users can read a file of secrets, or own it, no secret is valid.
func TestReadAddresses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it keeps no such bits")
	}
	good := Addresses{Port: 24100, Guests: map[string]Guest{tokenA: {Agent: "claude-code", Secret: "s"}}}
	for name, with := range map[string]func(file string) error{
		"group can read":   func(file string) error { return os.Chmod(file, 0o640) },
		"others can write": func(file string) error { return os.Chmod(file, 0o602) },
		"no JSON":          func(file string) error { return os.WriteFile(file, []byte("{"), 0o600) },
		"is not a port":    func(file string) error { return os.WriteFile(file, []byte(`{"guests": {"a": {}}}`), 0o600) },
		"a wide port": func(file string) error {
			return os.WriteFile(file, []byte(`{"port": 70000, "guests": {"a": {}}}`), 0o600)
		},
		"too large": func(file string) error { return os.Truncate(file, 2<<20) },
		"a directory": func(file string) error {
			return errors.Join(os.Remove(file), os.Mkdir(file, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			if err := good.write(state); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadAddresses(state); err != nil || !maps.Equal(got.Guests, good.Guests) {
				t.Fatalf("ReadAddresses = %+v, %v", got, err)
			}
			if err := with(AddressesFile(state)); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadAddresses(state); err == nil || len(got.Guests) != 0 {
				t.Errorf("ReadAddresses = %+v, %v, want an error and nobody", got, err)
			}
		})
	}
	if got, err := ReadAddresses(t.TempDir()); err != nil || len(got.Guests) != 0 {
		t.Errorf("without a file: %+v, %v", got, err)
	}
}
