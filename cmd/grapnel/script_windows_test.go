//go:build system

package main

import "github.com/rogpeppe/go-internal/testscript"

func signalDaemon(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no daemon runs here") }

func endDaemons(string) {}
