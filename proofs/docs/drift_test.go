package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Limits in pages agree with the code.
func TestLimits(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, limit := range []struct{ page, sentence string }{
		{"policy-keys.md", fmt.Sprintf("default: %v |", policyfile.DefaultTimeout)},
		{"policy.md", fmt.Sprintf("document of at most %d MiB", yaml.MaxSize/mib)},
		{"troubleshooting.md", fmt.Sprintf("It lasts between one second and %.0f hours", pause.Max.Hours())},
		{"agents/openclaw.md", fmt.Sprintf("has not answered after %.0f seconds", dialect.OpenClaw().Setup().Deadline.Seconds())},
		{"agents/opencode.md", fmt.Sprintf("has not answered after %.0f seconds", dialect.OpenCode().Setup().Deadline.Seconds())},
		{"http-hooks.md", fmt.Sprintf("`timeout` is at most %v; the default is the timeout in `defaults`, or %v", policyfile.MaxHTTPTimeout, policyfile.DefaultTimeout)},
		{"http-hooks.md", fmt.Sprintf("After %d failures in a row, the circuit breaker opens: for %.0f seconds", circuit.DefaultFailures, circuit.DefaultCooldown.Seconds())},
		{"webhooks.md", fmt.Sprintf("of one attempt, up to %v", policyfile.MaxHTTPTimeout)},
		{"webhooks.md", fmt.Sprintf("seconds or a date, at most %.0f hours", outbound.MaxRetryAfter.Hours())},
		{"workers.md", fmt.Sprintf("sends no hello within %.0f s", process.DefaultHello.Seconds())},
		{"daemon.md", fmt.Sprintf("`grapnel-hook` waits %.1f s, then evaluates the event itself", client.Beginning.Seconds())},
		{"concepts.md", fmt.Sprintf("more than %d MiB; the event's name is still readable", dialect.MaxPayload/mib)},
		{"concepts.md", fmt.Sprintf("shell lines together have more than %d MiB", match.MaxShellBytes/mib)},
		{"built-in-hooks.md", fmt.Sprintf("exceeds %d MiB", builtin.MaxFile/mib)},
		{"built-in-hooks.md", fmt.Sprintf("# %.0f s when absent", builtin.SummaryTimeout.Seconds())},
	} {
		if text := strings.Join(strings.Fields(readPage(t, limit.page)), " "); !strings.Contains(text, limit.sentence) {
			t.Errorf("%s does not contain %q: the limit in the code or the page has changed", limit.page, limit.sentence)
		}
	}
}

var version = regexp.MustCompile(`/v\d+$`)

var requirement = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`) // without "// indirect"

// decisions/packages.md gives a reason for each module that the project requires, and
// for no other.
func TestDependencies(t *testing.T) {
	t.Parallel()
	var required []string
	for _, file := range []string{"../go.mod", "../cmd/go.mod", "../proofs/go.mod"} {
		data, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range requirement.FindAllStringSubmatch(string(data), -1) {
			if !strings.HasPrefix(m[1], "github.com/grapnel-dev/") {
				required = append(required, m[1])
			}
		}
	}
	if len(required) < 20 {
		t.Fatalf("only %d requirements found: %q", len(required), required)
	}
	_, page, ok := strings.Cut(readPage(t, filepath.Join("decisions", "packages.md")), "\n## Dependencies\n")
	if !ok {
		t.Fatal("decisions/packages.md has no section Dependencies")
	}
	for _, module := range required {
		// The page calls github.com/bmatcuk/doublestar/v4 doublestar, and
		// github.com/standard-webhooks/standard-webhooks/libraries standard-webhooks.
		module, _ = strings.CutSuffix(module, "/libraries")
		if name := path.Base(version.ReplaceAllString(module, "")); !strings.Contains(page, name) {
			t.Errorf("decisions/packages.md gives no reason for %s", module)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \|`).FindAllStringSubmatch(page, -1) {
		if first := strings.Fields(row[1])[0]; row[1] != "module" {
			first = strings.TrimSuffix(first, ",")
			if !slices.ContainsFunc(required, func(m string) bool { return strings.Contains(m, strings.Split(first, "/")[0]) }) {
				t.Errorf("decisions/packages.md explains %s, which no go.mod requires", first)
			}
		}
	}
}
