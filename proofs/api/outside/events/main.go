// Program events uses the packages grapnel, builtin, process and outbound as another module does:
// functions, a program and a server answer many events at once.
package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/process"
)

const parallel = 20

// An audit collects the lines of the audit log and counts observed events.
type audit struct {
	mu       sync.Mutex
	lines    int
	observed atomic.Int64
}

func (a *audit) write(line []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines += bytes.Count(line, []byte("\n"))
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := goleak.Find(); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"message": "The server has no objection."}`)
	}))
	defer server.Close()
	client, err := connect(server)
	if err != nil {
		return err
	}
	hook, err := client.Hook(outbound.HookConfig{Name: "server", URL: server.URL})
	if err != nil {
		return err
	}
	var a audit
	engine, err := grapnel.New(specs(&a, hook), nil)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2*parallel)
	for range parallel {
		wg.Go(func() { errs <- expect(ctx, engine, "make deploy", grapnel.Ask, "Are you sure?") })
		wg.Go(func() { errs <- expect(ctx, engine, "shutdown now", grapnel.Block, "This machine stays on.") })
	}
	wg.Wait()
	for range 2 * parallel {
		if err := <-errs; err != nil {
			return err
		}
	}
	if err := engine.Close(ctx); err != nil {
		return err
	}
	if a.lines != 2*parallel || a.observed.Load() != 2*parallel {
		return fmt.Errorf("%d lines of the audit and %d observed events, want %d", a.lines, a.observed.Load(), 2*parallel)
	}
	return client.Close(ctx)
}

func connect(server *httptest.Server) (*outbound.Client, error) {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	loopback, err := netip.ParsePrefix("127.0.0.0/8")
	return outbound.NewClient(&outbound.Options{Guard: outbound.Guard{Networks: []netip.Prefix{loopback}}, RootCAs: roots}), err
}

// specs returns hooks of each kind. The guard is a rule: it answers before programs and servers.
func specs(a *audit, server grapnel.Hook) []grapnel.Spec {
	before := []grapnel.Kind{grapnel.ToolBefore}
	return []grapnel.Spec{
		builtin.Audit("audit", a.write),
		{
			Name: "no-shutdown", On: before, Tools: []string{"shell"}, Phase: grapnel.PhaseRule,
			Hook: grapnel.Guard(func(ev *grapnel.Event) string {
				if strings.HasPrefix(ev.Tool.Commands[0], "shutdown") {
					return "This machine stays on."
				}
				return ""
			}),
		},
		{
			Name: "program", On: before, Timeout: time.Minute, OnError: grapnel.OnErrorClosed,
			Hook: &process.Command{Name: "program", Line: `echo '{"decision":"ask","reason":"Are you sure?"}'`, Executor: process.System},
		},
		{Name: "server", On: before, Hook: server, Timeout: time.Minute, OnError: grapnel.OnErrorClosed},
		{Name: "observer", On: before, Phase: grapnel.PhaseObserve, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) { a.observed.Add(1) })},
	}
}

func expect(ctx context.Context, engine *grapnel.Engine, line string, want grapnel.Decision, reason string) error {
	input, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return err
	}
	v := engine.Fire(ctx, &grapnel.Event{
		Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: input},
	})
	if v.Decision != want || v.Reason() != reason || v.Err != nil {
		return fmt.Errorf("%s: %v, %q, want %v, %q: %w", line, v.Decision, v.Reason(), want, reason, v.Err)
	}
	return nil
}
