package seam

import (
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                  "",
		"delete":            "delete",
		"run_command":       "run command",
		"executeCode":       "execute code",
		"DeleteIndexTool":   "delete index tool",
		"DeleteDBInstance":  "delete db instance",
		"runHTTP":           "run http",
		"droplet-delete":    "droplet delete",
		"d1_database.drop":  "d database drop",
		"kv/namespace::del": "kv namespace del",
		"LÖSCHE_ÄLTESTE":    "lösche älteste",
		"\xff_x":            "x",
	} {
		if got := Words(name); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("Words(%q) = %q, want %q", name, got, want)
		}
	}
}
