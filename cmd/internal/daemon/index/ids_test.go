package index

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A short ID is found again, and is the shortest prefix of at least 10 digits that is not
// ambiguous, wherever the neighbors of the Record are.
func TestIDs(t *testing.T) {
	t.Parallel()
	empty := begin(t)
	ids := empty.IDs(t.Context())
	if short := ids.Short(t.Context(), "01a20a8b6652d73c"); short != "01a20a8b66" {
		t.Errorf("in an empty log: %q", short)
	}
	ids.Close()

	all := []string{"01a20a8b6652000000000000", "01a20a8b6652ffff00000000", "01a20a8b7000000000000000", "01b000000000000000000000", "short"}
	for i := range 200 {
		all = append(all, fmt.Sprintf("02%010x%012x", i*100_000, i))
	}
	list := make([]spool.Entry, len(all))
	for i, id := range all {
		list[i*77%len(all)] = entry(id) // in any order
	}
	states(t, list, func(t *testing.T, p *place) {
		p.raw("\n{\"id\":\"torn\n")
		if t.Name() == "TestIDs/complete" {
			p.index()
		}
		ids := p.IDs(t.Context())
		defer ids.Close()
		for i, want := range []string{"01a20a8b66520", "01a20a8b6652f", "01a20a8b70", "01b0000000", "short"} {
			if short := ids.Short(t.Context(), all[i]); short != want {
				t.Errorf("Short(%s) = %s, want %s", all[i], short, want)
			}
		}
		for _, id := range all { // in the order of a log, and again in the other order
			short := ids.Short(t.Context(), id)
			if found, err := ids.Find(t.Context(), short, 2); err != nil || len(found) != 1 || found[0] != id {
				t.Errorf("Find(%s) = %v, %v, want %s", short, found, err, id)
			}
		}
		for _, id := range slices.Backward(all) {
			if short := ids.Short(t.Context(), id); !strings.HasPrefix(id, short) {
				t.Errorf("Short(%s) = %s", id, short)
			}
		}
		for prefix, want := range map[string][]string{"01a20a8b": all[:3], "01a20a8b6652f": all[1:2], "7": nil, "torn": nil} {
			found, err := ids.Find(t.Context(), prefix, 5)
			if diff := cmp.Diff(want, append([]string(nil), found...)); diff != "" || err != nil {
				t.Errorf("Find(%s): %v (-want +got):\n%s", prefix, err, diff)
			}
		}
		if found, err := ids.Find(t.Context(), "02", 3); len(found) != 3 || err != nil {
			t.Errorf("Find with a limit = %v, %v", found, err)
		}
		p.wantShown(Query{ID: all[0]}, all[0])

		// A log that is followed: new events are unknown, but do not become ambiguous.
		first, second := ids.Short(t.Context(), "zfffffffffff0"), ids.Short(t.Context(), "zfffffffffff1")
		if t.Name() != "TestIDs/complete" && (first != "zfffffffff" || second != "zfffffffffff1") {
			t.Errorf("new events: %s, %s", first, second)
		}
	})
}
