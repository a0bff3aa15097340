package outbound

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/hooktest"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

const hookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var command = &grapnel.Event{ID: "e1", Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"ls <a>"}`), Commands: []string{"ls <a>"}}}

func newHook(t testing.TB, opts *Options, cfg HookConfig) *Hook {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = hookURL
	}
	h, err := NewClient(opts).Hook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// respond returns a handler that always sends the same response.
func respond(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// The hook sends one POST with the event in the form that programs get, and a signature of each
// key.
func TestHookRequest(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	const next = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var got []*http.Request
	var bodies [][]byte
	opts := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, bodies = append(got, r), append(bodies, body)
	})
	h := newHook(t, opts, HookConfig{Name: "src::x", Secrets: []string{next, hookKey}, Headers: map[string]string{"x-team": "core", "authorization": "Bearer t"}})
	other := newHook(t, opts, HookConfig{Name: "src::y"})
	changed := *command
	changed.Tool = &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{}`)}
	for _, ask := range []struct {
		h  *Hook
		ev *grapnel.Event
	}{{h, command}, {h, command}, {h, &changed}, {other, command}, {other, &grapnel.Event{Kind: grapnel.ToolBefore}}, {other, &grapnel.Event{Kind: grapnel.ToolBefore}}} {
		if out, err := ask.h.Handle(t.Context(), ask.ev); err != nil || out.Decision != grapnel.None {
			t.Fatal(out, err)
		}
	}
	for _, secret := range []string{next, hookKey} {
		if !signedWith(secret, bodies[0], got[0].Header) {
			t.Errorf("no signature with %s: %v", secret, got[0].Header)
		}
	}
	var sent map[string]any
	if err := json.Unmarshal(bodies[0], &sent); err != nil || sent["grapnel"] != 1.0 || sent["kind"] != "tool.before" || !bytes.Contains(bodies[0], []byte(`{"command":"ls <a>"}`)) || bytes.HasSuffix(bodies[0], []byte("\n")) {
		t.Errorf("%v: %s", err, bodies[0])
	}
	ids := make([]string, len(got))
	for i, r := range got {
		if ids[i] = r.Header.Get("Webhook-Id"); !strings.HasPrefix(ids[i], "msg_") || r.Method != http.MethodPost || !r.Close {
			t.Errorf("request %d: %s %v", i, r.Method, r.Header)
		}
	}
	if ids[0] != ids[1] || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 5 {
		t.Errorf("equal requests of one firing have one ID, and no others: %q", ids)
	}
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		got[0].Header.Del(name)
	}
	want := http.Header{
		"Accept": {"application/json"}, "Authorization": {"Bearer t"}, "Connection": {"close"}, "Content-Length": {fmt.Sprint(len(bodies[0]))},
		"Content-Type": {"application/json"}, "User-Agent": {"grapnel"}, "X-Team": {"core"},
	}
	if diff := cmp.Diff(want, got[0].Header); diff != "" {
		t.Errorf("headers (-want +got)\n%s", diff)
	}
	if got[3].Header.Get("Webhook-Signature") != "" {
		t.Error("without a key there is a signature")
	}
}

// The signature of the specification's example is the same as the one computed by hand.
func TestHookSignature(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil, HookConfig{Secrets: []string{hookKey}})
	header := http.Header{}
	body := []byte(`{"test": 2432232314}`)
	sign(header, h.signers, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), body)
	if got := header.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
	key, _ := base64.StdEncoding.DecodeString(hookKey[6:])
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); header.Get("Webhook-Signature") != want {
		t.Errorf("%v, want %s", header, want)
	}
}

