//go:build faults

package main

import _ "github.com/grapnel-dev/grapnel/internal/fault" // reads its environment before main
