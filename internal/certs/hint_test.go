package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestHint: each fault of a certificate has a way out.
func TestHint(t *testing.T) {
	t.Parallel()
	cert := &x509.Certificate{Issuer: pkix.Name{CommonName: "Corp\nCA"}, DNSNames: []string{"db.example.com"}}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"authority":         {x509.UnknownAuthorityError{Cert: cert}, `the authority "CN=Corp\nCA", which is not trusted: if it is yours, name the file with its certificate (ca: `},
		"unnamed authority": {x509.UnknownAuthorityError{}, "ca: "},
		"name":              {x509.HostnameError{Certificate: cert, Host: "other"}, "write a name of the certificate into the address"},
		"expired":           {x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}, "renew it"},
		"other fault":       {x509.CertificateInvalidError{Cert: cert, Reason: x509.IncompatibleUsage}, "is not valid"},
		"another error":     {errors.New("connection refused"), ""},
		"no error":          {nil, ""},
	} {
		got := Hint(fmt.Errorf("tls: %w", c.err))
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
