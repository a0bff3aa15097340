package agents

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
)

// Install makes sure that each selected agent is in the cache in its exact version and starts. It
// needs npm and a registry only for missing agents. Several processes may call it at once.
func Install(ctx context.Context, agents ...*Agent) error {
	cache, err := npm.CacheDir()
	if err != nil {
		return err
	}
	for _, a := range agents {
		if a.Package == "" || a.NotRun() != "" {
			continue
		}
		if err := a.install(ctx, cache, "npm"); err != nil {
			return fmt.Errorf("install %s %s: %w", a, a.Version, err)
		}
	}
	return nil
}

func (a *Agent) prefix(cache string) string {
	return filepath.Join(cache, a.ID+"-"+a.Version)
}

func (a *Agent) install(ctx context.Context, cache, program string) error {
	if a.node != "" && a.node != "any" {
		if err := npm.Node(cache, a.node).Install(ctx, program); err != nil {
			return err
		}
	}
	return npm.Wanted{
		Prefix: a.prefix(cache), Specs: []string{ofPlatform(a.Package) + "@" + a.Version}, Flags: a.npmFlags,
		Check: func(ctx context.Context, prefix string) error {
			p, err := a.below(cache, prefix)
			if err != nil {
				return err
			}
			version, err := p.AskVersion(ctx)
			if err == nil && version != a.Version {
				err = fmt.Errorf("%s printed %q, want version %s", strings.Join(p.Command, " "), version, a.Version)
			}
			return err
		},
	}.Install(ctx, program)
}
