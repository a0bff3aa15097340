package outbound

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A signer returns one signature of the Standard Webhooks, with its version as prefix.
type signer func(signed []byte) string

// newSigner parses a secret. With the prefix whsk_ it is an Ed25519 private key in base64, for
// which the receiver needs only the public key: the seed of 32 bytes, or the seed and the public
// key. Any other secret is a shared HMAC-SHA256 key in base64, with or without the prefix whsec_.
func newSigner(secret string) (signer, error) {
	text, asymmetric := strings.CutPrefix(secret, "whsk_")
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, fault(BadSecret, "invalid secret: want whsec_ or whsk_, followed by base64")
	}
	if !asymmetric {
		return func(signed []byte) string {
			mac := hmac.New(sha256.New, key)
			_, _ = mac.Write(signed)
			return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}, nil
	}
	if len(key) != ed25519.SeedSize && len(key) != ed25519.PrivateKeySize {
		return nil, fault(BadSecret, "invalid secret: %d bytes follow whsk_, want the %d bytes of an Ed25519 seed, with or without its public key", len(key), ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize])
	if len(key) == ed25519.PrivateKeySize && !private.Equal(ed25519.PrivateKey(key)) {
		// A signature with the seed of one pair and the public key of another would reveal the
		// key.
		return nil, fault(BadSecret, "invalid secret: the seed and the public key after whsk_ do not match")
	}
	return func(signed []byte) string {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(private, signed))
	}, nil
}

// newSigners parses the secrets of one receiver.
func newSigners(secrets []string) ([]signer, error) {
	var signers []signer
	for _, secret := range secrets {
		s, err := newSigner(secret)
		if err != nil {
			return nil, err
		}
		signers = append(signers, s)
	}
	return signers, nil
}

// sign adds the headers of the Standard Webhooks, with one signature per key. During a key
// rotation the receiver accepts either signature. Without keys it adds only the ID and the
// timestamp.
func sign(header http.Header, signers []signer, id string, now time.Time, body []byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", at)
	if len(signers) == 0 {
		return
	}
	signed := append(fmt.Appendf(nil, "%s.%s.", id, at), body...)
	signatures := make([]string, len(signers))
	for i, s := range signers {
		signatures[i] = s(signed)
	}
	header.Set("Webhook-Signature", strings.Join(signatures, " "))
}
