//go:build e2e && linux

package browser

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

// Exact versions of what comes from npm. The version of Node.js is one of proofs/readers.
const (
	playwright = "1.65.1"
	axe        = "4.14.1"
	node       = "22.23.3"
)

func TestMain(m *testing.M) {
	code := offline.Main(m, install, func() []string { return nil })
	if err := closeChromium(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot close Chromium:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// install makes sure that all programs exist. Without one of them, the tests fail.
func install(ctx context.Context) error {
	if _, err := chromium(); err != nil {
		return err
	}
	cache, err := npm.CacheDir()
	if err != nil {
		return err
	}
	for _, w := range []npm.Wanted{npm.Node(cache, node), {
		Prefix: prefix(cache), Specs: []string{"playwright-core@" + playwright, "axe-core@" + axe},
		Check: func(_ context.Context, prefix string) error {
			_, err := os.Stat(filepath.Join(modules(prefix), "axe-core", "axe.min.js"))
			return err
		},
	}} {
		if err := w.Install(ctx, "npm"); err != nil {
			return fmt.Errorf("install %s: %w", w.Specs[0], err)
		}
	}
	return nil
}

// prefix returns the install directory of the packages that the driver needs.
func prefix(cache string) string {
	return filepath.Join(cache, "browser-"+playwright+"-"+axe)
}

func modules(prefix string) string { return filepath.Join(prefix, "node_modules") }

// chromium returns the path of Chromium.
func chromium() (string, error) {
	path, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM_BIN"), "chromium"))
	if err != nil {
		return "", fmt.Errorf("%w (apt-get install chromium, or set CHROMIUM_BIN to another Chromium)", err)
	}
	return path, nil
}
