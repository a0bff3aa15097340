package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// setupBranch sets up rules about the branch of a commit and the default of a push, for a checkout with
// the files that git makes. The floor reads HEAD.
func setupBranch(ctx context.Context, s *setup) error {
	dir, err := s.tempDir("checkout")
	if err != nil {
		return err
	}
	head := filepath.Join(dir, ".git", "HEAD")
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/main\n", "refs/heads/main": "0123456789012345678901234567890123456789\n", "objects/info/packs": "",
		"config": "[remote \"origin\"]\n\turl = https://example.com/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
	} {
		file := filepath.Join(dir, ".git", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for i, each := range [][2]string{{"branch: main, command: git commit", "git commit -m x"}, {"pushes: main", "git push"}} {
		file, errs := policy.Parse("grapnel.yaml", []byte("version: 1\nhooks:\n  - {name: guard, on: tool.before, match: {"+each[0]+"}, block: no}\n"))
		if len(errs) > 0 {
			return errs[0]
		}
		specs, err := policy.Build(file, grapnel.Source{Name: "bench", File: "grapnel.yaml"}, nil)
		if err != nil {
			return err
		}
		engine, err := grapnel.New(specs, nil)
		if err != nil {
			return err
		}
		ev := shellEvent(each[1])
		ev.Session.CWD = dir
		if v := engine.Fire(ctx, fresh(ev)); v.Decision != grapnel.Block {
			return fmt.Errorf("%q got %s, want block", each[1], v.Decision)
		}
		s.paths[i].subject = timed(func() { engine.Fire(ctx, fresh(ev)) })
		s.paths[i].floor = timedErr(func() error { _, err := os.ReadFile(head); return err })
	}
	return nil
}
