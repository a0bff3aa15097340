// Package packs holds the policies that are shipped with Grapnel. A policy file
// names them under `use:`, and whoever loads one passes them on:
//
//	set := policy.Load(policy.Request{Files: files, Packs: packs.All()})
//
// Each file is a pack and says its version. The names of packs and of their hooks
// are a promise, because policies name them. A pack never allows anything: it would
// skip an agent's own prompt for people who wanted to forbid more.
//
// [All] is made of the files by "go test ./packs -update", so that a program that
// starts for each event parses none of them.
package packs

import (
	"embed"

	"github.com/grapnel-dev/grapnel/internal/packindex"
)

// Files has NAME.yaml for each pack, as people read them. Their tests, NAME_test.yaml, are
// in the same directory and are not shipped.
func Files() embed.FS { return files }

//go:embed destructive.yaml exfiltration.yaml prompt-injection.yaml
//go:embed secrets.yaml self-protection.yaml supply-chain.yaml
var files embed.FS

// All returns the packs, in the order of the alphabet.
func All() packindex.Registry { return packindex.New(all) }

// Always returns the packs that are in force in grapnel and grapnel-hook without being
// named, and that no file leaves out: they guard Grapnel and the hooks of agents themselves.
func Always() []string { return []string{"self-protection"} }
