// Package bundle signs policies, verifies their signatures, and brings a signed policy from a
// server to this machine. Signatures and keys have the format of minisign.
package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"aead.dev/minisign"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/local"
)

// maxKeys is the size limit of a file of keys, and of a signature, in bytes.
const maxKeys = 64 << 10

// Keys are the public keys that a machine accepts.
type Keys []minisign.PublicKey

// keyID formats the ID of a key as minisign does.
func keyID(id uint64) string { return fmt.Sprintf("%X", id) }

// parseKeys reads public keys, one per line. It ignores empty lines, lines that begin with #, and
// the comments of minisign.
func parseKeys(name string, data []byte) (Keys, error) {
	var keys Keys
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "untrusted comment:") {
			continue
		}
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(line)); err != nil {
			return nil, cli.WithHint(fmt.Errorf("%s:%d: this is not a public key of minisign", name, n), "copy the whole content of a .pub file; begin comments with #")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, cli.WithHint(fmt.Errorf("%s has no public key", name), `copy the content of a .pub file of "grapnel bundle keygen" into it`)
	}
	return keys, nil
}

// KeysFile returns the path of the public keys that "grapnel bundle pull" accepts.
func KeysFile(place local.Place) string { return in(place, "keys.pub") }

// ReadKeys reads public keys from a file, or if name is empty from the file of the place, which
// only root may be able to change.
func ReadKeys(place local.Place, name string) (Keys, error) {
	read := func() ([]byte, error) { return files.Read(name, maxKeys) }
	if name == "" {
		name = KeysFile(place)
		read = func() ([]byte, error) { return place.ReadManaged(name, maxKeys) }
	}
	data, err := read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.WithHint(fmt.Errorf("the file of public keys %s does not exist", name), `copy the .pub file of "grapnel bundle keygen" to it`)
	case err != nil:
		return nil, cli.WithHint(fmt.Errorf("cannot use the public keys in %s: %s", name, files.Reason(err)), onlyRoot)
	}
	return parseKeys(name, data)
}

// onlyRoot is the hint for a file or directory that another user could change.
const onlyRoot = "the file and all directories above it must be owned by root, and other users must not be able to write to them"

// Generate writes a new key pair to name.key and name.pub, and returns the ID of the key. It never
// replaces a file. The secret key is encrypted unless password is empty.
func Generate(name, password string) (id string, err error) {
	secretFile, publicFile := name+".key", name+".pub"
	for _, file := range []string{secretFile, publicFile} {
		if files.Exists(file) {
			return "", cli.WithHint(fmt.Errorf("%s exists already", file), "choose another name with --out")
		}
	}
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	var text []byte
	if password == "" {
		text, err = secret.MarshalText()
	} else {
		text, err = minisign.EncryptKey(password, secret)
	}
	if err != nil {
		return "", err
	}
	publicText, err := public.MarshalText()
	if err == nil {
		err = create(secretFile, text, 0o600)
	}
	if err == nil {
		err = create(publicFile, publicText, 0o644)
	}
	return keyID(public.ID()), err
}

// create writes a file that must not exist.
func create(name string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

// ReadSecret reads a secret key. It calls password only if the key is encrypted.
func ReadSecret(name string, password func() (string, error)) (minisign.PrivateKey, error) {
	var key minisign.PrivateKey
	data, err := files.Read(name, maxKeys)
	if err != nil {
		return key, cli.WithHint(fmt.Errorf("cannot read the secret key %s: %s", name, files.Reason(err)), `name it with --key; "grapnel bundle keygen" makes one`)
	}
	data = []byte(strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n")))
	if minisign.IsEncrypted(data) {
		secret, err := password()
		if err != nil {
			return key, err
		}
		if key, err = minisign.DecryptKey(secret, data); err != nil {
			return key, cli.WithHint(fmt.Errorf("cannot decrypt the secret key %s", name), "the password is wrong, or the file is damaged")
		}
		return key, nil
	}
	if err = key.UnmarshalText(data); err != nil {
		return key, cli.WithHint(fmt.Errorf("%s is not a secret key of minisign", name), "name the .key file, not the .pub file")
	}
	return key, nil
}

// PasswordOf returns a function that reads a password from the first line of a file, or if file is
// empty asks a person.
func PasswordOf(c *cli.Console, file string) func() (string, error) {
	return func() (string, error) {
		if file == "" {
			password, err := c.Password("password of the secret key: ")
			if err != nil {
				err = cli.WithHint(fmt.Errorf("cannot ask for the password of the secret key: %w", err), "run the command at a terminal, or use --password-file FILE")
			}
			return password, err
		}
		data, err := os.ReadFile(file) // it may be a pipe
		if err != nil {
			return "", fmt.Errorf("cannot read the password: %w", err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	}
}
