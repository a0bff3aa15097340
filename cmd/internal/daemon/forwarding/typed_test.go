package forwarding

import (
	"strings"
	"testing"
)

// A password in an argument would be in the list of processes.
func TestCheckTyped(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]bool{
		"postgres://auditor@db/grapnel":             true,
		"postgres:///grapnel?service=grapnel":       true,
		"nats://n/STREAM?tls=no":                    true,
		"postgres://u:hunter2@db/grapnel":           false,
		"postgres://u:@db/grapnel":                  false,
		"postgres://db/grapnel?password=hunter2":    false,
		"postgres://db/grapnel?SSLPassword=hunter2": false,
		"postgres://db/grapnel?pass%77ord=hunter2":  false,
		"nats://hunter2@n":                          false,
		"nats://u:hunter2@n":                        false,
		"postgres://u:hunter2@%zz/":                 false,
	} {
		err := CheckTyped(to)
		if (err == nil) != want || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("CheckTyped(%q) = %v, want no error: %v", to, err, want)
		}
	}
}
