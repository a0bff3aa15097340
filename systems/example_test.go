package systems_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/systems"
)

// Import converts the hooks of another system to a policy that you can edit.
func ExampleImport() {
	dir, err := os.MkdirTemp("", "grapnel-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	settings := filepath.Join(dir, "settings.json")
	if err := os.WriteFile(settings, []byte(`{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}}`), 0o600); err != nil {
		log.Fatal(err)
	}

	imported, err := systems.Import("claude-code", []string{settings}, policy.Parse)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(strings.ReplaceAll(string(imported.Policy), dir+string(filepath.Separator), ""))
	for _, part := range imported.Unconverted {
		fmt.Println("not converted:", part.Msg)
	}
	// Output:
	// version: 1
	// hooks:
	//   # settings.json:1
	//   # not kept: the matcher "Bash" is narrower than tool: Bash, shell
	//   - name: check.sh
	//     on: tool.before
	//     match: {tool: [Bash, shell]}
	//     timeout: 55s
	//     on_error: open
	//     run: './check.sh'
	//     speaks: claude-code
	// not converted: hooks.PreToolUse[0].hooks[0]: "check.sh": the matcher "Bash" is narrower than tool: Bash, shell
}
