package bundle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A machine pulls policies from a server of the test.
type machine struct {
	*Puller
	t   *testing.T
	url string

	mu      sync.Mutex
	policy  http.HandlerFunc // guarded by mu
	content map[string]string
	asked   []string // guarded by mu: the path of each request, and "not" if it was conditional
	waits   int
	now     time.Time
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	place, err := local.Locate(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, content: map[string]string{}, now: today}
	server := httptest.NewTLSServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL + "/policy.yaml"
	m.Puller = &Puller{
		Place: place,
		Client: outbound.NewClient(&outbound.Options{
			RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
			Guard:   outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		}),
		Now:  func() time.Time { return m.now },
		Wait: func(context.Context) error { m.waits++; return nil },
	}
	write(t, KeysFile(place), string(read(t, "testdata/plain.pub")))
	return m
}

// ServeHTTP serves content, with the length of the content and its first line as its version.
func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := r.URL.Path
	if r.Header.Get("If-None-Match") != "" {
		asked += " if changed"
	}
	m.asked = append(m.asked, asked)
	if m.policy != nil {
		m.policy(w, r)
		return
	}
	text, ok := m.content[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", text[max(0, len(text)-40):])))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// textOf returns a policy whose rule blocks with a reason.
func textOf(revision int, expires, reason string) string {
	return fmt.Sprintf("version: 1\nrevision: %d\nexpires: %s\nhooks:\n  - {name: rule, on: tool.before, block: %s}\n", revision, expires, reason)
}

func (m *machine) publish(text string) { m.publishBy(plainKey(m.t), "policy.yaml", text) }

func (m *machine) publishBy(key minisign.PrivateKey, name, text string) {
	m.t.Helper()
	signed, err := Sign(key, name, []byte(text), m.now.AddDate(-50, 0, 0))
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.content["/policy.yaml"], m.content["/policy.yaml"+Suffix] = text, string(signed.Signature())
}

// pulls checks that a pull puts a policy in force.
func (m *machine) pulls(what, text string, changed bool) {
	m.t.Helper()
	got, err := m.Pull(m.t.Context(), m.url)
	if err != nil || got.Changed != changed {
		m.t.Fatalf("%s: %+v, %v, hint %q, want changed %v", what, got, err, cli.HintOf(err), changed)
	}
	m.inForce(what, text)
}

// refuses checks that a pull fails with an error that has a hint, and changes no file in force.
func (m *machine) refuses(what, want, inForce string) {
	m.t.Helper()
	got, err := m.Pull(m.t.Context(), m.url)
	if err == nil || !strings.Contains(err.Error(), want) || cli.HintOf(err) == "" {
		m.t.Errorf("%s: %+v, %v (hint %q), want an error with %q and a hint", what, got, err, cli.HintOf(err), want)
	}
	if err != nil && strings.Contains(err.Error(), "stays in force") != (inForce != "") {
		m.t.Errorf("%s: the error %q does not say what is in force", what, err)
	}
	m.inForce(what, inForce)
}

// inForce checks the policy in force: its content, and that it is loaded.
func (m *machine) inForce(what, text string) {
	m.t.Helper()
	data, err := os.ReadFile(Active(m.Place))
	if text == "" && err == nil || text != "" && string(data) != text {
		m.t.Errorf("%s: in force is %q, %v, want %q", what, data, err, text)
	}
	if text == "" {
		return
	}
	if s, err := Verify(m.Place, "", Active(m.Place), m.now.AddDate(-50, 0, 0)); err != nil && !strings.Contains(err.Error(), "not accepted here") {
		m.t.Errorf("%s: the signature in force: %+v, %v", what, s, err)
	}
	set := load.Policies(m.Place.Request(m.Place.ManagedFiles(), policy.Runners{}))
	if len(set.Files) != 1 || set.Files[0].State != load.Valid {
		m.t.Errorf("%s: loaded %+v", what, set.Files)
	}
}

func TestPull(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first, second := textOf(1, "2031-12-31", "first"), textOf(2, "2031-12-31", "second")
	m.refuses("nothing is published", "cannot download the policy", "")
	m.publish(first)
	m.pulls("the first", first, true)
	m.pulls("the same", first, false)
	if last := m.asked[len(m.asked)-2:]; last[0] != "/policy.yaml if changed" || last[1] != "/policy.yaml"+Suffix {
		t.Errorf("requests for a known version: %q", last)
	}
	m.publish(second)
	m.pulls("the second", second, true)
	for _, file := range []string{"signed.json", "signed.lock"} {
		if info, err := os.Stat(in(m.Place, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	for _, file := range []string{Active(m.Place), Active(m.Place) + Suffix} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	m.policy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+strings.Repeat("x", 60<<10)+`"`)
		_, _ = w.Write([]byte(m.content[r.URL.Path]))
	}
	m.pulls("a version that fills the state", second, false)
	m.policy = nil
	write(t, Active(m.Place), "version: 1\n")
	m.pulls("after a change by hand", second, true)
	if err := os.Remove(Active(m.Place) + Suffix); err != nil {
		t.Fatal(err)
	}
	m.pulls("without its signature", second, false)
}

// A server, or an attacker at the server, cannot put another policy in force, nor an old one.
func TestPullRefuses(t *testing.T) {
	t.Parallel()
	good := textOf(5, "2031-12-31", "good")
	_, strangersKey, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		attack func(m *machine)
		want   string
	}{
		"older":               {func(m *machine) { m.publish(textOf(4, "2031-12-31", "old")) }, "revision 4 is older than revision 5"},
		"other content":       {func(m *machine) { m.publish(textOf(5, "2031-12-31", "other")) }, "revision 5 has other content than the revision 5"},
		"expired":             {func(m *machine) { m.publish(textOf(6, "2031-05-31", "late")) }, "revision 6 expired at 2031-06-01"},
		"key of a stranger":   {func(m *machine) { m.publishBy(strangersKey, "policy.yaml", textOf(6, "2031-12-31", "no")) }, "which is not accepted here"},
		"policy of others":    {func(m *machine) { m.publishBy(plainKey(t), "laptops.yaml", textOf(6, "2031-12-31", "no")) }, `file "laptops.yaml", not "policy.yaml"`},
		"changed":             {func(m *machine) { m.content["/policy.yaml"] = textOf(6, "2031-12-31", "no") }, "do not match, also at the second attempt"},
		"changed signature":   {func(m *machine) { m.content["/policy.yaml"+Suffix] = string(read(t, "testdata/prehashed.minisig")) }, "do not match"},
		"no signature":        {func(m *machine) { delete(m.content, "/policy.yaml"+Suffix) }, "cannot download the signature"},
		"a page as signature": {func(m *machine) { m.content["/policy.yaml"+Suffix] = "<html>" }, "does not have the format"},
		"large policy":        {func(m *machine) { m.content["/policy.yaml"] = strings.Repeat("#", yaml.MaxSize+1) }, "is larger than"},
		"large signature":     {func(m *machine) { m.content["/policy.yaml"+Suffix] = strings.Repeat("#", 1<<20) }, "is larger than"},
		"empty":               {func(m *machine) { m.content["/policy.yaml"] = "" }, "do not match"},
		"redirect": {func(m *machine) {
			m.policy = http.RedirectHandler("https://169.254.169.254/", http.StatusFound).ServeHTTP
		}, "redirect"},
		"error of the server": {func(m *machine) { m.policy = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) } }, "status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.publish(good)
			m.pulls("good", good, true)
			tt.attack(m)
			m.refuses(name, tt.want, good)
			m.policy = nil
			m.publish(textOf(6, "2031-12-31", "next"))
			m.pulls("afterwards", textOf(6, "2031-12-31", "next"), true)
		})
	}
}

