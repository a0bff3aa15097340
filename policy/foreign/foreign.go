// Package foreign lets policies load the hook files of other systems, and rules for
// secrets in the format of gitleaks, in any program that imports it:
//
//	import _ "github.com/grapnel-dev/grapnel/policy/foreign"
//
// It contains nothing else. Programs that are started for each event do not import it; see
// [policy.LinkForeign].
package foreign

import (
	"github.com/grapnel-dev/grapnel/internal/tree/toml"
	"github.com/grapnel-dev/grapnel/policy"
)

func init() { policy.LinkForeign(toml.Parse) }
