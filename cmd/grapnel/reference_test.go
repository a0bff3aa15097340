package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const referenceIntro = `# Commands

This page lists every command of grapnel and every flag, as the help of each command prints them. The output of commands with ` + "`--json`" + `
is described in [JSON output](json.md), exit codes in [Exit codes](exit-codes.md).

All commands take ` + "`--root DIR`" + `, which keeps policy and state below a directory of your choice. Durations have a unit: ` + "`30s`, `10m`, `1h`, `7d`, `2w`" + `.

<!-- generated: go test ./cmd/grapnel -update -->

`

// docs/cli.md is the help of all commands.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	var index, pages strings.Builder
	root := newRoot(&console{})
	for _, group := range root.Groups() {
		fmt.Fprintf(&index, "| **%s** | |\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID != group.ID || !cmd.IsAvailableCommand() && cmd.Name() != "help" {
				continue
			}
			fmt.Fprintf(&index, "| [`grapnel %s`](#grapnel-%[1]s) | %s |\n", cmd.Name(), cmd.Short)
			writeHelp(t, &pages, cmd)
		}
	}
	text := referenceIntro + "| command | use |\n|---|---|\n" + index.String() + pages.String()
	file := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != text {
		t.Errorf("%s differs from the help of the commands (%v): go test ./cmd/grapnel -update", file, err)
	}
}

// writeHelp appends the help of a command and of its subcommands.
func writeHelp(t *testing.T, pages *strings.Builder, cmd *cobra.Command) {
	t.Helper()
	var help bytes.Buffer
	cmd.SetOut(&help)
	if cmd.Name() == "hook" { // it parses its flags itself
		hook([]string{"--help"}, nil, &help, &help)
	} else if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(help.String(), "\n") {
		if width := len([]rune(line)); width > 100 {
			t.Errorf("line %d of %s --help has %d columns, want at most 100: %s", n+1, cmd.CommandPath(), width, line)
		}
	}
	level := "##"
	if cmd.Parent().HasParent() {
		level = "###"
	}
	fmt.Fprintf(pages, "\n%s %s\n\n```text\n%s\n```\n", level, cmd.CommandPath(), strings.TrimSpace(help.String()))
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			writeHelp(t, pages, sub)
		}
	}
}