// The highest revision is remembered if the policy or the state is removed.
func TestPullRemembers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.publish(textOf(5, "2031-12-31", "good"))
	m.pulls("good", textOf(5, "2031-12-31", "good"), true)
	m.publish(textOf(4, "2031-12-31", "old"))
	if err := os.Remove(Active(m.Place)); err != nil {
		t.Fatal(err)
	}
	m.refuses("without the policy", "older than revision 5", "")
	m.publish(textOf(5, "2031-12-31", "other"))
	m.refuses("without the policy", "other content", "")
	m.publish(textOf(5, "2031-12-31", "good"))
	m.pulls("the same again", textOf(5, "2031-12-31", "good"), true)
	if err := os.Remove(in(m.Place, "signed.json")); err != nil {
		t.Fatal(err)
	}
	m.publish(textOf(4, "2031-12-31", "old"))
	m.refuses("without the state", "older than revision 5", textOf(5, "2031-12-31", "good"))
	write(t, in(m.Place, "signed.json"), "{\"revision\":")
	if _, err := m.Pull(t.Context(), m.url); err == nil || !strings.Contains(err.Error(), "cannot read the last accepted revision") || cli.HintOf(err) == "" {
		t.Errorf("with a broken state: %v", err)
	}
}

// An expired policy stays in force, and each pull reports it.
func TestPullExpires(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	text := textOf(5, "2031-12-31", "good")
	m.publish(text)
	m.pulls("good", text, true)
	m.now = today.AddDate(1, 0, 0)
	m.refuses("a year later", "revision 5 expired at 2032-01-01T00:00:00Z", text)
	set := load.Policies(m.Place.Request(m.Place.ManagedFiles(), policy.Runners{}))
	if got := set.Revision(m.now); got != "5 (expired)" {
		t.Errorf("Records name the revision %q", got)
	}
}

