//go:build system

package hooktest_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/hooktest"
)

const module = "github.com/grapnel-dev/grapnel"

func TestImports(t *testing.T) {
	t.Parallel()
	hooktest.OnlyImports(t, module, "std", module+"/internal/...")
	hooktest.OnlyImports(t, ".", "std", module+"/...", "golang.org/x/tools/txtar", "github.com/google/go-cmp/cmp")
	hooktest.NeverImports(t, ".", map[string]string{"net/http": "tests of hooks need no server", module + "/outbound": "what is sent is left out"})
	for name, tt := range map[string]struct {
		test func(t testing.TB)
		want []string
	}{
		"another package": {func(t testing.TB) { hooktest.OnlyImports(t, module+"/dialect", "std", module+"/internal/...") }, []string{module + "/dialect imports " + module + " (linux, darwin, windows), want only std, " + module + "/internal/..."}},
		"one by one":      {func(t testing.TB) { hooktest.OnlyImports(t, module+"/packs") }, []string{"imports embed"}},
		"a tree":          {func(t testing.TB) { hooktest.OnlyImports(t, module+"/packs", "emb/...") }, []string{"imports embed"}},
		"through others": {
			func(t testing.TB) {
				hooktest.NeverImports(t, module+"/packs", map[string]string{"io/fs": "it is heavy", "net/rpc": "it is not there"})
			},
			[]string{module + "/packs links io/fs (linux, darwin, windows): it is heavy", "packs -> embed -> io/fs"},
		},
		"on one system": {
			func(t testing.TB) {
				hooktest.NeverImports(t, module+"/process", map[string]string{"internal/syscall/windows/registry": "x"})
			},
			[]string{"registry (windows): x"},
		},
		"no such package": {func(t testing.TB) { hooktest.OnlyImports(t, module+"/nowhere") }, []string{"go list", "exit status 1"}},
	} {
		got := hooktest.Failure(t, tt.test)
		for _, want := range tt.want {
			if !strings.Contains(got, want) || strings.Contains(got, "links net/rpc ") {
				t.Errorf("%s: the test says %q, want %q", name, got, want)
			}
		}
	}
}
