// Package packs holds the policies that are shipped with Grapnel. A policy file selects packs
// under `use:`, and a program that loads policies passes them on:
//
//	set := load.Policies(load.Request{Files: files, Packs: packs.All()})
//
// Each file is a pack and has a version. The names of packs and of their hooks are stable,
// because policies refer to them. A pack never allows anything: an allow would skip an agent's
// own prompt for users that wanted more restrictions.
//
// The command "go test ./packs -update" generates [All] from the files, so that a program that
// starts for each event does not parse them.
package packs

import (
	"embed"

	"github.com/grapnel-dev/grapnel/policy/load"
)

// Files returns the file system with the source NAME.yaml of each pack. Their tests,
// NAME_test.yaml, are in the same directory and are not shipped.
func Files() embed.FS { return files }

//go:embed destructive.yaml exfiltration.yaml prompt-injection.yaml
//go:embed secrets.yaml self-protection.yaml supply-chain.yaml
var files embed.FS

// All returns all packs, in alphabetical order.
func All() load.Packs { return load.NewPacks(all) }

// Always returns the packs that grapnel and grapnel-hook enforce even if no policy names them,
// and that no policy can exclude. They protect Grapnel itself and the hooks of agents.
func Always() []string { return []string{"self-protection"} }
