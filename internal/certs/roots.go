// Package certs reads files with certificate authorities, and names the way out if a certificate is refused.
package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// maxSize is the maximum size of a file with certificate authorities in bytes.
const maxSize = 1 << 20

// Roots returns base, or the certificate authorities of the system if it is nil, together with those in
// files. It returns base if there are no files.
func Roots(base *x509.CertPool, files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return base, nil
	}
	var err error
	if base != nil {
		base = base.Clone()
	} else if base, err = x509.SystemCertPool(); err != nil {
		return nil, fmt.Errorf("cannot read the certificate authorities of the system: %w", err)
	}
	for _, file := range files {
		if err := add(base, file); err != nil {
			return nil, fmt.Errorf("cannot read the certificate authorities in %s: %w", file, err)
		}
	}
	return base, nil
}

// add adds the certificates in a file. A certificate that is left out would be noticed only when a
// server needs it, so each mistake is an error.
func add(pool *x509.CertPool, file string) error {
	text, err := files.Read(file, maxSize+1)
	switch {
	case err != nil:
		return errors.New(files.Reason(err))
	case len(text) > maxSize:
		return fmt.Errorf("it is larger than %d bytes", maxSize)
	}
	n := 0
	for block, rest := pem.Decode(text); ; block, rest = pem.Decode(rest) {
		switch {
		case block == nil && bytes.Contains(rest, []byte("-----BEGIN")):
			return fmt.Errorf("block %d in PEM format is damaged: copy the file again", n+1)
		case block == nil && n == 0:
			return errors.New("it has no certificate in PEM format: write the certificates of your authority, which begin with -----BEGIN CERTIFICATE-----")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("block %d is a %s: the file must have certificates only", n+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d: %w", n+1, err)
		}
		pool.AddCert(cert)
		n++
	}
}
