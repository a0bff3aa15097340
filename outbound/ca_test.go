package outbound

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// authority returns the certificate of a server's authority in PEM format.
func authority(t *testing.T, opts *Options) string {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler()) // all test servers have the same certificate
	defer server.Close()
	opts.RootCAs = nil
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func writeCA(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server with a private authority is trusted while the file has its certificate. The file is read for
// each connection, and without it nothing is sent.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	requests := 0
	opts := serve(t, func(http.ResponseWriter, *http.Request) { requests++ })
	good := authority(t, opts)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := post(t, NewClient(opts), hookURL); faultOf(err) != TLS {
		t.Errorf("without the file: %v", err)
	}
	opts.CA = []string{file}
	c := NewClient(opts)
	if _, err := post(t, c, hookURL); faultOf(err) != TLS || !strings.Contains(err.Error(), "cannot read the certificate authorities in "+file) || !ServerFailed(err) {
		t.Errorf("without the file: %v", err)
	}
	writeCA(t, file, "The authority of Corp:\n"+good)
	if _, err := post(t, c, hookURL); err != nil || requests != 1 {
		t.Errorf("with the file: %v, %d requests", err, requests)
	}
	writeCA(t, file, "")
	if _, err := post(t, c, hookURL); faultOf(err) != TLS || !strings.Contains(err.Error(), "no certificate in PEM format") || requests != 1 {
		t.Errorf("with an empty file: %v, %d requests", err, requests)
	}
	c.Set(Guard{}, nil)
	if _, err := post(t, c, hookURL); faultOf(err) != TLS || strings.Contains(err.Error(), file) {
		t.Errorf("after the key was removed: %v", err)
	}
}