// A body of type summary reports that an event happened, and contains no details of it.
func TestHookSummary(t *testing.T) {
	t.Parallel()
	var body []byte
	opts := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"decision":"block"}`)
	})
	h := newHook(t, opts, HookConfig{Name: "n", Body: "summary"})
	out, err := h.Handle(t.Context(), command)
	if err != nil || out.Decision != grapnel.Block || !bytes.Contains(body, []byte(`"event":"tool.before","tool":"Bash"`)) || bytes.Contains(body, []byte("ls")) {
		t.Errorf("%v %v, sent %s", out, err, body)
	}
	plain, err := dialect.Plain().WriteEvent(command)
	if err == nil {
		plain, err = wire.Originated(plain, &wire.Origin{Host: "h"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Ask(t.Context(), "e", plain); err != nil || !bytes.HasSuffix(body, []byte(`,"origin":{"host":"h"}}`)) {
		t.Errorf("%v, sent %s", err, body)
	}
}

// The outcome or the fault that each response causes.
func TestHookAnswers(t *testing.T) {
	t.Parallel()
	large := `{"reason":"` + strings.Repeat("x", maxHookAnswer-13) + `"}`
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   grapnel.Decision
		fault  Fault
	}{
		"block":          {respond(200, `{"decision":"block","reason":"no"}`), grapnel.Block, "ok"},
		"ask":            {respond(201, " \n{\"decision\":\"ask\"}\n"), grapnel.Ask, "ok"},
		"allow":          {respond(200, "\xef\xbb\xbf"+`{"decision":"allow","unknown":[1]}`), grapnel.Allow, "ok"},
		"nothing said":   {respond(200, `{}`), grapnel.None, "ok"},
		"no content":     {respond(204, ""), grapnel.None, "ok"},
		"empty":          {respond(200, ""), grapnel.None, "ok"},
		"white space":    {respond(200, " \n"), grapnel.None, "ok"},
		"no JSON":        {respond(200, "OK"), 0, BadAnswer},
		"HTML":           {respond(200, "<html>log in"), 0, BadAnswer},
		"no object":      {respond(200, `"block"`), 0, BadAnswer},
		"a list":         {respond(200, `[{"decision":"block"}]`), 0, BadAnswer},
		"null":           {respond(200, `null`), 0, BadAnswer},
		"two objects":    {respond(200, `{"decision":"block"} {}`), 0, BadAnswer},
		"broken":         {respond(200, `{"decision":"block"`), 0, BadAnswer},
		"other word":     {respond(200, `{"decision":"deny"}`), 0, BadAnswer},
		"other type":     {respond(200, `{"decision":{}}`), 0, BadAnswer},
		"deep":           {respond(200, `{"a":`+strings.Repeat("[", 1<<17)+strings.Repeat("]", 1<<17)+"}"), 0, BadAnswer},
		"large":          {respond(200, large), grapnel.None, "ok"},
		"too large":      {respond(200, large+" "), 0, TooLarge},
		"redirect":       {respond(302, `{"decision":"allow"}`), 0, Redirect},
		"not modified":   {respond(304, ``), 0, Redirect},
		"wrong":          {respond(400, `{"decision":"allow"}`), 0, Rejected},
		"unknown caller": {respond(401, ""), 0, Rejected},
		"late":           {respond(408, ""), 0, Refused},
		"gone":           {respond(410, ""), 0, Rejected},
		"too often":      {respond(429, ""), 0, Refused},
		"broken server":  {respond(500, `{"decision":"block"}`), 0, Refused},
		"no server":      {respond(503, ""), 0, Refused},
		"invented":       {respond(999, `{}`), 0, BadAnswer},
		"other type of content": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `{"decision":"block"}`)
		}, grapnel.Block, "ok"},
		"hints first": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, `{"decision":"block"}`)
		}, grapnel.Block, "ok"},
		"hints for ever": {func(w http.ResponseWriter, _ *http.Request) {
			for range 50 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, 0, Unreachable},
		"in chunks": {func(w http.ResponseWriter, _ *http.Request) {
			for _, c := range `{"decision":"block"}` {
				_, _ = io.WriteString(w, string(c))
				_ = http.NewResponseController(w).Flush()
			}
		}, grapnel.Block, "ok"},
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("somebody asked for it")
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 64<<20))
			_ = z.Close()
		}, 0, BadAnswer},
		"a gigabyte": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, 0, TooLarge},
		"a body without end": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 32<<10)); err != nil {
					return
				}
			}
		}, 0, TooLarge},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", strings.Repeat("x", 1<<20)) }, 0, Unreachable},
		"breaks off before":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, Unreachable},
		"breaks off within": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"decision":"block"}`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 0, Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			h := newHook(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				tt.answer(w, r)
			}), HookConfig{Timeout: MaxTimeout})
			out, err := h.Handle(t.Context(), command)
			if faultOf(err) != tt.fault || out.Decision != tt.want {
				t.Errorf("%v, %v, want %v, %s", out.Decision, err, tt.want, tt.fault)
			}
			if err != nil && (out.Decision != 0 || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("%v beside %v", out, err)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// raw starts a server on loopback that sends the same bytes in response to each request, and then
// closes the connection.
func raw(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(await.Limit))
				var seen []byte
				for buf := make([]byte, 4096); !bytes.HasSuffix(seen, []byte("}")); {
					n, err := conn.Read(buf)
					if seen = append(seen, buf[:n]...); err != nil {
						return
					}
				}
				_, _ = io.WriteString(conn, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// The Outcome has the response as its Output, also if the response is an error.
func TestHookOutput(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string // the kept body
		failed bool
	}{
		"an answer":      {200, `{"ticket":42}`, `{"ticket":42}`, false},
		"no opinion":     {204, "", "", false},
		"text":           {200, "hello", "hello", true},
		"wrong answer":   {200, `{"decision":"maybe"}`, `{"decision":"maybe"}`, true},
		"server failure": {503, "sorry", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := newHook(t, serve(t, respond(tt.status, tt.body)), HookConfig{}).Handle(t.Context(), command)
			if out.Output == nil || out.Output.Status != tt.status || string(out.Output.Stdout) != tt.want || (err != nil) != tt.failed {
				t.Errorf("Output %+v, error %v", out.Output, err)
			}
		})
	}
	opts := serve(t, respond(200, "{}"))
	opts.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
	if out, err := newHook(t, opts, HookConfig{}).Handle(t.Context(), command); err == nil || out.Output != nil {
		t.Errorf("Output %+v, error %v without a response", out.Output, err)
	}
}

