//go:build e2e

package readers

import (
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
)

func TestMain(m *testing.M) { os.Exit(offline.Main(m, tools.Install, notRun)) }

// notRun lists the programs that this machine lacks, each with the reason.
func notRun() (list []string) {
	for _, p := range tools.Programs {
		if why := p.NotRun(); why != "" {
			list = append(list, p.Name+": "+why)
		}
	}
	return list
}
