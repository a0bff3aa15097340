package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// offered is the maximum age of the sessions in completions.
const offered = 7 * 24 * time.Hour

// complete adds shell completions for the flags of all commands. Flags with the same name take
// the same values in every command, except flags with a FILE value, which cobra completes.
func (c *console) complete(root *cobra.Command) {
	words := map[string]func() []string{
		"agent":    dialect.Names,
		"decision": func() []string { return []string{"none", "allow", "ask", "block"} },
		"event":    eventNames,
		"hook":     c.hookNames,
		"pack":     packs.All().Names,
		"scope":    func() []string { return []string{"user", "project"} },
		"session":  c.sessions,
		"state":    func() []string { return []string{"waiting", "delivered", "dead"} },
		"target":   c.hookNames,
		"why":      c.hookNames,
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for name, list := range words {
			flag := cmd.Flags().Lookup(name)
			if _, has := cmd.GetFlagCompletionFunc(name); flag == nil || has || strings.Contains(flag.Usage, "FILE") || strings.HasPrefix(flag.Usage, "file") {
				continue
			}
			_ = cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return list(), cobra.ShellCompDirectiveNoFileComp
			})
		}
		if strings.Contains(cmd.Use, "[AGENT") && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = completeAgents
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func eventNames() []string {
	var names []string
	for _, contract := range grapnel.Contracts() {
		names = append(names, string(contract.Kind))
	}
	return names
}

// hookNames returns the names of the hooks in the policies that apply here, and in the packs
// that they use.
func (c *console) hookNames() []string {
	place, err := c.Place()
	if err != nil {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	var names []string
	for _, file := range place.Files(nil, place.DirsOf(dir)) {
		p, errs := load.Read(file.Path)
		if len(errs) > 0 {
			continue
		}
		used, _ := load.PacksOf(p, filepath.Clean(file.Path), packs.All())
		for _, pack := range used {
			p.Hooks = append(p.Hooks, pack.Policy.Hooks...)
		}
		for i := range p.Hooks {
			names = append(names, p.Hooks[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sessions returns the sessions of the last days, newest first.
func (c *console) sessions() []string {
	place, err := c.Place()
	if err != nil {
		return nil
	}
	var names []string
	query := index.Query{Filter: spool.Filter{Since: time.Now().Add(-offered)}}
	for k, err := range records.Log(place).Read(context.Background(), query) {
		if err != nil || k.Entry.Session == "" || slices.Contains(names, k.Entry.Session) {
			continue
		}
		names = append(names, k.Entry.Session)
	}
	slices.Reverse(names)
	return names
}
