package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

const (
	tokenTime   = 2 * time.Minute     // how long a link is valid
	browserTime = 30 * 24 * time.Hour // how long a browser is known
	codeTime    = 5 * time.Minute     // how long a code is valid
	maxBrowsers = 20                  // known browsers; a new one replaces the oldest
	maxTokens   = 20                  // unused links, likewise
	maxTries    = 5                   // wrong codes until all codes end
)

// A browser may see the pages. Its secrets are stored as hashes, because other processes of the
// user can read the file.
type browser struct {
	Cookie string    `json:"cookie"`
	Key    string    `json:"key,omitempty"` // that approvals need; empty = not confirmed by a person
	Name   string    `json:"name"`          // the browser's description of itself
	Since  time.Time `json:"since"`
}

// A code lets a person confirm a browser and its key.
type code struct {
	cookie, key string // hashes
	until       time.Time
}

// logins knows the port of the pages and the browsers that may see them, also after a restart of
// the daemon. Links and codes end with the daemon.
type logins struct {
	file string
	now  func() time.Time

	mu     sync.Mutex
	stored struct {
		Port     int       `json:"port"`
		Browsers []browser `json:"browsers"`
	}
	tokens map[string]time.Time // end of validity by hash
	codes  map[string]code
	wrong  int // tries since the last right code
}

// newLogins reads the file, if it exists. An unreadable file means that no browser is known.
func newLogins(file string, now func() time.Time) (*logins, error) {
	l := &logins{file: file, now: now, tokens: map[string]time.Time{}, codes: map[string]code{}}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &l.stored)
	}
	if err != nil {
		l.stored.Port, l.stored.Browsers = 0, nil
		return l, fmt.Errorf("cannot read the known browsers: %w", err)
	}
	return l, nil
}

// save writes the file. The caller holds mu.
func (l *logins) save() error {
	raw, err := json.Marshal(&l.stored)
	if err == nil {
		err = files.Write(l.file, raw, 0o600)
	}
	return err
}

// setPort stores the port. If it changed, no browser is known any more: another program on the old
// port may have read their cookies and keys.
func (l *logins) setPort(port int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if port == l.stored.Port {
		return nil
	}
	l.stored.Port, l.stored.Browsers = port, nil
	return l.save()
}

// port returns the stored port, 0 if none, and whether a browser is known.
func (l *logins) port() (port int, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored.Port, slices.ContainsFunc(l.stored.Browsers, func(b browser) bool { return l.now().Sub(b.Since) < browserTime })
}

// token returns a new token for a link.
func (l *logins) token() string {
	token := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest string
	for hash, until := range l.tokens {
		switch {
		case !l.now().Before(until):
			delete(l.tokens, hash)
		case oldest == "" || until.Before(l.tokens[oldest]):
			oldest = hash
		}
	}
	if len(l.tokens) >= maxTokens {
		delete(l.tokens, oldest)
	}
	l.tokens[hashOf(token)] = l.now().Add(tokenTime)
	return token
}

// useToken reports whether a token is valid. It is not valid again.
func (l *logins) useToken(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.tokens[hashOf(token)]
	delete(l.tokens, hashOf(token))
	return ok && l.now().Before(until)
}

// add stores a new browser and returns its cookie.
func (l *logins) add(name string) (cookie string, err error) {
	cookie = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.DeleteFunc(l.stored.Browsers, func(b browser) bool { return l.now().Sub(b.Since) >= browserTime })
	known = append(known, browser{Cookie: hashOf(cookie), Name: wording.Shorten(name, 200), Since: l.now().UTC().Truncate(time.Second)})
	l.stored.Browsers = known[max(0, len(known)-maxBrowsers):]
	return cookie, l.save()
}

