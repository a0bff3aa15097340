package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/readme"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/ironclaw"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// Proves: IC-01, IC-02, IC-04, IC-05, IC-07, IC-10, IC-13, IC-15, IC-16, IC-17, IC-21, IC-22, IC-23, IC-24
// Proves: IC-25, IC-34, IC-36, IC-37, IC-41, IC-44, IC-48, IC-49, IC-50
func TestReadme(t *testing.T) {
	t.Parallel()
	readme.Shows(t, "output.txt", run)
}

// lookup is a Resolver that finds one address for all names.
type lookup string

func (l lookup) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(l))}, nil
}

// feed returns a registry with the webhook of feed.json, for a server that stands behind
// feed.example.org. dropped gets the errors of deliveries.
func feed(t *testing.T, server *httptest.Server, open string, change func(string) string) (hooks *ironclaw.HookRegistry, client *outbound.Client, dropped chan error) {
	t.Helper()
	text, err := os.ReadFile("feed.json")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	bundle := strings.Replace(string(text), "feed.example.org/", "example.com:"+port+"/", 1) // the name in the certificate of the server
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	guard, err := outbound.ParseGuard(strings.Fields(open))
	if err != nil {
		t.Fatal(err)
	}
	dropped = make(chan error, 8)
	client = outbound.NewClient(&outbound.Options{
		Guard: guard, RootCAs: roots, Resolver: lookup("127.0.0.1"), Failed: func(_ string, err error) { dropped <- err },
	})
	hooks = ironclaw.NewHookRegistry(nil)
	loaded, err := hooks.RegisterWorkspaceBundles(
		[]hookfile.File{{Source: "workspace:feed.json", Path: "feed.json", Data: []byte(change(bundle))}},
		&ironclaw.BundleOptions{Webhook: func(w policyfile.Webhook) (grapnel.Hook, error) { return client.PolicyWebhook(w) }})
	if err != nil || len(loaded.Errors) > 0 || loaded.Summary.OutboundWebhooks != 1 {
		t.Fatalf("%+v %v", loaded, err)
	}
	return hooks, client, dropped
}

var call = ironclaw.ToolCall{ToolName: "pay", Parameters: json.RawMessage(`{"amount":40,"to":"DE12345678901234567890"}`), UserID: "ada", Context: "chat"}

// The agent does not wait for a webhook, which gets names and sizes but no content. At the limit,
// further events are dropped and reported.
//
// Proves: IC-56, IC-57, IC-65, IC-66, IC-67
func TestFeed(t *testing.T) {
	t.Parallel()
	bodies, release := make(chan string, 8), make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.Method + " " + r.URL.Path + " " + string(body)
		<-release
	}))
	t.Cleanup(server.Close)
	hooks, client, dropped := feed(t, server, "127.0.0.0/8", func(bundle string) string {
		return strings.Replace(bundle, `"max_in_flight": 4`, `"max_in_flight": 1, "timeout_ms": 30000`, 1)
	})
	for range 2 { // the server holds the first delivery
		if outcome, err := hooks.Run(t.Context(), call); outcome != ironclaw.OK() || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
	}
	var fault *outbound.Error
	if err := <-dropped; !errors.As(err, &fault) || fault.Fault != outbound.Dropped {
		t.Errorf("the second event was dropped as %v", err)
	}
	body := <-bodies
	close(release)
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
	head, tail, _ := strings.Cut(body, `"timestamp":"`)
	_, tail, _ = strings.Cut(tail, `",`)
	if want := `POST /in {"hook":"workspace:feed.json::ops-feed","point":"beforeToolCall",`; head != want {
		t.Errorf("got %s, want %s", head, want)
	}
	if want := `"event":{"type":"toolCall","tool_name":"pay","context":"chat","parameter_count":2},"metadata_present":false}`; tail != want {
		t.Errorf("got %s, want %s", tail, want)
	}
}

// A public name whose address is on this machine reaches no server.
//
// Proves: IC-61, IC-62
func TestFeedRebound(t *testing.T) {
	t.Parallel()
	var dialed atomic.Bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { dialed.Store(true) }))
	t.Cleanup(server.Close)
	hooks, client, dropped := feed(t, server, "", func(bundle string) string { return bundle })
	if outcome, err := hooks.Run(t.Context(), call); outcome != ironclaw.OK() || err != nil {
		t.Errorf("%v, %v", outcome, err)
	}
	var fault *outbound.Error
	if err := <-dropped; !errors.As(err, &fault) || fault.Fault != outbound.DNSForbiddenIP {
		t.Errorf("error %v (%q), want a forbidden address", err, fault.Fault)
	}
	if err := client.Close(t.Context()); err != nil || dialed.Load() {
		t.Errorf("%v, dialed %v", err, dialed.Load())
	}
}
