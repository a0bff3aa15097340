package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// A case about the guard fails exactly for the differences in its result.
func TestGuardCases(t *testing.T) {
	t.Parallel()
	const at = `"url": "https://hooks.example.com/", `
	for name, tt := range map[string]struct {
		text string // members after the dialect
		want string // part of the error; empty = it passes
	}{
		"url":                      {`"kind": "url", "url": "https://10.0.0.1/", "expect": "deny", "reason": ["bad_url", "forbidden_ip"]`, ``},
		"url, allowed":             {`"kind": "url", "url": "https://10.0.0.1/", "expect": "allow", "reason": ["ok"]`, `expect`},
		"url, other reason":        {`"kind": "url", "url": "https://10.0.0.1/", "expect": "deny", "reason": ["bad_url"]`, `reason`},
		"url, other host":          {`"kind": "url", "url": "https://EXAMPLE.com/", "expect": "allow", "reason": ["ok"], "expect_host": "EXAMPLE.com"`, `expect_host`},
		"url, an address":          {`"kind": "url", "url": "https://[2606:4700:0::1]/", "expect": "allow", "reason": ["ok"], "expect_host": "[2606:4700::1]"`, ``},
		"url, other address":       {`"kind": "url", "url": "https://[2606:4700::1]/", "expect": "allow", "reason": ["ok"], "expect_host": "2606:4700::2"`, `expect_host`},
		"url, no host":             {`"kind": "url", "url": "https://", "expect": "deny", "reason": ["no_host"], "expect_host": "a"`, `expect_host`},
		"url, unknown key":         {`"kind": "url", "uri": "https://", "expect": "deny", "reason": ["no_host"]`, `cannot read the case`},
		"header":                   {`"kind": "header", "header": "X-A", "value": "b", "expect": "deny", "reason": ["bad_header"]`, `expect`},
		"headers":                  {`"kind": "header_set", "headers": [["A", "b"], ["B", "b"]], "expect": "deny", "reason": ["bad_header"]`, `expect`},
		"dns":                      {`"kind": "dns", ` + at + `"check": [["10.0.0.1"], ["1.1.1.1"]], "connect": [], "expect": "deny", "reason": ["dns_forbidden_ip"]`, `expect`},
		"dns, whose url":           {`"kind": "dns", "url": "https://localhost/", "check": [["1.1.1.1"]], "connect": ["1.1.1.1"], "expect": "allow", "reason": ["ok"]`, ``},
		"dns, pinned":              {`"kind": "dns", ` + at + `"check": [["1.1.1.1"]], "connect": ["1.1.1.1"], "expect": "direct", "reason": ["pinned"]`, ``},
		"dns, not pinned":          {`"kind": "dns", ` + at + `"check": [["10.0.0.1"]], "connect": ["1.1.1.1"], "expect": "deny", "reason": ["pinned"]`, `reason`},
		"dns, other spelling":      {`"kind": "dns", ` + at + `"check": [["2606:2800:220:1::25C8:1946", "64:ff9b::8.8.8.8"]], "connect": [], "expect": "allow", "reason": ["ok"]`, ``},
		"dns, mapped in groups":    {`"kind": "dns", ` + at + `"check": [["::ffff:5db8:d822"]], "connect": [], "expect": "ok", "reason": ["ok"]`, ``},
		"transport, requests":      {`"kind": "transport", ` + at + `"expect": "ok", "reason": ["ok"], "requests_sent": 2, "delivered": false`, `requests_sent`},
		"transport, not delivered": {`"kind": "transport", ` + at + `"expect": "ok", "reason": ["ok"], "delivered": false`, `delivered`},
		"transport, no cap":        {`"kind": "transport", ` + at + `"response": {"body_bytes": 10}, "expect": "ok", "reason": ["body_cap"]`, `reason`},
		"transport, no proxy":      {`"kind": "transport", ` + at + `"expect": "ok", "reason": ["proxy_ignored"]`, `reason`},
		"transport, no other way":  {`"kind": "transport", ` + at + `"expect": "direct", "reason": ["alt_svc_ignored"]`, `reason`},
		"transport, public":        {`"kind": "transport", ` + at + `"operator_allow": ["10.0.0.0/8"], "expect": "ok", "reason": ["operator_allow"]`, `reason`},
		"transport, network":       {`"kind": "transport", ` + at + `"operator_allow": ["10.0.0.1"], "expect": "ok", "reason": ["ok"]`, `network "10.0.0.1"`},
		"transport, status":        {`"kind": "transport", ` + at + `"response": {"status": 500}, "expect": "fail", "reason": ["refused"], "requests_sent": 1`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runOne(t, `{"id": "x", "dialect": "ssrf", `+tt.text+`}`, nil)
			if got := r.String(); (r.Status == conformance.Passed) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("status %s, want %q to be wrong\n%s", r.Status, tt.want, got)
			}
		})
	}
}

