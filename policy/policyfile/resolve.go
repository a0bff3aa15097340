package policyfile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
)

// MaxHTTPTimeout is the maximum timeout of an `http:` action.
const MaxHTTPTimeout = 30 * time.Second

// maxSecret is the maximum length in bytes of a value that env:NAME or file:PATH refers to.
const maxSecret = 8 << 10

// Prefixes of signature keys.
const (
	KeyPrefix     = "whsec_"
	privatePrefix = "whsk_" // an Ed25519 key; it can only be given by reference, not in the policy itself
)

// Resolve returns a copy of h in which the references env:NAME and file:PATH of secrets, headers and the
// password are replaced by their values. It reads the variables of this process. An error contains the
// reference, but never the value.
func (h *HTTP) Resolve() (HTTP, error) {
	out := *h
	out.Secrets, out.Headers = nil, nil
	for _, ref := range h.Secrets {
		secret, err := h.resolve(ref)
		if err == nil {
			err = CheckKey(secret)
		}
		if err != nil {
			return HTTP{}, fmt.Errorf("secret%s: %w", wordFor(ref), err)
		}
		out.Secrets = append(out.Secrets, secret)
	}
	for name, ref := range h.Headers {
		value, err := h.resolve(ref)
		if err != nil {
			return HTTP{}, fmt.Errorf("header %s%s: %w", name, wordFor(ref), err)
		}
		if out.Headers == nil {
			out.Headers = make(map[string]string, len(h.Headers))
		}
		out.Headers[name] = value
	}
	if h.SMTP != nil && h.SMTP.Password != "" {
		mail := *h.SMTP
		var err error
		if mail.Password, err = h.resolve(mail.Password); err != nil {
			return HTTP{}, fmt.Errorf("password%s: %w", wordFor(h.SMTP.Password), err)
		}
		out.SMTP = &mail
	}
	return out, nil
}

// CheckKey returns an error if key is not a valid signature key. The error does not contain the
// key.
func CheckKey(key string) error {
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimPrefix(key, KeyPrefix), privatePrefix))
	if err != nil {
		return errors.New("this is not a key: write whsec_ followed by base64")
	}
	if len(data) == 0 {
		return errors.New("the key is empty")
	}
	return nil
}

// IsReference reports whether a text is env:NAME or file:PATH.
func IsReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

func (h *HTTP) resolve(ref string) (string, error) {
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		value := os.Getenv(name)
		switch {
		case value == "":
			return "", errors.New("the variable is not set or empty (grapnel-hook gets only the environment of the agent: use file:PATH)")
		case len(value) > maxSecret:
			return "", fmt.Errorf("it has more than %d bytes", maxSecret)
		}
		return value, nil
	}
	name, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return ref, nil
	}
	data, err := files.Read(home.Absolute(name, h.Dir), maxSecret+1)
	value := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", errors.New(files.Reason(err))
	case len(data) > maxSecret:
		return "", fmt.Errorf("it has more than %d bytes", maxSecret)
	case value == "":
		return "", errors.New("the file is empty")
	}
	return value, nil
}

// wordFor returns a space and ref for use in an error message, or "" if ref is not a reference and
// may be a secret.
func wordFor(ref string) string {
	if !IsReference(ref) {
		return ""
	}
	return " " + ref
}

// DefaultTimeout is the timeout of a program if neither its hook nor its file sets one.
const DefaultTimeout = 10 * time.Second

// OfProject reports whether hooks of a scope come from a project or a plugin, and so have fewer rights.
func OfProject(scope grapnel.Scope) bool {
	return scope == grapnel.ScopeProject || scope == grapnel.ScopePlugin
}

// HasWord reports whether words contains text.
func HasWord(words []Word, text string) bool {
	for i := range words {
		if words[i].Text == text {
			return true
		}
	}
	return false
}
