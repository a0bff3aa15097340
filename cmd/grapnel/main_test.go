package main

import "github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor"

// An agent can run the tests.
func init() { ancestor.Runner = ".test" }
