//go:build linux || darwin

package hookcmd

import (
	"encoding/json"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// A Record says where, by which policies and at which costs an event was judged, and the reserved
// fields are empty.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for response, want := range map[string][2]int{
		`{"usage":{"prompt_tokens":3,"completion_tokens":4}}`:               {3, 4},
		`{"usage":{"input_tokens":5,"output_tokens":6}}`:                    {5, 6},
		`{"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":8}}`: {7, 8},
		`{"usage":{"prompt_tokens":-1}}`:                                    {},
		`{"usage":"many"}`:                                                  {},
		``:                                                                  {},
	} {
		rec := grapnel.Record{Event: grapnel.ModelAfter, Input: &grapnel.Event{Model: &grapnel.Model{Response: json.RawMessage(response)}}}
		local.Identity{Host: "h", User: "u", Machine: "m"}.Mark(&rec, nil, "d")
		if got := [2]int{rec.TokensIn, rec.TokensOut}; got != want || rec.Host != "h" || rec.User != "u" || rec.Machine != "m" || rec.PolicyDigest != "d" {
			t.Errorf("%s: %+v, want tokens %v", response, rec, want)
		}
	}
}

// The Records of a hook program have these fields, and all Records of a policy the same digest.
func TestRecordsHaveTheirOrigin(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\n")
	for range 2 {
		program([]string{"claude-code", "--root", root}, bash("s", "ls"))
	}
	var all []spool.Entry
	for e, err := range spool.Read(root+"/state", spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if len(all) != 2 {
		t.Fatalf("%d Records", len(all))
	}
	a, b := all[0], all[1]
	if a.Host == "" || a.User == "" || a.Machine == "" || len(a.PolicyDigest) != 64 || a.Machine != b.Machine || a.PolicyDigest != b.PolicyDigest {
		t.Errorf("%+v\n%+v", a, b)
	}
	if a.PolicyRevision+a.Approval+a.Provenance+a.Gateway != "" || a.TokensIn+a.TokensOut != 0 {
		t.Errorf("reserved fields are set: %+v", a)
	}
}
