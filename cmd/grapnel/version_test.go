package main

import (
	"runtime/debug"
	"testing"
)

func TestBuildOf(t *testing.T) {
	t.Parallel()
	const commit = "0a32caab00112233445566778899aabbccddeeff"
	for name, tt := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"no build info": {nil, "grapnel 0.0.0-x (commit unknown)"},
		"no commit":     {&debug.BuildInfo{}, "grapnel 0.0.0-x (commit unknown)"},
		"a commit":      {&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}}}, "grapnel 0.0.0-x (commit 0a32caab0011)"},
		"with changes":  {&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}}}, "grapnel 0.0.0-x (commit 0a32caab0011, modified)"},
	} {
		b := buildOf(tt.info)
		if b.Version == "" {
			t.Error("no version")
		}
		if b.Version = "0.0.0-x"; b.String() != tt.want {
			t.Errorf("%s: %q, want %q", name, b, tt.want)
		}
	}
}
