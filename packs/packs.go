// Package packs holds the policies that are shipped with Grapnel. A policy file
// names them under `use:`, and whoever loads one passes them on:
//
//	set := policy.Load(policy.Request{Files: files, Packs: packs.FS})
//
// Each file is a pack and says its version. The names of packs and of their hooks
// are a promise, because policies name them. A pack never allows anything: it would
// skip an agent's own prompt for people who wanted to forbid more.
package packs

import (
	"embed"
	"strings"
)

// FS has NAME.yaml for each pack.
//
//go:embed *.yaml
var FS embed.FS

// Names lists the packs in the order of the alphabet.
func Names() []string {
	files, _ := FS.ReadDir(".")
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}
