//go:build !race

package packs_test

const raced = false
