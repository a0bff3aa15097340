package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
)

// A build describes this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`             // "unknown" if the go command did not record it
	Modified bool   `json:"modified,omitempty"` // the checkout had changes that were not committed
}

// buildOf reads the facts that the go command recorded. It records the commit if it builds in a checkout with
// git, and GOFLAGS does not forbid it.
func buildOf(info *debug.BuildInfo) build {
	b := build{Version: hookcmd.Version, Commit: "unknown"}
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	commit := b.Commit[:min(len(b.Commit), 12)]
	if b.Modified {
		commit += ", modified"
	}
	return fmt.Sprintf("grapnel %s (commit %s)", b.Version, commit)
}

// thisBuild describes the running program.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

func newVersion(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Print the version and the commit",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if c.JSON {
				return c.PrintJSON(thisBuild())
			}
			_, err := fmt.Fprintln(c.Out, thisBuild())
			return err
		},
	})
}
