package outbound

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
)

func message(url string) Message {
	return Message{URL: url, ID: "msg_1", Body: []byte(`{"a":1}`), Timeout: MaxTimeout}
}

// signedWith reports whether the headers have the HMAC signature of a body that the specification of
// the Standard Webhooks demands. The tests of the daemon and of grapnel-hook ask the official
// library instead.
func signedWith(secret string, body []byte, header http.Header) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"), body)
	return err == nil && slices.Contains(strings.Fields(header.Get("Webhook-Signature")), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// A message has a signature for each key: HMAC, and Ed25519 that the public keys accept.
func TestPost(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const next = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var got *http.Request
	var body []byte
	opts := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		got = r
		w.WriteHeader(http.StatusAccepted)
	})
	for _, asymmetric := range [][]byte{private, private.Seed()} {
		m := message(hookURL)
		m.Type, m.Headers = "application/x", map[string]string{"authorization": "Bearer t"}
		m.Secrets = []string{next, hookKey, "whsk_" + base64.StdEncoding.EncodeToString(asymmetric)}
		reply, err := NewClient(opts).Post(t.Context(), m)
		if err != nil || reply.Status != http.StatusAccepted {
			t.Fatal(reply, err)
		}
		for _, secret := range m.Secrets[:2] {
			if !signedWith(secret, body, got.Header) {
				t.Errorf("no signature with %s: %v", secret, got.Header)
			}
		}
		all := strings.Fields(got.Header.Get("Webhook-Signature"))
		text, isThird := strings.CutPrefix(all[len(all)-1], "v1a,")
		signature, err := base64.StdEncoding.DecodeString(text)
		if len(all) != 3 || !isThird || err != nil {
			t.Fatalf("signatures %q: %v", all, err)
		}
		signed := fmt.Sprintf("msg_1.%s.%s", got.Header.Get("Webhook-Timestamp"), body)
		if !ed25519.Verify(public, []byte(signed), signature) {
			t.Error("the public key does not fit the signature")
		}
		if got.Header.Get("Webhook-Id") != "msg_1" || got.Header.Get("Content-Type") != "application/x" || got.Header.Get("Authorization") != "Bearer t" || !got.Close {
			t.Errorf("%v, close %v", got.Header, got.Close)
		}
	}
}

// Each error in a message is reported before a connection is opened, without the message's secrets.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	seed := func(n int) string { return "whsk_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for name, tt := range map[string]struct {
		change func(*Message)
		want   Fault
	}{
		"url":       {func(m *Message) { m.URL = "ftp://s3cret.example.com" }, BadScheme},
		"loopback":  {func(m *Message) { m.URL = "http://127.0.0.1/s3cret" }, ForbiddenIP},
		"header":    {func(m *Message) { m.Headers = map[string]string{"webhook-id": "s3cret"} }, ForbiddenHeader},
		"key":       {func(m *Message) { m.Secrets = []string{"whsec_s3cret!"} }, BadSecret},
		"no seed":   {func(m *Message) { m.Secrets = []string{seed(31)} }, BadSecret},
		"two pairs": {func(m *Message) { m.Secrets = []string{seed(64)} }, BadSecret},
		"whsk_":     {func(m *Message) { m.Secrets = []string{"whsk_"} }, BadSecret},
		"timeout":   {func(m *Message) { m.Timeout = MaxTimeout + 1 }, BadTimeout},
		"no id":     {func(m *Message) { m.ID = "" }, BadHeader},
		"split id":  {func(m *Message) { m.ID = "a\r\nHost: b" }, BadHeader},
	} {
		m := message(hookURL)
		tt.change(&m)
		reply, err := NewClient(&Options{Resolver: names(nil)}).Post(t.Context(), m)
		if faultOf(err) != tt.want || reply != (Reply{}) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, %v, want %s", name, reply, err, tt.want)
		}
	}
}

