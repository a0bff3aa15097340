//go:build e2e && linux

package machines

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
)

// An operator signs the accounts and users of a NATS server, as the program nsc does.
type operator struct {
	t            *testing.T
	key, account nkeys.KeyPair
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	key, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return &operator{t, key, account}
}

// config returns the configuration of a server that trusts the operator.
func (o *operator) config() string {
	o.t.Helper()
	system, err := nkeys.CreateAccount()
	if err != nil {
		o.t.Fatal(err)
	}
	unlimited := map[string]any{"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1}
	plain := o.sign(o.key, public(o.t, system), map[string]any{"type": "account", "version": 2, "limits": unlimited})
	limits := map[string]any{"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
	maps.Copy(limits, unlimited)
	account := o.sign(o.key, public(o.t, o.account), map[string]any{"type": "account", "version": 2, "limits": limits})
	self := o.sign(o.key, public(o.t, o.key), map[string]any{"type": "operator", "version": 2})
	return fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
		self, public(o.t, system), public(o.t, system), plain, public(o.t, o.account), account)
}

// user returns the credentials file of a new user with permissions.
func (o *operator) user(pub, sub []string) string {
	o.t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	token := o.sign(o.account, public(o.t, key), map[string]any{
		"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": map[string]any{"allow": pub}, "sub": map[string]any{"allow": sub},
	})
	return fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", token, seed)
}

// sign returns a token about a subject.
func (o *operator) sign(by nkeys.KeyPair, subject string, claims map[string]any) string {
	o.t.Helper()
	body, err := json.Marshal(map[string]any{"jti": "test", "iat": time.Now().Unix(), "iss": public(o.t, by), "sub": subject, "name": "test", "nats": claims})
	if err != nil {
		o.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + encode(body)
	signature, err := by.Sign([]byte(text))
	if err != nil {
		o.t.Fatal(err)
	}
	return text + "." + encode(signature)
}

func public(t *testing.T, key nkeys.KeyPair) string {
	t.Helper()
	id, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