// Responses that a server written in Go never sends: other versions, no lengths, two lengths, no
// bytes.
func TestHookHostileBytes(t *testing.T) {
	t.Parallel()
	const block = `{"decision":"block"}`
	for name, tt := range map[string]struct {
		answer string
		want   grapnel.Decision
		fault  Fault
	}{
		"HTTP/1.0":              {"HTTP/1.0 200 OK\r\n\r\n" + block, grapnel.Block, "ok"},
		"HTTP/1.0, cut off":     {"HTTP/1.0 200 OK\r\n\r\n" + block[:10], 0, BadAnswer},
		"nothing behind it":     {"HTTP/1.1 200 OK\r\n\r\n", 0, BadAnswer},
		"a length, and nothing": {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", 0, Unreachable},
		"half of the headers":   {"HTTP/1.1 200 OK\r\nContent-Le", 0, Unreachable},
		"continue":              {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + block, grapnel.Block, "ok"},
		"switches":              {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 0, Unreachable},
		"nothing":               {"", 0, Unreachable},
		"no HTTP":               {"220 mail.example.com ESMTP\r\n", 0, Unreachable},
		"two lengths":           {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 20\r\n\r\n" + block, 0, Unreachable},
		"a negative length":     {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + block, 0, Unreachable},
		"chunks cut off":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + block + "\r\n", 0, Unreachable},
		"an unknown coding":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" + block, 0, Unreachable},
		"chunks without end":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n \r\n", 1<<20), 0, Unreachable},
		"many headers":          {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<16), 0, Unreachable},
		"one after the other":   {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + block + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", grapnel.Block, "ok"},
		"a status of letters":   {"HTTP/1.1 abc OK\r\n\r\n", 0, Unreachable},
		"a status from above":   {"HTTP/1.1 204 \r\n\r\n" + block, grapnel.None, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guard := networks(t, "127.0.0.0/8")
			h := newHook(t, &Options{Guard: guard}, HookConfig{URL: raw(t, tt.answer), Timeout: MaxTimeout})
			out, err := h.Handle(t.Context(), command)
			if got := faultOf(err); out.Decision != tt.want || got != tt.fault && !(tt.fault == Unreachable && (got == TooLarge || got == BadAnswer)) {
				t.Errorf("%v, %v, want %v, %s", out.Decision, err, tt.want, tt.fault)
			}
		})
	}
}

