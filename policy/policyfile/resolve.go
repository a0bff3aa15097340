package policyfile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/readfile"
)

// MaxHTTPTimeout is the longest timeout of a `http:`.
const MaxHTTPTimeout = 30 * time.Second

// maxSecret bounds what env:NAME and file:PATH stand for, in bytes.
const maxSecret = 8 << 10

// How the keys of signatures begin.
const (
	KeyPrefix     = "whsec_"
	privatePrefix = "whsk_" // a key of Ed25519, which does not stand in a policy itself
)

// Resolve returns the server with what env:NAME and file:PATH stand for in the place of those
// words. The variables are those of this process. An error names the word, and never what
// it stands for.
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
	return out, nil
}

// CheckKey says what is wrong with the key of a signature, and not what it is.
func CheckKey(key string) error {
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimPrefix(key, KeyPrefix), privatePrefix))
	if err != nil {
		return errors.New("it is no key: want whsec_ and base64 behind it")
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
			return "", errors.New("the variable is not set, or empty (the agent starts grapnel-hook, and what it does not know of is not there: use file:PATH)")
		case len(value) > maxSecret:
			return "", fmt.Errorf("it has more than %d bytes", maxSecret)
		}
		return value, nil
	}
	name, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return ref, nil
	}
	data, err := readfile.Regular(home.Absolute(name, h.Dir), maxSecret+1)
	value := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", errors.New(readfile.Reason(err))
	case len(data) > maxSecret:
		return "", fmt.Errorf("it has more than %d bytes", maxSecret)
	case value == "":
		return "", errors.New("the file is empty")
	}
	return value, nil
}

// wordFor is a word that stands for something else, behind what it is for.
func wordFor(ref string) string {
	if !IsReference(ref) {
		return ""
	}
	return " " + ref
}

// DefaultTimeout bounds a program whose hook and file name no timeout.
const DefaultTimeout = 10 * time.Second
