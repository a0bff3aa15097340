package cli

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	hooks := []grapnel.HookRun{
		{Name: "no-rm", Source: "/p/grapnel.yaml"},
		{Name: "no-rm", Source: "/p/grapnel.yaml#destructive"},
		{Name: "no-rm", Source: "/p/grapnel.yaml"},
		{Name: "twice", Source: "a"},
		{Name: "twice", Source: "a"},
		{Name: "bad\x1b", Source: "b"},
	}
	got := Labels(hooks, func(h *grapnel.HookRun) (string, string) { return h.Name, h.Source })
	want := []string{"no-rm (grapnel.yaml)", "no-rm (destructive)", "no-rm (grapnel.yaml)", "twice", "twice", "bad\uFFFD"}
	if !slices.Equal(got, want) {
		t.Errorf("Labels = %q, want %q", got, want)
	}
}
