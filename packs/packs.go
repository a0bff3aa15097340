// Package packs holds the policies that are shipped with Grapnel. A policy file
// names them under `use:`, and whoever loads one passes them on:
//
//	set := policy.Load(policy.Request{Files: files, Packs: packs.FS})
//
// Each file is a pack and says its version. The names of packs and of their hooks
// are a promise, because policies name them. A pack never allows anything: it would
// skip an agent's own prompt for people who wanted to forbid more.
package packs

import "embed"

// FS has NAME.yaml for each pack.
//
//go:embed *.yaml
var FS embed.FS
