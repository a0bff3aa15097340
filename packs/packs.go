// Package packs holds the policies that are shipped with Grapnel. A policy file
// names them under `use:`, and whoever loads one passes them on:
//
//	set := policy.Load(policy.Request{Files: files, Packs: packs.All})
//
// Each file is a pack and says its version. The names of packs and of their hooks
// are a promise, because policies name them. A pack never allows anything: it would
// skip an agent's own prompt for people who wanted to forbid more.
//
// [All] is made of the files by "go test ./packs -update", so that a program that
// starts for each event parses none of them.
package packs

import "embed"

// Files has NAME.yaml for each pack, as people read them. Their tests, NAME_test.yaml, stand
// beside them and are not shipped.
//
//go:embed destructive.yaml exfiltration.yaml prompt-injection.yaml
//go:embed secrets.yaml self-protection.yaml supply-chain.yaml
var Files embed.FS

// Always are the packs that are in force in grapnel and grapnel-hook without being named,
// and that no file leaves out: what guards Grapnel and the hooks of agents themselves.
var Always = []string{"self-protection"}