// The same for webhooks.
//
// Proves: IC-56, IC-57, IC-65, IC-66, IC-67
func TestWebhookCases(t *testing.T) {
	t.Parallel()
	hook := func(kind, behaviour, more string) string {
		return fmt.Sprintf(`{"id": "x", "dialect": "ironclaw", "kind": %q, "event": "tool.before", "input": {"user_id": "user-1", "tool_name": "shell", "tool_input": {"a": "secret"}},
			"plan": {"hooks": [{"name": "w", "kind": "webhook", "behaviour": {"url": "https://example.com/" %s}}]}, %s}`, kind, behaviour, more)
	}
	operations := func(ops string) string {
		return `{"id": "x", "dialect": "ironclaw", "kind": "registry", "ops": [` + ops + `]}`
	}
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"body":               {hook("webhook_body", ``, `"expect": {"method": "POST", "headers": {"Content-Type": "application/json"}, "body_must_not_contain": ["user-1", "secret"], "ran": ["w"]}`), ``},
		"body, header":       {hook("webhook_body", `, "headers": {"X-Team": "a"}`, `"expect": {"headers": {"x-team": "a"}, "decision": "continue"}`), ``},
		"body, other header": {hook("webhook_body", ``, `"expect": {"headers": {"content-type": "text/plain"}}`), `headers`},
		"body, contains":     {hook("webhook_body", ``, `"expect": {"body_must_not_contain": ["shell"]}`), `body_must_not_contain`},
		"body, member":       {hook("webhook_body", ``, `"expect": {"body": {"hook": "w"}}`), `body`},
		"body, not sent":     {hook("webhook_body", `, "points": ["onSessionEnd"]`, `"expect": {}`), `requests`},
		"body, unknown key":  {hook("webhook_body", `, "retries": 3`, `"expect": {}`), `unknown field "retries"`},
		"refused":            {hook("webhook_body", `, "timeout_ms": 0`, `"expect": {}`), `timeout`},
		"delivery":           {hook("webhook_delivery", ``, `"dispatches": 3, "server": {}, "expect": {"requests": 3, "requests_min": 3, "recorded": null, "over_limit": 0, "queued": 0, "warnings": []}`), ``},
		"delivery, too many": {hook("webhook_delivery", `, "max_in_flight": 1`, `"dispatches": 3, "server": {"delay_ms": 300}, "expect": {"requests_max": 1, "over_limit": 2, "warnings": [{"hook": "w", "class": "dropped_in_flight"}]}`), ``},
		"delivery, at once":  {hook("webhook_delivery", ``, `"dispatches": 3, "server": {"delay_ms": 300}, "expect": {"requests_max": 1}`), `requests_max`},
		"delivery, late":     {hook("webhook_delivery", ``, `"server": {"delay_ms": 300}, "expect": {"delivery_max_ms": 100}`), `delivery_max_ms`},
		"delivery, refused":  {hook("webhook_delivery", ``, `"server": {"refuse": true}, "expect": {"requests": 0, "recorded": "delivery_failed", "warnings": []}`), ``},
		"in a chain": {`{"id": "x", "dialect": "ironclaw", "kind": "dispatch", "event": "prompt.before", "input": {"prompt": "a"}, "plan": {"hooks": [
			{"name": "w", "kind": "webhook", "behaviour": {"url": "https://example.com/"}}, {"name": "b", "kind": "func", "behaviour": {"op": "block", "reason": "no"}}]},
			"expect": {"decision": "block", "ran": ["b"], "not_ran": ["w"]}}`, ``},
		"priority":   {operations(`{"do": "register", "hook": {"name": "w", "kind": "webhook", "behaviour": {"url": "https://example.com/"}}}, {"do": "register", "hook": {"name": "f", "kind": "func"}}, {"do": "register", "hook": {"name": "late", "kind": "func", "priority": 301}}, {"do": "list", "expect": ["f", "w", "late"]}, {"do": "effective_timeout", "hook": {"name": "w", "kind": "webhook", "behaviour": {"url": "https://example.com/"}}, "expect": 2000}`), ``},
		"not https":  {operations(`{"do": "register", "hook": {"name": "w", "kind": "webhook", "behaviour": {"url": "http://example.com/"}}, "expect_error": true}`), ``},
		"own points": {operations(`{"do": "register", "hook": {"name": "w", "kind": "webhook", "behaviour": {"url": "https://example.com/", "points": ["onSessionEnd"], "priority": 1}}}, {"do": "list", "event": "tool.before", "expect": []}, {"do": "list", "event": "session.end", "expect": ["w"]}`), ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runOne(t, tt.text, nil)
			if got := r.String(); (r.Status == conformance.Passed) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("status %s, want %q to be wrong\n%s", r.Status, tt.want, got)
			}
		})
	}
}
