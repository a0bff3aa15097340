//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package agenthooks

import (
	"encoding/json"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// A vector can fail: it fails if any part of its expectation is changed.
func TestVectorsCanFail(t *testing.T) {
	t.Parallel()
	vectors, err := vectorsIn(ownVectors)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		if i%4 != 0 { // a quarter of them covers all expectations
			continue
		}
		for what, spoil := range map[string]func(*expect) bool{
			"interceptions": func(e *expect) bool {
				*e.Interceptions = append([]interception{{Point: "agent_shutdown"}, {Point: "agent_startup"}}, *e.Interceptions...)
				return true
			},
			"context": func(e *expect) bool {
				for i := range *e.Interceptions {
					if each := &(*e.Interceptions)[i]; len(each.Context) > 0 {
						each.Context = map[string]json.RawMessage{"session.id": json.RawMessage(`"another"`)}
						return true
					}
				}
				return false
			},
			"outcome": func(e *expect) bool {
				e.RunOutcome, e.ByPosture = "error", nil
				return true
			},
			"final_output": func(e *expect) bool {
				e.FinalOutput = json.RawMessage(`{"another":1}`)
				return true
			},
			"tool_invocations": func(e *expect) bool {
				e.Invocations = &[]invocation{{Name: "another", Args: json.RawMessage(`{}`)}}
				return true
			},
			"records": func(e *expect) bool {
				e.Records = &[]recordPattern{{Point: "agent_startup", Assert: map[string]json.RawMessage{"verdict.decision": json.RawMessage(`"another"`)}}}
				return true
			},
			"absent": func(e *expect) bool {
				e.Records = &[]recordPattern{{Point: "agent_startup", Absent: []string{"decided_by"}}}
				return true
			},
			"present": func(e *expect) bool {
				e.Records = &[]recordPattern{{Point: "agent_startup", Present: []string{"resolved_by"}}}
				return true
			},
			"identities_equal": func(e *expect) bool {
				was := e.IdentitiesEqual
				if was == nil {
					return false
				}
				now := !*was
				e.IdentitiesEqual = &now
				return true
			},
			"released_output": func(e *expect) bool {
				another := "another"
				e.Released = &another
				return true
			},
			"persisted": func(e *expect) bool {
				e.NotPersisted = []string{"agent_startup"}
				return true
			},
		} {
			spoiled := reload(t, v.file)
			if !spoil(spoiled.Expect) {
				continue
			}
			cases := []conformance.Case{(&Options{}).caseOf(&spoiled)}
			if r := conformance.Run(t.Context(), cases, nil)[0]; r.Status != conformance.Failed || len(r.Diffs) == 0 {
				t.Errorf("%s passes with other %s: %+v", v.ID, what, r)
			}
		}
	}
}
