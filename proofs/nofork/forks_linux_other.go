//go:build linux && !amd64

package main

// forks is empty: these systems have clone and clone3 only.
var forks []uint32
