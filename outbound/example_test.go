package outbound_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/outbound"
)

// A server decides. If it does not answer, the call is blocked.
func ExampleClient_Hook() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"decision": "block", "reason": "No deployments on Friday."}`)
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	client := outbound.NewClient(&outbound.Options{ // use nil for a server with a public address
		Guard:   outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		RootCAs: roots,
	})
	defer func() { _ = client.Close(context.Background()) }()
	hook, err := client.Hook(outbound.HookConfig{Name: "company-policy", URL: server.URL + "/decide"})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "company-policy", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: hook,
		Timeout: 30 * time.Second, OnError: grapnel.OnErrorClosed,
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	verdict := engine.Fire(context.Background(), &grapnel.Event{
		Kind: grapnel.ToolBefore,
		Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"deploy"}`)},
	})
	fmt.Println(verdict.Decision, verdict.Reason())
	// Output: block No deployments on Friday.
}
