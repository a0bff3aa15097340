//go:build race

package policy

// slower is how much longer work may take with the race detector.
const slower = 10
