//go:build system && !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func setTerminal(*testscript.Env) error { return nil }

func onTerminal(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("onterminal: these tests know the pseudo terminals of Linux only; begin the script with [!linux] skip")
}
