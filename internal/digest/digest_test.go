package digest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/digest"
)

func standard(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TestOf holds the examples of the standard (FIPS 180-4's accompanying examples, and
// a million times "a" from FIPS 180-2).
func TestOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ data, want string }{
		"nothing":    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"one block":  {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		"two blocks": {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		"a million":  {strings.Repeat("a", 1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := digest.Of([]byte(test.data)); got != test.want {
				t.Errorf("Of = %s, want %s", got, test.want)
			}
		})
	}
}

// TestOfEveryLength compares with crypto/sha256 across all ways to end a block.
func TestOfEveryLength(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	for n := range 300 + 1 {
		noise := make([]byte, n)
		_, _ = random.Read(noise)
		for _, data := range [][]byte{noise, make([]byte, n), bytes.Repeat([]byte{0xff}, n)} {
			if got, want := digest.Of(data), standard(data); got != want {
				t.Errorf("Of(%x) = %s, want %s", data, got, want)
			}
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(strings.Repeat("x", 55)))
	f.Add([]byte(strings.Repeat("x", 56)))
	f.Add([]byte(strings.Repeat("x", 64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		kept := bytes.Clone(data)
		if got, want := digest.Of(data), standard(data); got != want {
			t.Errorf("Of(%x) = %s, want %s", data, got, want)
		}
		if !bytes.Equal(data, kept) {
			t.Errorf("Of changed its data from %x to %x", kept, data)
		}
		if !digest.Is(digest.Of(data)) {
			t.Errorf("Is(Of(%x)) = false", data)
		}
	})
}

func TestIs(t *testing.T) {
	t.Parallel()
	good := digest.Of(nil)
	for s, want := range map[string]bool{
		good:                           true,
		"":                             false,
		good[1:]:                       false,
		good + "0":                     false,
		strings.ToUpper(good):          false,
		"sha256:" + good[7:]:           false,
		"../" + good[3:]:               false,
		good[:10] + "/" + good[11:]:    false,
		good[:31] + "é" + good[33:]:    false,
		strings.Repeat("g", len(good)): false,
	} {
		if got := digest.Is(s); got != want {
			t.Errorf("Is(%q) = %v, want %v", s, got, want)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	data := bytes.Repeat([]byte("a policy "), 32<<10/9)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		digest.Of(data)
	}
}

func BenchmarkStandard(b *testing.B) {
	data := bytes.Repeat([]byte("a policy "), 32<<10/9)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		standard(data)
	}
}
