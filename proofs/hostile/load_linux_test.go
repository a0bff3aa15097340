//go:build system

package hostile

import (
	"path/filepath"
	"testing"
)

// With foreign hooks, too, the policy of the installation decides, independent of environment
// variables.
func TestLoadInstalled(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	hook := m.install(t, "version: 1\nload: [flyto]\n")
	m.write(t, filepath.Join(m.home, ".flyto", "hooks.json"), `[{"type": "pre_tool_use", "command": "case $TOOL_INPUT in *rm*) echo '{\"decision\":\"block\",\"reason\":\"not this one\"}';; esac"}]`)
	evil := filepath.Join(m.project, "evil")
	m.write(t, filepath.Join(evil, "grapnel", "grapnel.yaml"), "version: 1\n")
	for name, env := range map[string][]string{
		"as it is":  nil,
		"no home":   {"HOME="},
		"places":    {"HOME=" + evil, "XDG_CONFIG_HOME=" + evil, "XDG_STATE_HOME=" + evil, "TMPDIR=/nowhere", "PATH=" + evil},
		"our own":   {"GRAPNEL=off", "GRAPNEL_ROOT=" + evil},
		"debug":     {"GODEBUG=fips140=only,execerrdot=0,netdns=cgo+9,http2debug=2"},
		"collector": {"GOGC=1", "GOMEMLIMIT=1", "GOMAXPROCS=64"},
	} {
		m.denied(t, name, m.run(t, hook, env, m.bash("rm x")), "not this one")
		if r := m.run(t, hook, env, m.bash("ls")); r.exit != 0 || r.stdout != "" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if log := m.grapnel(t, "log"); len(log) == 0 {
		t.Error("there is no Record")
	}
}
