package cli

import (
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// Labels returns the names of hooks for output. Hooks of the same name in different sources get
// their pack, or the name of their file: "no-rm (destructive)".
func Labels[T any](hooks []T, of func(*T) (name, source string)) []string {
	sources := map[string]string{} // by name; "\x00" = several
	for i := range hooks {
		name, source := of(&hooks[i])
		if before, ok := sources[name]; ok && before != source {
			source = "\x00"
		}
		sources[name] = source
	}
	labels := make([]string, len(hooks))
	for i := range hooks {
		name, source := of(&hooks[i])
		if sources[name] == "\x00" {
			short := filepath.Base(source)
			if _, pack, ok := strings.Cut(short, "#"); ok {
				short = pack
			}
			name += " (" + short + ")"
		}
		labels[i] = printable.Line(name)
	}
	return labels
}
