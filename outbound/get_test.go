package outbound

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A file is downloaded once, and then only if it has changed.
func TestGet(t *testing.T) {
	t.Parallel()
	opts := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		switch {
		case r.Method != http.MethodGet || r.URL.Path != "/policy.yaml" || r.ContentLength != 0:
			w.WriteHeader(http.StatusBadRequest)
		case r.Header.Get("If-None-Match") == `"v1"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			_, _ = io.WriteString(w, "version: 1\n")
		}
	})
	c := NewClient(opts)
	const url = "https://hooks.example.com/policy.yaml"
	got, err := c.Get(t.Context(), File{URL: url, Max: 11})
	if err != nil || string(got.Data) != "version: 1\n" || got.ETag != `"v1"` || got.Unchanged {
		t.Fatalf("Get = %+v, %v", got, err)
	}
	if got, err = c.Get(t.Context(), File{URL: url, Max: 11, ETag: got.ETag}); err != nil || !got.Unchanged || got.Data != nil {
		t.Errorf("the same version: %+v, %v", got, err)
	}
	if got, err = c.Get(t.Context(), File{URL: url, Max: 10}); faultOf(err) != TooLarge {
		t.Errorf("a byte too much: %+v, %v", got, err)
	}
}

// A server cannot make the client read without an end, follow it elsewhere, or take a part of a
// file for the file.
func TestGetFromHostileServer(t *testing.T) {
	t.Parallel()
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(private.Close)
	endless := func(w io.Writer) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<16))
		}
	}
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  Fault
	}{
		"endless body":   {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, TooLarge},
		"announced size": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9999999") }, TooLarge},
		"redirect":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, private.URL, http.StatusFound) }, Redirect},
		"redirect to file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, Redirect},
		"part of a file": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) }, BadAnswer},
		"no content":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, BadAnswer},
		"unasked 304":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, Redirect},
		"compressed":     {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }, BadAnswer},
		"not found":      {http.NotFound, Rejected},
		"overloaded":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, Refused},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "version: 1\n")
		}, Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NewClient(serve(t, tt.serve)).Get(t.Context(), File{URL: "https://hooks.example.com/policy.yaml", Max: 1 << 10})
			if faultOf(err) != tt.want || got.Data != nil {
				t.Errorf("Get = %+v, %v (fault %q), want fault %q", got, err, faultOf(err), tt.want)
			}
		})
	}
}

func TestGetOnlyFromPublicServers(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]Fault{
		"http://hooks.example.com/p.yaml":          BadScheme,
		"file:///etc/grapnel/p.yaml":               BadScheme,
		"https://127.0.0.1/p.yaml":                 ForbiddenIP,
		"https://169.254.169.254/latest/meta-data": ForbiddenIP,
		"https://[::1]/p.yaml":                     ForbiddenIP,
		"https://10.0.0.1/p.yaml":                  ForbiddenIP,
		"https://localhost/p.yaml":                 ForbiddenHost,
		"https://user:secret@example.com/p.yaml":   UserInfo,
		"https://hooks.example.com/p.yaml":         DNSForbiddenIP, // its name has a private address
	} {
		opts := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
		opts.Resolver = public("10.0.0.1")
		if got, err := NewClient(opts).Get(t.Context(), File{URL: url, Max: 1 << 10}); faultOf(err) != want {
			t.Errorf("%s: %+v, %v, want fault %q", url, got, err, want)
		}
	}
	if _, err := NewClient(&Options{Guard: Guard{Networks: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}}).Get(t.Context(), File{URL: "https://169.254.169.254/"}); faultOf(err) != ForbiddenIP {
		t.Errorf("credentials of a cloud in an open network: %v", err)
	}
}

// A server that sends one byte after the other cannot keep the client longer than the timeout.
func TestGetFromSlowServer(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	opts := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	if got, err := NewClient(opts).Get(t.Context(), File{URL: "https://hooks.example.com/p.yaml", Max: 1 << 10, Timeout: 200 * time.Millisecond}); faultOf(err) != Timeout {
		t.Errorf("Get = %+v, %v, want fault %q", got, err, Timeout)
	}
	await.Receive(t, "end of the request", gone)
}
