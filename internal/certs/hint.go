package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
)

// Hint returns the way out of an error in the certificate of a server. It returns an
// empty text for all other errors.
func Hint(err error) string {
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		issuer := "an authority"
		if unknown.Cert != nil {
			issuer = fmt.Sprintf("the authority %q", unknown.Cert.Issuer)
		}
		return "the certificate of the server is from " + issuer + ", which is not trusted: if it is yours, name the file with its certificate (ca: in the policy, --ca of a command)"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate of the server is for another name: write a name of the certificate into the address, or give the server a certificate for this name"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "the certificate of the server has expired or is not valid yet: renew it, or correct the clock"
		}
		return "the certificate of the server is not valid: give the server another one"
	}
	return ""
}
