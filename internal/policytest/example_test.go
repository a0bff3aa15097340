package policytest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// A policy and its tests are in the same directory.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "policytest-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, text := range map[string]string{
		"grapnel.yaml": `version: 1
hooks:
  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: Push a new branch instead.}
`,
		"grapnel_test.yaml": `version: 1
tests:
  - {name: forced, command: git push -f, want: {decision: block, rule: no-force-push}}
  - {name: plain, command: git push, want: block}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	file, errs := policytest.Read(filepath.Join(dir, "grapnel_test.yaml"))
	if len(errs) > 0 {
		log.Fatal(errs[0])
	}
	results, err := policytest.Run(context.Background(), file.Tests, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println(r.Status, r.Test.Name)
		for _, m := range r.Mismatches {
			fmt.Println("  ", m)
		}
	}
	// Output:
	// pass forced
	// fail plain
	//    decision: got none, want block
}
