package deliver_test

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
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/grapnel-dev/grapnel/daemon/deliver"
	"github.com/grapnel-dev/grapnel/daemon/deliver/delivertest"
	"github.com/grapnel-dev/grapnel/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// real starts a TLS server on loopback, and returns a queue and what delivers to it.
func real(t *testing.T, h http.HandlerFunc) (*httptest.Server, *delivertest.Memory, deliver.Options) {
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
	return server, &delivertest.Memory{}, deliver.Options{Client: client, Resolve: func(_ context.Context, j *deliver.Job) (deliver.Target, error) {
		return deliver.Target{URL: server.URL + "/" + j.Target, Timeout: time.Hour}, nil
	}}
}

func once(t *testing.T, q *delivertest.Memory, opts deliver.Options) deliver.Summary {
	t.Helper()
	sum, err := deliver.New(q, opts).Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Official code believes what is signed, with each key while one takes the place of
// another, and the identity is that of the job in each try.
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
	opts.Resolve = func(context.Context, *deliver.Job) (deliver.Target, error) {
		return deliver.Target{URL: server.URL, Secrets: keys, Headers: map[string]string{"x-team": "core"}}, nil
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

// Receivers that do what receivers do.
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
	opts.Resolve = func(ctx context.Context, j *deliver.Job) (deliver.Target, error) {
		target, err := inner(ctx, j)
		if j.Target == "hangs" {
			target.Timeout = 200 * time.Millisecond // must fire: the server hangs
		}
		return target, err
	}
	want := map[string]struct {
		state  deliver.State
		status int
		says   string
	}{
		"metadata": {deliver.Waiting, 302, `to "http://169.254.169.254" (169.254.169.254 is link-local`},
		"inside":   {deliver.Waiting, 307, "not followed"},
		"large":    {deliver.Delivered, 200, ""},
		"hangs":    {deliver.Waiting, 0, "in time"},
		"breaks":   {deliver.Waiting, 0, "EOF"},
		"404":      {deliver.Waiting, 404, "404"},
		"fine":     {deliver.Delivered, 200, ""},
	}
	for target := range want {
		_ = q.Add(t.Context(), job(target, target))
	}
	if sum := once(t, q, opts); sum.Delivered != 2 || sum.Failed != 5 {
		t.Errorf("%+v, want 2 delivered and 5 failed", sum)
	}
	for id, w := range want {
		j, _ := q.Job(id)
		if j.State != w.state || j.Status != w.status || !strings.Contains(j.Error, w.says) || (w.says == "") != (j.Error == "") || strings.Contains(j.Error, "s3cret") {
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

// Many jobs over real connections: each is heard once, over few connections, and nothing
// is left running.
func TestManyOverTLS(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var conns sync.Map
	seen := map[string]int{}
	_, q, opts := real(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conns.Store(r.RemoteAddr, true)
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Webhook-Id")]++
	})
	jobs, ids := many("a", 300)
	_ = q.Add(t.Context(), jobs...)
	if sum := once(t, q, opts); sum.Delivered != 300 {
		t.Error(sum)
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("%s was heard %d times", id, seen[id])
		}
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n > 2*deliver.DefaultMaxInFlight {
		t.Errorf("%d connections", n)
	}
}

// Whatever receivers do, however often everything stops and starts again, and while the
// queue fails: no job is lost, none is tried twice at the same time, ordered ones keep
// their order, and what was delivered was heard.
func TestChaos(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			chance := func(of int) bool { mu.Lock(); defer mu.Unlock(); return rng.IntN(of) == 0 }
			w := newWorld(t)
			w.opts.MaxInFlight = 1 + rng.IntN(8)
			var calm atomic.Bool
			busy, line := map[string]bool{}, map[string]string{}
			w.opts.Resolve = func(_ context.Context, j *deliver.Job) (deliver.Target, error) {
				mu.Lock()
				defer mu.Unlock()
				if busy[j.ID] {
					t.Errorf("%s is tried twice at once", j.ID)
				}
				busy[j.ID] = true
				if key := j.Target + "/" + j.Session; j.Ordered {
					if line[key] != "" && line[key] > j.ID {
						t.Errorf("%s after %s", j.ID, line[key])
					}
					line[key] = j.ID
				}
				return deliver.Target{URL: "http://" + j.Target + ".example.com/", MaxInFlight: 1 + len(j.Target)}, nil
			}
			w.opts.Observe = func(j deliver.Job, _ deliver.Result, _ time.Duration) { mu.Lock(); delete(busy, j.ID); mu.Unlock() }
			w.queue.Fail = func(string) error {
				if !calm.Load() && chance(20) {
					return context.DeadlineExceeded
				}
				return nil
			}
			w.answer = func(string, string, int) answer {
				switch {
				case calm.Load() || !chance(3):
					return answer{status: 200}
				case chance(4):
					return answer{status: 429, header: "Retry-After: 30\r\n"}
				case chance(3):
					return answer{status: 200, after: time.Duration(1+rngInt(&mu, rng, 20)) * time.Second}
				}
				return answer{status: 500}
			}
			var ids []string
			for i := range 40 {
				j := job([]string{"a", "bb", "ccc"}[rng.IntN(3)], fmt.Sprintf("m%03d", i))
				j.Session, j.Ordered = fmt.Sprint("s", rng.IntN(2)), rng.IntN(2) == 0
				if j.Ordered {
					j.Session += "-ordered"
				}
				ids = append(ids, j.ID)
				w.add(j)
			}
			for range 3 {
				_, stop := w.run()
				time.Sleep(time.Duration(1+rngInt(&mu, rng, 100)) * time.Second)
				calmly := calm.Swap(true) // the last word is heard
				stop()
				calm.Store(calmly)
				mu.Lock()
				clear(busy)
				mu.Unlock()
			}
			calm.Store(true)
			_, stop := w.run()
			time.Sleep(40 * time.Hour)
			stop()
			for _, id := range ids {
				if j := w.job(id); j.State != deliver.Delivered || len(w.times(id)) == 0 {
					t.Errorf("%+v, heard %d times", j, len(w.times(id)))
				}
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

func rngInt(mu *sync.Mutex, rng *rand.Rand, n int) int {
	mu.Lock()
	defer mu.Unlock()
	return rng.IntN(n)
}