// During a rotation both keys are accepted. Then a policy of the old key is refused, also the one in
// force, until the new key signs it.
func TestPullRotatesKeys(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	next, nextKey, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	line, err := next.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(5, "2031-12-31", "good")
	m.publish(text)
	m.pulls("the old key", text, true)
	write(t, KeysFile(m.Place), string(read(t, "testdata/plain.pub"))+string(line)+"\n")
	m.pulls("both keys", text, false)
	m.publishBy(nextKey, "policy.yaml", text)
	m.pulls("the new key", text, false)
	m.publish(text)
	m.pulls("the old key again", text, false)
	write(t, KeysFile(m.Place), string(line)+"\n")
	m.refuses("the old key was removed", "AFE77F1446BFDE0, which is not accepted here", text)
	m.publishBy(nextKey, "policy.yaml", text)
	m.pulls("only the new key", text, false)
	if err := os.Remove(KeysFile(m.Place)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Pull(t.Context(), m.url); err == nil || !strings.Contains(err.Error(), "keys.pub does not exist") {
		t.Errorf("without keys: %v", err)
	}
}

// The server replaces its files while they are downloaded.
func TestPullRetries(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	text := textOf(5, "2031-12-31", "good")
	m.publish(text)
	m.pulls("good", text, true)
	old := m.content["/policy.yaml"+Suffix]
	m.publish(textOf(6, "2031-12-31", "next"))
	now := m.content["/policy.yaml"+Suffix]
	m.content["/policy.yaml"+Suffix] = old
	m.Wait = func(context.Context) error {
		m.waits++
		m.content["/policy.yaml"+Suffix] = now
		return nil
	}
	m.pulls("the signature is late", textOf(6, "2031-12-31", "next"), true)
	m.publish(textOf(7, "2031-12-31", "third"))
	third := m.content["/policy.yaml"]
	m.content["/policy.yaml"] = textOf(6, "2031-12-31", "next")
	m.Wait = func(context.Context) error {
		m.waits++
		m.content["/policy.yaml"] = third
		return nil
	}
	m.pulls("the policy is late", third, true)
	if m.waits != 2 {
		t.Errorf("%d second attempts, want 2", m.waits)
	}
	m.content["/policy.yaml"] += "\n"
	stopped := errors.New("stopped")
	m.Wait = func(context.Context) error { return stopped }
	if _, err := m.Pull(t.Context(), m.url); !errors.Is(err, stopped) {
		t.Errorf("stopped while it waits: %v", err)
	}
}

// A signed policy that this version cannot use does not become active.
func TestPullChecksPolicy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	good := textOf(5, "2031-12-31", "good")
	m.publish(good)
	m.pulls("good", good, true)
	for name, tt := range map[string]struct{ text, want string }{
		"unknown key":         {textOf(6, "2031-12-31", "x") + "magic: 1\n", `unknown key "magic"`},
		"missing file":        {textOf(6, "2031-12-31", "x") + "secrets: {rules: [none.toml]}\n", "none.toml"},
		"groups not readable": {strings.Replace(textOf(6, "2031-12-31", "x"), "block:", "groups: [canary], block:", 1), "cannot read the groups"},
	} {
		if err := os.MkdirAll(m.Place.GroupsFile(), 0o755); err != nil {
			t.Fatal(err)
		}
		sum := minisign.NewReader(strings.NewReader(tt.text))
		if _, err := sum.Read(make([]byte, len(tt.text))); err != nil {
			t.Fatal(err)
		}
		m.content["/policy.yaml"] = tt.text
		m.content["/policy.yaml"+Suffix] = string(sum.SignWithComments(plainKey(t), "file:policy.yaml", "x"))
		m.refuses(name, tt.want, good)
	}
}

