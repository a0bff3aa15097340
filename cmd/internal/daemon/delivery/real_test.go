package delivery_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery/deliverytest"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestMain(m *testing.M) { await.Main(m) }

// real starts a TLS server on loopback, and returns a queue and options of a Deliverer for it.
func real(t *testing.T, h http.HandlerFunc) (*httptest.Server, *deliverytest.Memory, delivery.Options) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	client := outbound.NewClient(&outbound.Options{
		Guard: outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, KeepIdle: 10 * time.Second,
		RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
	})
	t.Cleanup(func() {
		_ = client.Close(context.Background())
		server.CloseClientConnections()
		server.Close()
	})
	return server, &deliverytest.Memory{}, delivery.Options{Client: client, Resolve: func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
		return policyfile.HTTP{URL: server.URL + "/" + j.Target, Timeout: policyfile.Duration(30 * time.Second)}, nil
	}}
}

func once(t *testing.T, q *deliverytest.Memory, opts delivery.Options) delivery.Summary {
	t.Helper()
	sum, err := delivery.New(q, opts).Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// The official library accepts the signatures, with each of two keys during a rotation. The ID is
// the ID of the job in each attempt.
func TestSignatures(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsk_" + base64.StdEncoding.EncodeToString(private)}
	var tries atomic.Int32
	server, q, opts := real(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, key := range keys[:2] {
			wh, err := standardwebhooks.NewWebhook(key)
			if err != nil {
				t.Error(err)
			} else if err := wh.Verify(body, r.Header); err != nil {
				t.Errorf("%v: %v", err, r.Header)
			}
		}
		_, text, _ := strings.Cut(r.Header.Get("webhook-signature"), "v1a,")
		signature, err := base64.StdEncoding.DecodeString(text)
		signed := fmt.Sprintf("%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		if err != nil || !ed25519.Verify(public, []byte(signed), signature) || r.Header.Get("webhook-id") != "m1" || r.Header.Get("x-team") != "core" {
			t.Errorf("%v: %v", err, r.Header)
		}
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	opts.Resolve = func(context.Context, *delivery.Job) (policyfile.HTTP, error) {
		return policyfile.HTTP{URL: server.URL, Secrets: keys, Headers: map[string]string{"x-team": "core"}}, nil
	}
	_ = q.Add(t.Context(), job("a", "m1"))
	if sum := once(t, q, opts); sum.Failed != 1 {
		t.Error(sum)
	}
	j, _ := q.Job("m1")
	opts.Now = func() time.Time { return j.Next }
	if sum := once(t, q, opts); sum.Delivered != 1 || tries.Load() != 2 {
		t.Error(sum, tries.Load())
	}
}

// Receivers with typical behavior.
func TestReceivers(t *testing.T) {
	t.Parallel()
	var met, parts atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { met.Add(1) }))
	t.Cleanup(inside.Close)
	_, q, opts := real(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/iam", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, inside.URL+"/s3cret", http.StatusTemporaryRedirect)
		case "/large":
			w.Header().Set("Content-Length", "1073741824")
			for part := make([]byte, 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
				parts.Add(1)
			}
		case "/hangs":
			<-r.Context().Done()
		case "/breaks":
			panic(http.ErrAbortHandler)
		case "/404":
			http.NotFound(w, r)
		}
	})
	inner := opts.Resolve
	opts.Resolve = func(ctx context.Context, j *delivery.Job) (policyfile.HTTP, error) {
		target, err := inner(ctx, j)
		if j.Target == "hangs" {
			target.Timeout = policyfile.Duration(200 * time.Millisecond) // must fire: the server hangs
		}
		return target, err
	}
	want := map[string]struct {
		state   delivery.State
		status  int
		wantErr string
	}{
		"metadata": {delivery.Waiting, 302, `to "http://169.254.169.254" (169.254.169.254 is link-local`},
		"inside":   {delivery.Waiting, 307, "does not follow"},
		"large":    {delivery.Delivered, 200, ""},
		"hangs":    {delivery.Waiting, 0, "in time"},
		"breaks":   {delivery.Waiting, 0, "EOF"},
		"404":      {delivery.Waiting, 404, "404"},
		"fine":     {delivery.Delivered, 200, ""},
	}
	for target := range want {
		_ = q.Add(t.Context(), job(target, target))
	}
	if sum := once(t, q, opts); sum.Delivered != 2 || sum.Failed != 5 {
		t.Errorf("%+v, want 2 delivered and 5 failed", sum)
	}
	for id, w := range want {
		j, _ := q.Job(id)
		if j.State != w.state || j.Status != w.status || !strings.Contains(j.Error, w.wantErr) || (w.wantErr == "") != (j.Error == "") || strings.Contains(j.Error, "s3cret") {
			t.Errorf("%s: %+v", id, j)
		}
	}
	if met.Load() != 0 {
		t.Error("a redirect was followed")
	}
	if n := parts.Load(); n > 64 {
		t.Errorf("%d MB of an answer were taken", n)
	}
}

func rngInt(mu *sync.Mutex, rng *rand.Rand, n int) int {
	mu.Lock()
	defer mu.Unlock()
	return rng.IntN(n)
}
