package files

import (
	"strings"
	"testing"
)

// Digests are file names of earlier versions and parts of policies (`trust:`), so they must not
// change.
func TestDigestOf(t *testing.T) {
	t.Parallel()
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	if got := Digest([]byte("abc")); got != want {
		t.Errorf("digestOf(abc) = %s, want %s", got, want)
	}
}

func TestIsDigest(t *testing.T) {
	t.Parallel()
	good := Digest(nil)
	for s, want := range map[string]bool{
		good:                           true,
		"":                             false,
		good[1:]:                       false,
		good + "0":                     false,
		strings.ToUpper(good):          false,
		"../" + good[3:]:               false,
		strings.Repeat("g", len(good)): false,
	} {
		if got := IsDigest(s); got != want {
			t.Errorf("isDigest(%q) = %v, want %v", s, got, want)
		}
	}
}