// If a server hangs at any point, the hook still ends at its timeout.
func TestHookTimeouts(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"drips": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		},
		"does not read": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				defer context.AfterFunc(t.Context(), cancel)() // a server that does not read the request does not notice that the client is gone
				handler(w, r.WithContext(ctx))
			}))
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			h := newHook(t, &Options{Guard: networks(t, "127.0.0.0/8")}, HookConfig{URL: server.URL, Timeout: 300 * time.Millisecond}) // must fire: the server hangs
			ev := *command
			if name == "does not read" {
				ev.Tool = &grapnel.Tool{Name: "Write", Input: json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)}
			}
			if _, err := h.Handle(t.Context(), &ev); faultOf(err) != Timeout || !errors.Is(err, grapnel.ErrTimeout) {
				t.Errorf("error %v, want a timeout", err)
			}
		})
	}
}

// If a server responds before it has read a large request, Handle returns an error: also for a
// decision, because the server has not read the event.
func TestHookAnswersEarly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	answers := []string{"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"decision\":\"allow\"}"}
	go func() {
		for _, answer := range answers {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 100))
			_, _ = io.WriteString(conn, answer)
			time.Sleep(100 * time.Millisecond)
			_ = conn.(*net.TCPConn).CloseWrite()
			time.Sleep(100 * time.Millisecond)
			_ = conn.Close()
		}
	}()
	h := newHook(t, &Options{Guard: networks(t, "127.0.0.0/8")}, HookConfig{URL: "http://" + l.Addr().String(), Timeout: MaxTimeout})
	ev := *command
	ev.Tool = &grapnel.Tool{Name: "Write", Input: json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)}
	for range answers {
		if out, err := h.Handle(t.Context(), &ev); err == nil || out.Decision != grapnel.None {
			t.Errorf("%v, %v", out, err)
		}
	}
}

// A hook accepts the URLs that webhooks accept, and http:// if the network was opened.
func TestHookURLs(t *testing.T) {
	t.Parallel()
	for url, tt := range map[string]struct {
		guard Guard
		want  Fault
	}{
		"https://policy.example.com/x":  {Guard{}, "ok"},
		"http://policy.example.com/x":   {Guard{}, "ok"}, // the lookup decides
		"http://127.0.0.1:8080/":        {networks(t, "127.0.0.0/8"), "ok"},
		"http://[::1]:8080/":            {networks(t, "::1/128"), "ok"},
		"http://127.0.0.2:8080/":        {Guard{}, ForbiddenIP},
		"http://127.0.0.3/":             {networks(t, "10.0.0.0/8"), ForbiddenIP},
		"http://93.184.216.34/":         {Guard{}, BadScheme},
		"http://93.184.216.35/":         {networks(t, "93.184.216.0/24"), "ok"},
		"http://[::ffff:127.0.0.1]/":    {Guard{}, ForbiddenIP},
		"http://[64:ff9b::7f00:1]/":     {networks(t, "127.0.0.0/8"), "ok"},
		"http://169.254.169.254/":       {networks(t, "169.254.0.0/16"), ForbiddenIP},
		"http://localhost:8080/":        {networks(t, "127.0.0.0/8"), ForbiddenHost},
		"http://0x7f.1/":                {networks(t, "127.0.0.0/8"), AmbiguousHost},
		"http://me:pw@127.0.0.1/":       {networks(t, "127.0.0.0/8"), UserInfo},
		"http://127.0.0.1:22/":          {networks(t, "127.0.0.0/8"), ForbiddenPort},
		"http:127.0.0.1/":               {networks(t, "127.0.0.0/8"), BadURL},
		"ftp://policy.example.com/":     {Guard{}, BadScheme},
		"unix:///run/policy.sock":       {Guard{}, BadScheme},
		"https://127.0.0.1:8443/decide": {Guard{}, ForbiddenIP},
		"https:///decide":               {Guard{}, NoHost},
	} {
		h, err := NewClient(&Options{Guard: tt.guard}).Hook(HookConfig{Name: "x", URL: url})
		if faultOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", url, err, tt.want)
		}
		if err == nil && h.url.String() != url {
			t.Errorf("%s becomes %s", url, h.url)
		}
		if strings.HasPrefix(url, "http:") {
			if _, err := (Guard{Networks: tt.guard.Networks}).CheckURL(url); err == nil {
				t.Errorf("%s is one for webhooks too", url)
			}
		}
	}
}

