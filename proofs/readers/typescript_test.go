//go:build e2e && unix

package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
)

// A handler in TypeScript, in the form of OpenClaw's document, runs in each version of Node.js that can
// remove types, and grapnel check accepts it. The stub sendAuditLog stands for a function that the
// document does not define.
func TestOpenClawTypeScript(t *testing.T) {
	t.Parallel()
	for _, version := range tools.Nodes {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for name, text := range map[string]string{
				"grapnel.yaml":        "version: 1\nload: [openclaw]\n",
				"openclaw-hooks.json": `{"hooks": [{"event": "before-tool-call", "handler": "audit.ts"}, {"event": "after-tool-call", "handler": "audit.ts"}]}`,
				"audit.ts": `
interface Context { toolName: string; args: { command: string }; sessionKey: string }
type Result = { block: boolean; blockReason: string };
async function sendAuditLog(ctx: Context): Promise<void> { console.log(ctx.sessionKey as string); }
api.registerHook({ event: "after-tool-call", handler: async (ctx: Context) => { await sendAuditLog(ctx); }, priority: 100 });
api.registerHook({
  event: "before-tool-call",
  handler: async (ctx: Context): Promise<Result> => ({ block: true, blockReason: ctx.toolName + " of " + ctx.args.command }),
});
`,
			} {
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(stdin, name string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), offline.Program(t, name), append(args, "--root", root)...)
				cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(tools.NodeOf(t, version))+string(os.PathListSeparator)+os.Getenv("PATH"))
				cmd.Stdin = strings.NewReader(stdin)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
				return string(out)
			}
			if out := run("", "grapnel", "check"); !strings.Contains(out, "openclaw-hooks.json: valid, with 1 warning, 2 hooks of the format openclaw, lower priority first") {
				t.Errorf("grapnel check printed\n%s", out)
			}
			out := run(`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`, "grapnel-hook", "claude-code")
			if !strings.Contains(out, `"permissionDecisionReason":"exec of ls"`) {
				t.Errorf("the reply is %s", out)
			}
		})
	}
}
