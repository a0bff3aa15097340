package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
)

// The reply has the ID of the message. The ID of the firing, which identifies the Record, is
// different. A program's question sets the ID of the firing.
func TestIDs(t *testing.T) {
	t.Parallel()
	var firings []string
	h := Handler(Options{Version: "1 next", Answer: func(_ context.Context, q *client.Question) (*client.Answer, error) {
		firings = append(firings, q.Firing)
		return &client.Answer{}, nil
	}})
	for _, kind := range []string{"application/json", "application/octet-stream"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, client.Path, strings.NewReader(`{"type":"event","id":"7","event":{}}`))
		r.Header.Set("Content-Type", kind)
		r.Header.Set(client.HeaderVersion, "1%20next%2F"+client.Version)
		r.Header.Set(client.HeaderFiring, "f%20g")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || kind == "application/json" && !strings.Contains(w.Body.String(), `"id":"7"`) {
			t.Errorf("%s is answered %d: %s", kind, w.Code, w.Body)
		}
	}
	if len(firings) != 2 || firings[0] != "" || firings[1] != "f g" {
		t.Errorf("the firings are %q, want none and %q", firings, "f g")
	}
}

// A panic affects only one event.
func TestPanic(t *testing.T) {
	t.Parallel()
	var declined []string
	h := Handler(Options{Version: "1", Answer: func(context.Context, *client.Question) (*client.Answer, error) { panic("oh") }, Declined: func(why string) { declined = append(declined, why) }})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, client.Path, strings.NewReader("{}"))
	r.Header.Set(client.HeaderVersion, "1/"+client.Version)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusConflict || len(declined) != 1 || declined[0] != "error" {
		t.Errorf("answered %d: %s, declined %q", w.Code, w.Body, declined)
	}
}