// A pull that is killed between its writes is completed by the next one, and never accepts less.
func TestPullIsKilled(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first, second := textOf(5, "2031-12-31", "good"), textOf(6, "2031-12-31", "next")
	m.publish(first)
	m.pulls("first", first, true)
	before := map[string]string{}
	files := []string{in(m.Place, "signed.json"), Active(m.Place) + Suffix, Active(m.Place)} // in the order of the writes
	for _, file := range files {
		before[file] = string(read(t, file))
	}
	m.publish(second)
	m.pulls("second", second, true)
	for written := range files {
		for _, file := range files[written:] {
			write(t, file, before[file])
		}
		if data := string(read(t, Active(m.Place))); data != first {
			t.Fatalf("after %d writes: in force is %q", written, data)
		}
		m.publish(first)
		if written > 0 {
			if _, err := m.Pull(t.Context(), m.url); err == nil || !strings.Contains(err.Error(), "older than revision 6") {
				t.Errorf("after %d writes, the old policy: %v", written, err)
			}
		}
		m.publish(second)
		m.pulls(fmt.Sprintf("after %d writes", written), second, true)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(Active(m.Place)), ".new-*"))
	if err != nil || left != nil {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

func TestPullLocks(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.publish(textOf(5, "2031-12-31", "good"))
	m.pulls("first", textOf(5, "2031-12-31", "good"), true)
	f, err := os.OpenFile(in(m.Place, "signed.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := files.TryLock(f, files.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Pull(t.Context(), m.url); !errors.Is(err, files.ErrLocked) {
		t.Errorf("at the same time: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	m.pulls("afterwards", textOf(5, "2031-12-31", "good"), false)
}

func TestPullURL(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.publish(textOf(5, "2031-12-31", "good"))
	m.Client.Set(outbound.Guard{}, nil)
	for url, want := range map[string]string{
		"https://config.example.com":           "does not end in the name",
		"https://config.example.com/policies/": "does not end in the name",
		"file:///etc/grapnel/policy.yaml":      `scheme "file" is not allowed`,
		"http://config.example.com/p.yaml":     `scheme "http" is not allowed`,
		"https://10.0.0.1/p.yaml":              "is private",
		"https://169.254.169.254/p.yaml":       "cloud providers serve credentials",
		"https://localhost/p.yaml":             "local",
		m.url:                                  "is loopback",
		"policy.yaml":                          "https://",
	} {
		got, err := m.Pull(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), want) || cli.HintOf(err) == "" {
			t.Errorf("%s: %+v, %v, want %q and a hint", url, got, err, want)
		}
	}
	for from, want := range map[string]string{
		"https://x/p.yaml": "https://x/p.yaml.minisig", "https://x/p.yaml?token=a/b": "https://x/p.yaml.minisig?token=a/b",
	} {
		if got := signatureURL(from); got != want {
			t.Errorf("signature of %s: %s", from, got)
		}
	}
	if m.asked != nil || files.Exists(Active(m.Place)) {
		t.Errorf("requests %q", m.asked)
	}
}
