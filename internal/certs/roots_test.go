package certs

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pemOf returns a block in PEM format.
func pemOf(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Further authorities replace no others, and do not change the pool of the caller.
func TestRootsAreAdded(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	write(t, file, pemOf("CERTIFICATE", server.Certificate().Raw))
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	want := system.Clone()
	want.AddCert(server.Certificate())
	for name, base := range map[string]*x509.CertPool{"the system's": nil, "others": system} {
		if got, err := Roots(base, []string{file, file}); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if again, err := x509.SystemCertPool(); err != nil || !again.Equal(system) {
		t.Error("the pool of the system has changed")
	}
	if got, err := Roots(nil, nil); got != nil || err != nil {
		t.Errorf("no files: %v, %v", got, err)
	}
}

func TestBadAuthorities(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	good := pemOf("CERTIFICATE", server.Certificate().Raw)
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                                "no certificate in PEM format",
		"certificate\n":                   "no certificate in PEM format",
		"\x30\x82\x01\x00":                "no certificate in PEM format",
		good[:len(good)-10]:               "block 1 in PEM format is damaged",
		good + good[:len(good)/2]:         "block 2 in PEM format is damaged",
		pemOf("CERTIFICATE", []byte("x")): "certificate 1: x509: ",
		good + pemOf("CERTIFICATE", nil):  "certificate 2: x509: ",
		good + pemOf("PRIVATE KEY", []byte("s3cret")):   "block 2 is a PRIVATE KEY: the file must have certificates only",
		good + strings.Repeat("#", maxSize-len(good)+1): "larger than",
	} {
		file := filepath.Join(dir, "ca.pem")
		write(t, file, text)
		if _, err := Roots(x509.NewCertPool(), []string{file}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "missing.pem")} {
		if _, err := Roots(x509.NewCertPool(), []string{name}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
