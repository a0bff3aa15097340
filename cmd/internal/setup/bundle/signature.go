package bundle

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"aead.dev/minisign"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Suffix is the end of the name of a signature: policy.yaml.minisig is next to policy.yaml.
const Suffix = ".minisig"

// A Signed is a policy with a valid signature. It may have expired.
type Signed struct {
	Key      string    `json:"key"` // ID of the key, as minisign prints it
	Revision int       `json:"revision"`
	Expires  time.Time `json:"expires"`
	Digest   string    `json:"digest"` // SHA-256 of the policy in hex

	data, signature []byte
}

// errMismatch means that a known key did not make the signature for this content.
var errMismatch = errors.New("the signature is not for this content")

// Open verifies a policy and its signature. name is the name of the file that must be in the
// trusted comment; empty = any name. Nothing of the policy is parsed before its signature is
// verified.
func Open(keys Keys, name string, data, signature []byte) (*Signed, error) {
	var sig minisign.Signature
	if err := sig.UnmarshalText(signature); err != nil {
		return nil, cli.WithHint(errors.New("the signature does not have the format of minisign"), "sign the policy again")
	}
	at := slices.IndexFunc(keys, func(key minisign.PublicKey) bool { return key.ID() == sig.KeyID })
	if at < 0 {
		return nil, cli.WithHint(fmt.Errorf("the policy is signed by the key %s, which is not accepted here", keyID(sig.KeyID)), "sign it with an accepted key, or add the public key to the file of keys")
	}
	if !minisign.Verify(keys[at], data, signature) {
		return nil, cli.WithHint(errMismatch, "the policy, the signature or its trusted comment was changed: sign the policy again")
	}
	revision, expires, err := stamped(name, data)
	if err != nil {
		return nil, err
	}
	if err := checkComment(sig.TrustedComment, name, revision, expires); err != nil {
		return nil, err
	}
	return &Signed{Key: keyID(sig.KeyID), Revision: revision, Expires: expires, Digest: files.Digest(data), data: data, signature: signature}, nil
}

// stamped parses a policy, and returns its revision and the end of its validity.
func stamped(name string, data []byte) (revision int, expires time.Time, err error) {
	p, errs := policy.Parse(name, data)
	switch {
	case len(errs) > 0:
		return 0, expires, invalid(errs[0])
	case p.Revision == 0:
		return 0, expires, cli.WithHint(errors.New("the policy has no `revision:`"), "write `revision: 1`, and a greater number in each later version")
	case p.Expires == 0:
		return 0, expires, cli.WithHint(errors.New("the policy has no `expires:`"), "write a date until which machines accept this version, such as `expires: 2031-12-31`")
	}
	return p.Revision, time.Unix(p.Expires, 0).UTC(), nil
}

// invalid returns the error for a policy that this version of Grapnel cannot use.
func invalid(err *policyfile.Error) error {
	return cli.WithHint(fmt.Errorf("this version of Grapnel cannot use the policy: %w", err), `run "grapnel check" on the policy; if a newer Grapnel accepts it, update this machine first`)
}

// Replaces returns an error unless the policy of a file has a greater revision than another one.
func Replaces(file string, data, old []byte) error {
	revision, _, err := stamped(file, data)
	if err != nil {
		return err
	}
	before, errs := policy.Parse("the policy before", old)
	if len(errs) > 0 {
		return errs[0]
	}
	if revision <= before.Revision {
		return cli.WithHint(fmt.Errorf("revision %d is not greater than revision %d of the policy that it replaces", revision, before.Revision), fmt.Sprintf("write `revision: %d`", before.Revision+1))
	}
	return nil
}

// comment returns the trusted comment for a policy. Its first fields are the ones of minisign.
func comment(name string, revision int, expires, now time.Time) string {
	return fmt.Sprintf("timestamp:%d\tfile:%s\thashed\trevision:%d\texpires:%s", now.Unix(), name, revision, expires.Format(time.RFC3339))
}

// checkComment compares a trusted comment with the policy. The name of the file keeps a server from
// serving one signed policy as another one. minisign writes it too, without the other fields.
func checkComment(text, name string, revision int, expires time.Time) error {
	want := map[string]string{"file": name, "revision": strconv.Itoa(revision), "expires": expires.Format(time.RFC3339)}
	named := name == ""
	if named {
		delete(want, "file")
	}
	for field := range strings.SplitSeq(text, "\t") {
		key, value, _ := strings.Cut(field, ":")
		named = named || key == "file"
		if is, ok := want[key]; ok && is != value {
			return cli.WithHint(fmt.Errorf("the signature is for %s %q, not %q", key, value, is), "use the policy under the name with which it was signed, or sign it again")
		}
	}
	if !named {
		return cli.WithHint(errors.New("the trusted comment of the signature does not name the file"), `sign with "grapnel bundle sign", or with minisign without -t`)
	}
	return nil
}

// Sign signs the content of a policy file. It returns an error if the policy has no revision or no
// end of validity, or if it has expired.
func Sign(secret minisign.PrivateKey, file string, data []byte, now time.Time) (*Signed, error) {
	name := filepath.Base(file)
	if strings.ContainsFunc(name, unicode.IsControl) {
		return nil, fmt.Errorf("the file name %q has a control character", name)
	}
	revision, expires, err := stamped(file, data)
	if err != nil {
		return nil, err
	}
	s := &Signed{Key: keyID(secret.ID()), Revision: revision, Expires: expires, Digest: files.Digest(data), data: data}
	if err := s.current(now); err != nil {
		return nil, err
	}
	r := minisign.NewReader(strings.NewReader(string(data)))
	if _, err := r.Read(make([]byte, len(data)+1)); err != nil {
		return nil, err
	}
	s.signature = r.SignWithComments(secret, comment(name, revision, expires, now), "signature of grapnel bundle")
	return s, nil
}

// current returns an error if the policy has expired.
func (s *Signed) current(now time.Time) error {
	if now.Before(s.Expires) {
		return nil
	}
	return cli.WithHint(fmt.Errorf("revision %d expired at %s", s.Revision, s.Expires.Format(time.RFC3339)), "sign a greater revision with a later `expires:`, or correct the clock of this machine")
}

// Signature returns the content of the signature file.
func (s *Signed) Signature() []byte { return s.signature }

// Verify verifies the signature next to a policy file, and that the policy has not expired. keys is
// a file of public keys; empty = the one of the place. The file in force has another name than the
// signed one.
func Verify(place local.Place, keys, file string, now time.Time) (*Signed, error) {
	accepted, err := ReadKeys(place, keys)
	if err != nil {
		return nil, err
	}
	data, err := files.Read(file, yaml.MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("cannot read the policy %s: %s", file, files.Reason(err))
	}
	signature, err := files.Read(file+Suffix, maxKeys)
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("cannot read the signature %s: %s", file+Suffix, files.Reason(err)), `"grapnel bundle sign" writes it`)
	}
	name := filepath.Base(file)
	if abs, err := filepath.Abs(file); err == nil && abs == Active(place) {
		name = ""
	}
	signed, err := Open(accepted, name, data, signature)
	if err == nil {
		err = signed.current(now)
	}
	if err != nil {
		return nil, err
	}
	return signed, nil
}
