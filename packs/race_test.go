//go:build race

package packs_test

// raced: with the race detector it takes too long to change packs, a word at a time.
const raced = true
