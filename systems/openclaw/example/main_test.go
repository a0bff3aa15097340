package main

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/readme"
)

// Proves: OC-01, OC-02, OC-03, OC-06, OC-08, OC-10
func TestReadme(t *testing.T) {
	t.Parallel()
	readme.Shows(t, "output.txt", run)
}

// A name that does not exist is refused when the handler is registered.
//
// Proves: OC-09
func TestUnknownName(t *testing.T) {
	t.Parallel()
	a, err := newAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.registerHook("mesage-sent", 100, does(nil)); err == nil {
		t.Error("a misspelled name is accepted")
	}
}
