//go:build system && unix

package main

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestWebhook tests the delivery of an event to a webhook of a foreign file through all parts:
// grapnel-hook, the outbox, the drain, "grapnel deliver", and a server on loopback. A delivery
// starts without the variables that add trusted certificates, so it does not trust the server's
// certificate. The test checks that the server was dialed, and the reported result.
//
// Proves: IC-57, IC-61, IC-62, IC-68
func TestWebhook(t *testing.T) {
	t.Parallel()
	type count struct{ dialled, asked atomic.Int32 }
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/webhook",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			n := new(count)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.asked.Add(1) }))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					n.dialled.Add(1)
				}
			}
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake fails, as it should
			server.StartTLS()
			env.Defer(server.Close)
			env.Values[t.Name()] = n
			env.Setenv("URL", server.URL)
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			known := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			return errors.Join(os.MkdirAll(env.WorkDir+"/home", 0o700), os.WriteFile(env.WorkDir+"/known.pem", known, 0o600))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"until": until,
			"lines": lines,
			// dialled expects N connections to the server and no request: dialled N
			"dialled": func(ts *testscript.TestScript, _ bool, args []string) {
				n := ts.Value(t.Name()).(*count)
				if dialled, asked := n.dialled.Load(), n.asked.Load(); strconv.Itoa(int(dialled)) != args[0] || asked != 0 {
					ts.Fatalf("%d connections and %d requests, want %s and none", dialled, asked, args[0])
				}
			},
			"expand": expand,
			"save":   save,
		},
	})
}