// The result for each response of a server.
func TestReplies(t *testing.T) {
	t.Parallel()
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	later := func(status int, after, date string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			if date != "" {
				w.Header().Set("Date", date)
			}
			w.WriteHeader(status)
		}
	}
	for name, tt := range map[string]struct {
		answer  http.HandlerFunc
		want    Reply
		fault   Fault
		wantErr string
	}{
		"ok":         {respond(200, `{}`), Reply{Status: 200, Text: "{}"}, "ok", ""},
		"no content": {respond(204, ``), Reply{Status: 204}, "ok", ""},
		"1 GB": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
			for part := make([]byte, 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}, Reply{Status: 200}, "ok", ""},
		"1 GB, compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			for part := make([]byte, 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}, Reply{Status: 200}, "ok", ""},
		"headers, then nothing": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server must read the request to notice that the client is gone
			w.WriteHeader(201)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, Reply{Status: 201}, "ok", ""},
		"metadata":         {redirect("http://169.254.169.254/latest/meta-data/"), Reply{Status: 302}, Redirect, `to "http://169.254.169.254" (169.254.169.254 is link-local`},
		"somewhere else":   {redirect("https://other.example.com/s3cret?key"), Reply{Status: 302}, Redirect, `to "https://other.example.com", which`},
		"with a password":  {redirect("https://s3cret@other.example.com/"), Reply{Status: 302}, Redirect, `to "https://other.example.com", which`},
		"a path":           {redirect("/s3cret"), Reply{Status: 302}, Redirect, `to "https://hooks.example.com", which`},
		"another language": {redirect("javascript:s3cret()"), Reply{Status: 302}, Redirect, "status 302), which"},
		"nowhere":          {respond(304, ""), Reply{Status: 304}, Redirect, "status 304), which"},
		"gone":             {respond(410, ""), Reply{Status: 410}, Rejected, "no more"},
		"not found":        {respond(404, "Cannot POST /in?key=s3cret\r\nor \x1b[31m key=s3cret, Bearer token-s3cret"), Reply{Status: 404, Text: "Cannot POST *** or [31m ***, ***"}, Rejected, "answered with status 404: Cannot POST *** or [31m ***, ***"},
		"long reason":      {respond(400, strings.Repeat("no\xff ", 1<<20)), Reply{Status: 400, Text: strings.Repeat("no ", 66) + "no..."}, Rejected, "400: no no "},
		"broken":           {respond(500, ""), Reply{Status: 500}, Refused, "500"},
		"unknown":          {respond(799, ""), Reply{Status: 799}, BadAnswer, "799"},
		"too many":         {later(429, "120", ""), Reply{Status: 429, RetryAfter: 2 * time.Minute}, Refused, "limits the delivery rate"},
		"down":             {later(503, "Sat, 21 Nov 2026 20:00:30 GMT", "Sat, 21 Nov 2026 20:00:00 GMT"), Reply{Status: 503, RetryAfter: 30 * time.Second}, Refused, "503"},
		"was down":         {later(503, "Sat, 21 Nov 2026 20:00:00 GMT", "Sat, 21 Nov 2026 20:00:30 GMT"), Reply{Status: 503, RetryAfter: 0}, Refused, "503"},
		"for ever":         {later(503, "99999999999999999999", ""), Reply{Status: 503, RetryAfter: MaxRetryAfter}, Refused, "503"},
		"for years":        {later(503, "Sat, 21 Nov 2126 20:00:30 GMT", ""), Reply{Status: 503, RetryAfter: MaxRetryAfter}, Refused, "503"},
		"negative":         {later(503, "-1", ""), Reply{Status: 503, RetryAfter: 0}, Refused, "503"},
		"soon":             {later(503, "soon", ""), Reply{Status: 503, RetryAfter: 0}, Refused, "503"},
		"breaks off":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Reply{}, Unreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := message(hookURL)
			m.Headers = map[string]string{"Authorization": "Bearer token-s3cret"}
			reply, err := NewClient(serve(t, tt.answer)).Post(t.Context(), m)
			if reply != tt.want || faultOf(err) != tt.fault {
				t.Errorf("%v, %v, want %v, %s", reply, err, tt.want, tt.fault)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.wantErr) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("it says %q, want %q", err, tt.wantErr)
			}
		})
	}
}

// A server that hangs gets the whole timeout. A server that has sent its status gets a little more
// time.
func TestPostTimeouts(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"hangs": false, "drips": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for answered && r.Context().Err() == nil {
					_, _ = io.WriteString(w, " ")
					_ = http.NewResponseController(w).Flush()
					time.Sleep(5 * time.Millisecond)
				}
				<-r.Context().Done()
			}))
			t.Cleanup(server.Close)
			m := message(server.URL)
			m.Timeout = 300 * time.Millisecond
			if answered {
				m.Timeout = MaxTimeout
			}
			reply, err := NewClient(&Options{Guard: networks(t, "127.0.0.0/8")}).Post(t.Context(), m)
			if answered && (err != nil || reply.Status != 200) || !answered && (faultOf(err) != Timeout || !errors.Is(err, grapnel.ErrTimeout)) {
				t.Errorf("%v, %v", reply, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewClient(&Options{Resolver: public(somewhere)}).Post(ctx, message(hookURL)); faultOf(err) == "ok" {
		t.Error("it is sent when nobody wants it any more")
	}
}
