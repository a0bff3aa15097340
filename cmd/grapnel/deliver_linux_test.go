//go:build system

package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestDeliver runs "grapnel deliver" against a server on loopback. A variable that only Linux
// supports adds its certificate to the trusted ones.
func TestDeliver(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/deliver",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err == nil {
					err = os.WriteFile(filepath.Join(env.WorkDir, "got.json"), body, 0o600)
				}
				if err != nil {
					t.Error(err)
				}
			}))
			env.Defer(server.Close)
			known := filepath.Join(env.WorkDir, "known.pem")
			env.Setenv("URL", server.URL)
			env.Setenv("SSL_CERT_FILE", known)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return os.WriteFile(known, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"expand": expand,
			"save":   save,
		},
	})
}
