//go:build unix

package install_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
)

// Installs into an agent's settings and uninstalls: the file has its original bytes.
func ExampleInstall() {
	home, err := os.MkdirTemp("", "install-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	program := filepath.Join(home, "grapnel-hook")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		log.Fatal(err)
	}
	settings := filepath.Join(home, ".gemini", "settings.json")
	before := "{\n  \"theme\": \"dark\" // mine\n}\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(settings), 0o700), os.WriteFile(settings, []byte(before), 0o600)); err != nil {
		log.Fatal(err)
	}

	req := install.Request{Agents: []string{"gemini-cli"}, Home: home, Root: filepath.Join(home, "grapnel"), Program: program}
	res, err := install.Install(context.Background(), req)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range res.Files {
		fmt.Println(f.Agent, "changed:", f.Changed, "events:", len(f.Events) > 0, "backup:", f.Backup != "")
	}
	if _, err := install.Uninstall(context.Background(), req); err != nil {
		log.Fatal(err)
	}
	after, err := os.ReadFile(settings)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("as it was:", string(after) == before)
	// Output:
	// gemini-cli changed: true events: true backup: true
	// as it was: true
}
