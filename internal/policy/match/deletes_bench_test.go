package match

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// BenchmarkDeletes measures a rule about deletions, without and with a deletion in the line.
func BenchmarkDeletes(b *testing.B) {
	root := b.TempDir()
	for i := range 1000 {
		dir := filepath.Join(root, "node_modules", fmt.Sprint("a", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			b.Fatal(err)
		}
	}
	for name, text := range map[string]string{".gitignore": "node_modules\ndist/\n*.log\n.env\n", "a.ts": ""} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		b.Fatal(err)
	}
	for _, line := range []string{"go test ./...", "rm a.ts", "rm -rf node_modules", "find . -name '*.ts' -delete"} {
		b.Run(line, func(b *testing.B) {
			m, err := (&FactCache{}).Matcher(&policyfile.Match{Deletes: []string{"project"}}, nil, "", Reading{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{line}}}
				ev.Session.CWD = root
				if _, err := m.Match(ev, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
