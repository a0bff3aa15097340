package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/local"
)

// today is the clock of the tests.
var today = time.Date(2031, 6, 1, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// testKeys returns the public keys that the real minisign made.
func testKeys(t *testing.T) Keys {
	t.Helper()
	keys, err := parseKeys("keys.pub", []byte("# two keys, for a rotation\n\n"+string(read(t, "testdata/plain.pub"))+string(read(t, "testdata/locked.pub"))))
	if err != nil || len(keys) != 2 {
		t.Fatalf("parseKeys = %v, %v", keys, err)
	}
	return keys
}

func plainKey(t *testing.T) minisign.PrivateKey {
	t.Helper()
	key, err := ReadSecret("testdata/plain.key", func() (string, error) { return "", errors.New("asked for a password") })
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Signatures of the real minisign are valid, of both kinds.
func TestSignaturesOfMinisign(t *testing.T) {
	t.Parallel()
	data := read(t, "testdata/policy.yaml")
	for name, key := range map[string]string{"prehashed": "AFE77F1446BFDE0", "legacy": "AFE77F1446BFDE0", "locked": "4828682E25580B00"} {
		s, err := Open(testKeys(t), "policy.yaml", data, read(t, "testdata/"+name+".minisig"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if end := time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC); s.Key != key || s.Revision != 42 || !s.Expires.Equal(end) {
			t.Errorf("%s: %+v, want key %s, revision 42, expires %v", name, s, key, end)
		}
	}
}

// Each change of the policy, of the signature or of a comment makes the signature invalid.
func TestTampering(t *testing.T) {
	t.Parallel()
	keys, data := testKeys(t), read(t, "testdata/policy.yaml")
	signed, err := Sign(plainKey(t), "policy.yaml", data, today)
	if err != nil {
		t.Fatal(err)
	}
	own, legacy := string(signed.Signature()), string(read(t, "testdata/legacy.minisig"))
	if _, err := Open(keys, "policy.yaml", data, []byte(own)); err != nil {
		t.Fatal(err)
	}
	line := func(text string, n int) string { return strings.Split(text, "\n")[n] }
	swapped := strings.Replace(own, line(own, 2), line(legacy, 2), 1)
	other, err := Sign(plainKey(t), "policy.yaml", []byte(strings.Replace(string(data), "42", "43", 1)), today)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ data, signature, want string }{
		"policy":                 {strings.Replace(string(data), "force", "farce", 1), own, "is not for this content"},
		"policy, legacy":         {strings.Replace(string(data), "force", "farce", 1), legacy, "is not for this content"},
		"one more line":          {string(data) + "\n", own, "is not for this content"},
		"empty policy":           {"", own, "is not for this content"},
		"trusted comment":        {string(data), strings.Replace(own, "revision:42", "revision:43", 1), "is not for this content"},
		"comment of another":     {string(data), swapped, "is not for this content"},
		"signature of another":   {string(data), string(other.Signature()), "is not for this content"},
		"ID of another key":      {string(data), strings.Replace(string(read(t, "testdata/locked.minisig")), line(string(read(t, "testdata/locked.minisig")), 1), line(own, 1), 1), "is not for this content"},
		"no signature":           {string(data), "", "does not have the format"},
		"half a signature":       {string(data), own[:len(own)/2], "does not have the format"},
		"a page of the server":   {string(data), "<html>not found</html>", "does not have the format"},
		"prehashed as unhashed":  {string(data), strings.Replace(own, "RUTg", "RWTg", 1), "is not for this content"},
		"another algorithm":      {string(data), strings.Replace(own, "RUTg", "AAAA", 1), "does not have the format"},
		"signature as a comment": {string(data), line(own, 0) + "\n" + line(own, 3) + "\n" + line(own, 2) + "\n" + line(own, 3) + "\n", "does not have the format"},
	} {
		if s, err := Open(keys, "policy.yaml", []byte(tt.data), []byte(tt.signature)); err == nil || !strings.Contains(err.Error(), tt.want) || cli.HintOf(err) == "" {
			t.Errorf("%s: %+v, %v, want an error with %q and a hint", name, s, err, tt.want)
		}
	}
	if s, err := Open(keys[1:], "policy.yaml", data, []byte(own)); err == nil || !strings.Contains(err.Error(), "AFE77F1446BFDE0, which is not accepted here") {
		t.Errorf("the key was removed: %+v, %v", s, err)
	}
	if s, err := Open(keys, "laptops.yaml", data, []byte(own)); err == nil || !strings.Contains(err.Error(), `file "policy.yaml", not "laptops.yaml"`) {
		t.Errorf("another name: %+v, %v", s, err)
	}
	if s, err := Open(keys, "laptops.yaml", data, []byte(legacy)); err == nil {
		t.Errorf("another name, signed by minisign: %+v", s)
	}
}

// The comment must say what the policy says, also if the right key signed another one.
func TestTrustedComment(t *testing.T) {
	t.Parallel()
	data := read(t, "testdata/policy.yaml")
	for text, want := range map[string]string{
		"timestamp:1\tfile:policy.yaml":                      "",
		"timestamp:1\tfile:policy.yaml\thashed\trevision:42": "",
		"file:policy.yaml\trevision:41":                      `revision "41", not "42"`,
		"file:policy.yaml\texpires:2040-01-01T00:00:00Z":     `expires "2040-01-01T00:00:00Z"`,
		"file:policy.yaml\tfile:other.yaml":                  `file "other.yaml"`,
		"our policy":                                         "does not name the file",
		"":                                                   "does not name the file",
		comment("policy.yaml", 42, time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), today): "",
	} {
		r := minisign.NewReader(strings.NewReader(string(data)))
		if _, err := r.Read(make([]byte, len(data))); err != nil {
			t.Fatal(err)
		}
		_, err := Open(testKeys(t), "policy.yaml", data, r.SignWithComments(plainKey(t), text, "x"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("comment %q: %v, want %q", text, err, want)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"no revision":    {"p.yaml", "version: 1\nexpires: 2031-12-31\n", "no `revision:`"},
		"no end":         {"p.yaml", "version: 1\nrevision: 1\n", "no `expires:`"},
		"expired":        {"p.yaml", "version: 1\nrevision: 1\nexpires: 2031-05-31\n", "revision 1 expired at 2031-06-01T00:00:00Z"},
		"no policy":      {"p.yaml", "hooks: {}\n", "cannot use the policy"},
		"name of a list": {"p\tfile:q.yaml", "version: 1\nrevision: 1\nexpires: 2031-12-31\n", "control character"},
	} {
		if s, err := Sign(plainKey(t), tt.file, []byte(tt.text), today); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want %q", name, s, err, tt.want)
		}
	}
	next := []byte("version: 1\nrevision: 7\nexpires: 2031-12-31\n")
	for old, want := range map[string]string{
		"version: 1\nrevision: 6\n": "", "version: 1\n": "",
		"version: 1\nrevision: 7\n": "not greater than revision 7", "version: 1\nrevision: 8\n": "not greater than revision 8", "x": "mapping",
	} {
		if err := Replaces("p.yaml", next, []byte(old)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("7 after %q: %v, want %q", old, err, want)
		}
	}
}

func TestSecretKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "own")
	id, err := Generate(name, "")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name + ".key"); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the secret key has the mode %v, %v", info.Mode(), err)
	}
	key, err := ReadSecret(name+".key", nil)
	if err != nil || keyID(key.ID()) != id {
		t.Fatalf("the own key: %v, %v, want %s", keyID(key.ID()), err, id)
	}
	data := read(t, "testdata/policy.yaml")
	signed, err := Sign(key, "policy.yaml", data, today)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ReadKeys(local.Place{}, name+".pub")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Open(keys, "policy.yaml", data, signed.Signature()); err != nil || s.Key != id {
		t.Errorf("Open = %+v, %v", s, err)
	}
	before := string(read(t, name+".key"))
	if _, err := Generate(name, ""); err == nil || !strings.Contains(err.Error(), "exists already") || string(read(t, name+".key")) != before {
		t.Errorf("a second time: %v", err)
	}
	if err := os.Remove(name + ".key"); err != nil {
		t.Fatal(err)
	}
	if _, err := Generate(name, ""); err == nil || files.Exists(name+".key") {
		t.Errorf("with a public key only: %v", err)
	}
	write(t, name+".bad", "RWQ\n")
	for file, want := range map[string]string{"testdata/plain.pub": "not a secret key", name + ".bad": "not a secret key", name + ".none": "no such file"} {
		if _, err := ReadSecret(file, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	for text, want := range map[string]string{"": "no public key", "# only a comment\n": "no public key", "RWQ\n": ":1: this is not a public key", string(read(t, "testdata/plain.key")): ":2: this is not a public key"} {
		if keys, err := parseKeys("keys.pub", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("keys %q = %v, %v, want %q", text, keys, err, want)
		}
	}
}

// The password of a key comes from a file if there is no terminal.
func TestPassword(t *testing.T) {
	t.Parallel()
	c := &cli.Console{In: strings.NewReader(""), Err: &strings.Builder{}}
	if _, err := ReadSecret("testdata/locked.key", PasswordOf(c, "")); err == nil || !strings.Contains(cli.HintOf(err), "--password-file") {
		t.Errorf("without a terminal: %v, hint %q", err, cli.HintOf(err))
	}
	name := filepath.Join(t.TempDir(), "pw")
	write(t, name, "correct horse\r\nnot this\n")
	if got, err := PasswordOf(c, name)(); got != "correct horse" || err != nil {
		t.Errorf("password %q, %v", got, err)
	}
}

// No bytes of a server crash a pull, or are a valid signature of another policy.
func FuzzOpen(f *testing.F) {
	valid, err := os.ReadFile("testdata/legacy.minisig")
	if err != nil {
		f.Fatal(err)
	}
	public, err := os.ReadFile("testdata/plain.pub")
	if err != nil {
		f.Fatal(err)
	}
	keys, err := parseKeys("keys.pub", public)
	if err != nil {
		f.Fatal(err)
	}
	policy := []byte("version: 1\nrevision: 42\nexpires: 2031-12-31\n")
	f.Add(policy, valid)
	f.Add([]byte{}, []byte("untrusted comment: \n\ntrusted comment: \n\n"))
	f.Fuzz(func(t *testing.T, data, signature []byte) {
		if s, err := Open(keys, "", data, signature); err == nil {
			t.Errorf("valid: %+v", s)
		}
		_, _ = parseKeys("keys.pub", data)
	})
}
