package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// `approve:` has a time, a decision without an answer, and the names of observing hooks of the file.
func TestApprove(t *testing.T) {
	t.Parallel()
	const others = `
  - {name: phone, on: notification.sent, notify: "https://example.com/x"}
  - {name: bell, on: notification.sent, run: "true", async: true}
  - {name: guard, on: tool.before, run: "true"}
`
	for in, want := range map[string]string{
		`ask: ok?, approve: {within: 10m, else: ask, notify: [phone, bell]}`: "",
		`ask: ok?, approve: {within: 10m, notify: phone}`:                    "",
		`block: no, approve: {within: 10m}`:                                  "`approve` needs `ask`",
		`ask: ok?, approve: {}`:                                              "`approve` has no `within`",
		`ask: ok?, approve: {within: 0s}`:                                    "must be more than 0",
		`ask: ok?, approve: {within: 25h}`:                                   "a person answers within 1s to 24h0m0s",
		`ask: ok?, approve: {within: 10m, else: allow}`:                      `"allow"`,
		`ask: ok?, approve: {within: 10m, notify: [guard]}`:                  `no hook of this file with the name "guard" observes`,
		`ask: ok?, approve: {within: 10m, notify: nobody}`:                   `no hook of this file with the name "nobody" observes`,
		`ask: ok?, approve: 10m`:                                             "approve must be",
		`ask: ok?, approve: {within: 10m, who: me}`:                          `unknown key "who"`,
	} {
		p, errs := policy.Parse("x.yaml", []byte("version: 1\nhooks:\n  - {name: x, on: tool.before, "+in+"}"+others))
		if want == "" {
			if len(errs) > 0 || p.Hooks[0].Approve == nil {
				t.Errorf("%s: %v", in, errs)
			}
			continue
		}
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want %s", in, errs, want)
		}
	}
	p, _ := policy.Parse("x.yaml", []byte("version: 1\nhooks:\n  - {name: x, on: tool.before, ask: ok?, approve: {within: 10m, else: ask, notify: [phone, bell]}}"+others))
	want := &policyfile.Approve{Within: policyfile.Duration(10 * time.Minute), Else: "ask", Notify: []string{"phone", "bell"}}
	if diff := cmp.Diff(want, p.Hooks[0].Approve); diff != "" {
		t.Error(diff)
	}
}
