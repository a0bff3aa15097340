// Package foreign lets policies load the hook files of other systems, and rules for
// secrets in the format of gitleaks, in any program that imports it:
//
//	import _ "github.com/grapnel-dev/grapnel/policy/foreign"
//
// For Go agents, [StartIronClaw] also starts the hooks of an IronClaw installation. Programs that are
// started for each event do not import this package; see [policy.LinkForeign].
package foreign

import (
	"github.com/grapnel-dev/grapnel/internal/jsregexp"
	"github.com/grapnel-dev/grapnel/internal/tree/toml"
	"github.com/grapnel-dev/grapnel/policy"
)

func init() { policy.LinkForeign(toml.Parse, jsregexp.Compile) }
