package conformance_test

import (
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// Errors in a webhook have IronClaw's names and order.
//
// Proves: IC-41, IC-45, IC-56, IC-58, IC-60, IC-61, IC-64
func TestIronClawWebhookErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fields string // fields in addition to the name
		kind   string // empty = it is registered
	}{
		"good":               {`"points": ["onSessionEnd"], "url": "https://example.com:8443/hook", "headers": {"X-Team": "a"}, "timeout_ms": 30000, "max_in_flight": 1`, ""},
		"no points":          {`"points": [], "url": "nothing", "headers": {"Host": "a"}, "timeout_ms": 0, "max_in_flight": 0`, "missing_points"},
		"no URL":             {`"points": ["onSessionEnd"], "url": "nothing", "headers": {"Host": "a"}, "timeout_ms": 0`, "invalid_webhook_url"},
		"scheme":             {`"points": ["onSessionEnd"], "url": "http://localhost/", "headers": {"Host": "a"}`, "invalid_webhook_scheme"},
		"user":               {`"points": ["onSessionEnd"], "url": "https://a:b@localhost/", "headers": {"Host": "a"}`, "invalid_webhook_url"},
		"host":               {`"points": ["onSessionEnd"], "url": "https://localhost/", "headers": {"Host": "a"}, "timeout_ms": 0`, "forbidden_webhook_host"},
		"address":            {`"points": ["onSessionEnd"], "url": "https://169.254.169.254/", "timeout_ms": 0`, "forbidden_webhook_host"},
		"name, repaired":     {`"points": ["onSessionEnd"], "url": "https://%6cocalhost/", "timeout_ms": 0`, "forbidden_webhook_host"},
		"address, repaired":  {`"points": ["onSessionEnd"], "url": "https:127%2e0.0.1/", "timeout_ms": 0`, "forbidden_webhook_host"},
		"scheme, repaired":   {`"points": ["onSessionEnd"], "url": "http:\\\\a.example\\x", "timeout_ms": 0`, "invalid_webhook_scheme"},
		"cannot be repaired": {`"points": ["onSessionEnd"], "url": "https://", "timeout_ms": 0`, "invalid_webhook_url"},
		"address, otherwise": {`"points": ["onSessionEnd"], "url": "https://2130706433/", "timeout_ms": 0`, "forbidden_webhook_host"},
		"forbidden header":   {`"points": ["onSessionEnd"], "url": "https://example.com/", "headers": {"Authorization": "a"}, "timeout_ms": 0`, "forbidden_webhook_header"},
		"bad header":         {`"points": ["onSessionEnd"], "url": "https://example.com/", "headers": {"X Team": "a"}, "timeout_ms": 0`, "invalid_webhook_header"},
		"timeout":            {`"points": ["onSessionEnd"], "url": "https://example.com/", "timeout_ms": 30001, "max_in_flight": 0`, "invalid_timeout"},
		"max_in_flight":      {`"points": ["onSessionEnd"], "url": "https://example.com/", "max_in_flight": 0`, "invalid_webhook_max_in_flight"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect := `{"hooks": 0, "outbound_webhooks": 1, "errors": 0, "error_kinds": [], "list": ["workspace:hooks/hooks.json::w"]}`
			if tt.kind != "" {
				expect = fmt.Sprintf(`{"hooks": 0, "outbound_webhooks": 0, "errors": 1, "error_kinds": [%q], "list": []}`, tt.kind)
			}
			r := runOne(t, fmt.Sprintf(`{"id": "b", "dialect": "ironclaw", "kind": "bundle", "source": "workspace:hooks/hooks.json",
				"bundle": {"outbound_webhooks": [{"name": "w", %s}]}, "expect": %s}`, tt.fields, expect), nil)
			if r.Status != conformance.Passed {
				t.Error(&r)
			}
		})
	}
}

// The words of the kinds about files.
//
// Proves: IC-34, IC-37, IC-38, IC-40
func TestIronClawFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want conformance.Status
	}{
		"a hook file":       {`"kind": "file_filter", "path": "hooks/deep/x.hook.json", "expect": {"is_hook_file": true}`, conformance.Passed},
		"no hook file":      {`"kind": "file_filter", "path": "hooks/sub/hooks.json", "expect": {"is_hook_file": false}`, conformance.Passed},
		"not below hooks":   {`"kind": "file_filter", "path": "x.hook.json", "expect": {"is_hook_file": true}`, conformance.Failed},
		"unknown key":       {`"kind": "file_filter", "file": "x.hook.json", "expect": {"is_hook_file": false}`, conformance.Failed},
		"no workspace":      {`"kind": "bootstrap", "given": {"plugins": {}, "workspace": null}, "expect": {"total": 1, "list": ["builtin.audit_log"]}`, conformance.Passed},
		"raw text":          {`"kind": "bootstrap", "given": {"workspace": {"hooks/hooks.json": "[]", "hooks/x.hook.json": "", "a.json": "{"}}, "expect": {"total": 1, "errors": 1}`, conformance.Passed},
		"a count is wrong":  {`"kind": "bootstrap", "given": {"plugins": {}}, "expect": {"total": 2}`, conformance.Failed},
		"an unknown word":   {`"kind": "bootstrap", "given": {"plugin": {}}, "expect": {"total": 1}`, conformance.Failed},
		"a string":          {`"kind": "bundle", "source": "workspace:hooks/hooks.json", "bundle": "{}", "expect": {"errors": 1}`, conformance.Passed},
		"a string, wrongly": {`"kind": "bundle", "source": "workspace:hooks/hooks.json", "bundle": "{}", "expect": {"errors": 0}`, conformance.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := runOne(t, `{"id": "f", "dialect": "ironclaw", `+tt.text+`}`, nil); r.Status != tt.want {
				t.Errorf("status %s, want %s: %v", r.Status, tt.want, &r)
			}
		})
	}
}
