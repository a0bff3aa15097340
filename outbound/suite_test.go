package outbound

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/hooktest"
)

// A webhook passes the suite for hooks, also if its server does not exist.
func TestWebhookHoldsTheLaws(t *testing.T) {
	t.Parallel()
	nowhere := names(func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") })
	client := NewClient(&Options{Resolver: nowhere, Failed: func(string, error) {}})
	hook, err := client.Webhook(Config{Name: "team", URL: "https://hooks.example.com/agents"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // when all subtests have ended
		if err := client.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	hooktest.TestHook(t, grapnel.Spec{Name: "team", Phase: grapnel.PhaseObserve, Hook: hook})
}
