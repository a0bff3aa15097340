package load_test

import (
	"os"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
)

// FuzzTrustRecord: for any change of a trust record, the closed gate stays closed, and only the
// trusted hooks make decisions.
func FuzzTrustRecord(f *testing.F) {
	p := newProject(f, gate)
	p.trust()
	kept, err := os.ReadFile(p.record())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(kept)
	f.Add(kept[:len(kept)/2])
	f.Add([]byte(strings.Replace(string(kept), "/", "\\/", 1)))
	f.Add([]byte(`{"file":"` + p.file + `","sha256":"../../x","pins":[{"path":"/etc/passwd","hooks":[""]}]}`))
	f.Add([]byte(`{"file":"` + p.file + `","sha256":"","pins":null}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, record []byte) {
		mine := *p
		mine.t = t
		if err := os.WriteFile(mine.record(), record, 0o600); err != nil {
			t.Fatal(err)
		}
		_, e := mine.load()
		if v := e.Fire(t.Context(), fixture.Shell("touch x")); v.Decision != grapnel.Block {
			t.Errorf("with the record %q a block becomes %v", record, v.Decision)
		}
		if v := e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}}); v.Decision != grapnel.None {
			t.Errorf("with the record %q a prompt becomes %v", record, v.Decision)
		}
	})
}