// With http://, all addresses of a name must be in opened networks. If the addresses change between
// the lookup and the connection, the client does not look the name up again.
func TestHookRebinding(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		url   string
		guard Guard
		found names
		want  Fault
	}{
		"public, in the clear":          {"http://policy.example.com/", Guard{}, public(somewhere), DNSForbiddenIP},
		"private, in the clear":         {"http://policy.example.com/", Guard{}, public("10.0.0.5"), DNSForbiddenIP},
		"opened, in the clear":          {"http://policy.example.com/", networks(t, "10.0.0.0/24"), public("10.0.0.5"), Unreachable},
		"opened and public":             {"http://policy.example.com/", networks(t, "10.0.0.0/24"), public("10.0.0.5", somewhere), DNSForbiddenIP},
		"credentials, though opened":    {"http://policy.example.com/", networks(t, "0.0.0.0/0"), public("169.254.169.254"), DNSForbiddenIP},
		"loopback behind a public name": {"https://policy.example.com/", Guard{}, public("127.0.0.1"), DNSForbiddenIP},
		"public":                        {"https://policy.example.com/", Guard{}, public(somewhere), Unreachable},
	} {
		looked, dialled := 0, 0
		opts := &Options{
			Guard: tt.guard,
			Resolver: names(func(ctx context.Context, host string) ([]netip.Addr, error) {
				if looked++; looked > 1 {
					return public("127.0.0.1")(ctx, host)
				}
				return tt.found(ctx, host)
			}),
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				if dialled++; strings.HasPrefix(address, "127.") {
					t.Errorf("%s: %s is dialled", name, address)
				}
				return nil, errors.New("nobody is there")
			},
		}
		_, err := newHook(t, opts, HookConfig{URL: tt.url}).Handle(t.Context(), command)
		if faultOf(err) != tt.want || looked != 1 || (dialled > 0) != (tt.want == Unreachable) {
			t.Errorf("%s: %v, %d lookups, %d connections, want %s", name, err, looked, dialled, tt.want)
		}
	}
}

