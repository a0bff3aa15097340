package agenthooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// A Provider computes the identity of a context: a text that a Resolution must repeat, and that
// connects the records of one action. Identify must be a pure function of the context. Its error
// refuses the context, so the action is denied. The error should name the place and the rule,
// never the value.
type Provider struct {
	Name     string // name in records: lower-case letters, digits, - and _, without the prefix jcs
	Identify func(context json.RawMessage) (string, error)

	own ownProvider // which provider of this package it is
}

type ownProvider uint8

const (
	isJCS ownProvider = iota + 1
	isUnbound
)

// JCS returns the provider of the specification: the SHA-256 of the canonical JSON of all members
// that are required at the point. Optional members never change it. Integers beyond
// ±9007199254740991 are refused.
func JCS() *Provider {
	return &Provider{own: isJCS, Name: "jcs-sha256", Identify: func(context json.RawMessage) (string, error) {
		tree, err := parseContext(context)
		if err != nil {
			return "", err
		}
		return identify(tree)
	}}
}

// Unbound returns a provider without identities. Approvals are then not bound to a context, and a
// host that claims conformance must disclose this.
func Unbound() *Provider { return &Provider{own: isUnbound} }

var providers = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

func (p *Provider) check() error {
	switch {
	case p.own != 0:
		return nil
	case !providers.MatchString(p.Name):
		return fmt.Errorf("identity provider %q: want a name of lower-case letters, digits, - and _", p.Name)
	case strings.HasPrefix(p.Name, "jcs"):
		return fmt.Errorf("identity provider %q: names that begin with jcs are reserved by the specification", p.Name)
	case p.Identify == nil:
		return fmt.Errorf("identity provider %q: Identify is not set", p.Name)
	}
	return nil
}

// name returns the provider's name in records, or nil for Unbound.
func (p *Provider) name() *string {
	if p.own == isUnbound {
		return nil
	}
	return &p.Name
}

// of returns the identity of an emission, or nil for Unbound. A panic and an empty identity are
// errors.
func (p *Provider) of(em *emission) (identity *string, err error) {
	if p.own == isUnbound {
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil {
			identity, err = nil, &panicked{r}
		}
	}()
	var text string
	if p.own == isJCS {
		text, err = identify(em.tree) // faster than Identify, which would parse the context again
	} else {
		text, err = p.Identify(em.copy())
	}
	switch {
	case err != nil:
		return nil, err
	case text == "":
		return nil, &unfit{"identity", "it is empty"}
	}
	return &text, nil
}

// identify hashes only the members of a context that are required at its point and at all points.
func identify(tree map[string]any) (string, error) {
	p, err := checkContext(tree)
	if err != nil {
		return "", err
	}
	if depthOf(tree) > maxDepth {
		return "", &unfit{"", fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	projection := map[string]any{}
	for _, fields := range [][]field{common, p.fields} {
		for _, f := range fields {
			v, _ := at(tree, f.path)
			projection = put(projection, f.path, v)
		}
	}
	if err := exactIntegers(projection, ""); err != nil {
		return "", err
	}
	text, err := appendCanonical(nil, projection, "")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