// find returns the browser with a cookie.
func (l *logins) find(cookie string) (browser, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := hashOf(cookie)
	i := slices.IndexFunc(l.stored.Browsers, func(b browser) bool { return b.Cookie == hash && l.now().Sub(b.Since) < browserTime })
	if i < 0 {
		return browser{}, false
	}
	return l.stored.Browsers[i], true
}

// code returns a new code for a browser and the key that its page has made. It replaces the
// browser's earlier code.
func (l *logins) code(cookie, key string) (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(100_000_000))
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%04d-%04d", n.Int64()/10_000, n.Int64()%10_000)
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, c := range l.codes {
		if c.cookie == hashOf(cookie) || !l.now().Before(c.until) {
			delete(l.codes, other)
		}
	}
	l.codes[text] = code{cookie: hashOf(cookie), key: hashOf(key), until: l.now().Add(codeTime)}
	return text, nil
}

// errCode is why a code does not confirm a browser.
var errCode = errors.New("no browser shows this code now: a code is valid for five minutes, and only once")

// confirm lets the browser that shows a code approve calls, and returns its name. After maxTries
// wrong codes, no code is valid any more.
func (l *logins) confirm(text string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if digits := strings.ReplaceAll(text, "-", ""); len(digits) == 8 {
		text = digits[:4] + "-" + digits[4:]
	}
	c, ok := l.codes[text]
	delete(l.codes, text)
	i := slices.IndexFunc(l.stored.Browsers, func(b browser) bool { return b.Cookie == c.cookie })
	if !ok || !l.now().Before(c.until) || i < 0 {
		if l.wrong++; l.wrong >= maxTries {
			clear(l.codes)
			l.wrong = 0
		}
		return "", errCode
	}
	l.wrong = 0
	l.stored.Browsers[i].Key = c.key
	return l.stored.Browsers[i].Name, l.save()
}

// hashOf returns the SHA-256 of a secret in hex. Secrets are random, so no salt is needed, and a
// comparison of hashes need not be constant in time.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// cookieName returns the name of the cookie. Browsers send cookies to all ports of a host.
func (s *Site) cookieName() string {
	port, _ := s.logins.port()
	return fmt.Sprintf("grapnel_%d", port)
}

// browser returns the browser that sent a request.
func (s *Site) browser(r *http.Request) (browser, bool) {
	cookie, err := r.Cookie(s.cookieName())
	if err != nil {
		return browser{}, false
	}
	return s.logins.find(cookie.Value)
}

// Confirmed reports whether a person has confirmed that the browser of a request is their own. It
// needs the key of the page too: a cookie is sent to every program that listens on localhost, and
// an agent can run such a program.
func (s *Site) Confirmed(r *http.Request) bool {
	b, ok := s.browser(r)
	return ok && b.Key != "" && b.Key == hashOf(r.PostFormValue("key"))
}

// login turns the token of a link into a cookie.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the preview of a link must not use the token
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if !s.logins.useToken(r.URL.Query().Get("token")) {
		s.refuse(w, "This link was used before, or it is older than two minutes.")
		return
	}
	if _, known := s.browser(r); !known {
		cookie, err := s.logins.add(r.UserAgent())
		if err != nil {
			s.fail(w, r, fmt.Errorf("cannot store the browser: %w", err))
			return
		}
		http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: cookie, Path: "/", MaxAge: int(browserTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// askCode shows a code for the key that the page has made.
func (s *Site) askCode(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(s.cookieName())
	key := r.PostFormValue("key")
	if err != nil || len(key) < 26 || len(key) > 200 {
		http.Error(w, "the page sent no key", http.StatusBadRequest)
		return
	}
	if s.Confirmed(r) { // no code is needed
		return
	}
	text, err := s.logins.code(cookie.Value, key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte(text))
}

// refuse shows how to log in.
func (s *Site) refuse(w http.ResponseWriter, why string) {
	s.show(w, http.StatusUnauthorized, "message", &view{Title: "Log in", Error: why, Hint: "Run “grapnel ui” in a terminal. It opens this page with a new link."})
}