// NewHook reports each error of a configuration, and the message contains no secret.
func TestHookConfigs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  HookConfig
		want Fault
	}{
		"no key":          {HookConfig{Secrets: []string{"whsec_s3cret!"}}, BadSecret},
		"an empty key":    {HookConfig{Secrets: []string{"whsec_"}}, BadSecret},
		"slow":            {HookConfig{Timeout: 31 * time.Second}, BadTimeout},
		"negative":        {HookConfig{Timeout: -1}, BadTimeout},
		"body":            {HookConfig{Body: "ironclaw"}, BadBody},
		"host":            {HookConfig{Headers: map[string]string{"Host": "s3cret"}}, ForbiddenHeader},
		"own signature":   {HookConfig{Headers: map[string]string{"webhook_signature": "s3cret"}}, ForbiddenHeader},
		"cookie":          {HookConfig{Headers: map[string]string{"Cookie": "s3cret"}}, ForbiddenHeader},
		"smuggled":        {HookConfig{Headers: map[string]string{"x": "s3cret\r\nHost: b"}}, BadHeader},
		"smuggled behind": {HookConfig{Headers: map[string]string{"authorization": "s3cret\r\nHost: b"}}, BadHeader},
		"encoding":        {HookConfig{Headers: map[string]string{"accept-encoding": "gzip"}}, ForbiddenHeader},
	} {
		tt.cfg.URL = hookURL
		_, err := NewClient(nil).Hook(tt.cfg)
		if faultOf(err) != tt.want || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// After several failures in a row, the circuit breaker opens: events fail at once. Later it lets
// one request try.
func TestHookCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var reply atomic.Value
		reply.Store("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
		opts := &Options{Resolver: public("10.0.0.5"), Guard: networks(t, "10.0.0.0/8"), Dial: piped(func() string {
			asked.Add(1)
			return reply.Load().(string)
		})}
		h := newHook(t, opts, HookConfig{URL: "http://policy.example.com/", Failures: 3, Cooldown: 10 * time.Second})
		ask := func(want Fault) {
			t.Helper()
			if _, err := h.Handle(t.Context(), command); faultOf(err) != want {
				t.Fatalf("%v, want %s", err, want)
			}
		}
		ask(Refused)
		reply.Store("HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n") // concerns this request only
		for range 5 {
			ask(Rejected)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 {
			if _, err := h.Handle(ctx, command); err == nil {
				t.Error("nobody is asked any more, and there is an answer")
			}
		}
		reply.Store("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
		ask(Refused)
		ask(Refused)
		before := asked.Load()
		for range 10 {
			ask(CircuitOpen)
		}
		if _, err := h.Handle(t.Context(), command); !strings.Contains(err.Error(), "circuit open until ") {
			t.Error(err)
		}
		if asked.Load() != before {
			t.Error("it is asked while the circuit is open")
		}
		time.Sleep(10 * time.Second)
		ask(Refused) // the test request
		ask(CircuitOpen)
		time.Sleep(10 * time.Second)
		reply.Store("HTTP/1.1 204 X\r\n\r\n")
		ask("ok")
		ask("ok")
	})
}

// Many events at the same time each get their own answer.
func TestHookConcurrency(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ev grapnel.Event
		_ = json.NewDecoder(r.Body).Decode(&ev)
		fmt.Fprintf(w, `{"decision":"block","reason":%q}`, ev.ID)
	}))
	t.Cleanup(server.Close)
	h := newHook(t, &Options{Guard: networks(t, "127.0.0.0/8")}, HookConfig{URL: server.URL, Timeout: MaxTimeout})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			ev := *command
			ev.ID = fmt.Sprint("e", i)
			if out, err := h.Handle(t.Context(), &ev); err != nil || out.Reason != ev.ID {
				t.Errorf("%s: %v, %v", ev.ID, out, err)
			}
		})
	}
	all.Wait()
}

// A hook behind a URL passes the suite for hooks.
func TestHookHoldsTheLaws(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(respond(200, `{}`))
	t.Cleanup(server.Close)
	h := newHook(t, &Options{Guard: networks(t, "127.0.0.0/8")}, HookConfig{URL: server.URL, Timeout: MaxTimeout})
	hooktest.TestHook(t, grapnel.Spec{Name: "ask", Timeout: MaxTimeout, Hook: h})
}

// FuzzHookAnswer: for any response, Handle ends in time and does not panic. A response that is not
// a JSON object decides nothing.
func FuzzHookAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"decision\":\"block\"}", "HTTP/1.1 204 \r\n\r\n", "HTTP/1.0 200\r\n\r\n{}", "HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 \r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 302 \r\nLocation: http://169.254.169.254/\r\n\r\n", "", "\x00",
		"HTTP/1.1 200 OK\r\n\r\n{\"set\":{\"tool.input\":{}},\"context\":[\"a\"],\"halt\":\"x\"}",
	} {
		f.Add(answer)
	}
	guard := networks(f, "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, answer string) {
		opts := &Options{Guard: guard, Dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				if req, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(there, answer)
				}
				_ = there.Close()
			}()
			return here, nil
		}}
		h := newHook(t, opts, HookConfig{URL: "http://10.0.0.5/", Timeout: 5 * time.Second})
		text, err := h.Ask(t.Context(), "e", []byte(`{"grapnel":1,"kind":"tool.before"}`))
		if err != nil && (len(text) > 0 || faultOf(err) == "" || strings.HasPrefix(string(faultOf(err)), "no Error")) {
			t.Errorf("%q: %s beside %v", answer, text, err)
		}
		if len(text) > 0 && (text[0] != '{' || !json.Valid(text) || len(text) > maxHookAnswer || !strings.Contains(answer, " 2")) {
			t.Errorf("%q: the answer is %s", answer, text)
		}
	})
}
