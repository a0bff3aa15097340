package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// References to values are resolved when the value is needed, and messages never contain the
// value.
func TestResolve(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	dir := t.TempDir()
	t.Setenv("HTTP_TEST_KEY", key)
	t.Setenv("HTTP_TEST_WRONG", "s3cret!")
	t.Setenv("HTTP_TEST_LONG", strings.Repeat("A", 9<<10))
	for name, text := range map[string]string{"key": "\n" + key[6:] + "\n", "empty": " \n", "wrong": "s3cret!", "long": strings.Repeat("A", 9<<10)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const private = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
	t.Setenv("HTTP_TEST_PRIVATE", private)
	h := policyfile.HTTP{Dir: dir, Secrets: []string{"env:HTTP_TEST_PRIVATE", "env:HTTP_TEST_KEY", "file:key", "file:" + filepath.Join(dir, "key"), key}, Headers: map[string]string{"a": "b", "c": "env:HTTP_TEST_WRONG", "d": "file:wrong"}}
	got, err := h.Resolve()
	want := policyfile.HTTP{Dir: dir, Secrets: []string{private, key, key[6:], key[6:], key}, Headers: map[string]string{"a": "b", "c": "s3cret!", "d": "s3cret!"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || h.Headers["c"] != "env:HTTP_TEST_WRONG" {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
	for ref, want := range map[string]string{
		"env:HTTP_TEST_NOT_SET": "env:HTTP_TEST_NOT_SET: the variable is not set",
		"env:HTTP_TEST_WRONG":   "env:HTTP_TEST_WRONG: this is not a key",
		"env:HTTP_TEST_LONG":    "more than 8192 bytes",
		"file:nothing":          "file:nothing: no such file",
		"file:empty":            "file:empty: the file is empty",
		"file:wrong":            "file:wrong: this is not a key",
		"file:long":             "more than 8192 bytes",
		"file:.":                "is not a regular file",
		"whsec_s3cret!":         "secret: this is not a key",
		"whsec_":                "the key is empty",
		"whsk_":                 "the key is empty",
	} {
		_, err := (&policyfile.HTTP{Dir: dir, Secrets: []string{ref}}).Resolve()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
	if _, err := (&policyfile.HTTP{Dir: dir, Headers: map[string]string{"x": "env:HTTP_TEST_NOT_SET"}}).Resolve(); err == nil || !strings.Contains(err.Error(), "header x env:HTTP_TEST_NOT_SET: the variable is not set") {
		t.Error(err)
	}
	mail := policyfile.HTTP{Dir: dir, SMTP: &policyfile.SMTP{User: "u", Password: "file:wrong"}}
	if got, err := mail.Resolve(); err != nil || got.SMTP.Password != "s3cret!" || mail.SMTP.Password != "file:wrong" {
		t.Errorf("a password: %+v, %v", got.SMTP, err)
	}
	mail.SMTP.Password = "file:nothing"
	if _, err := mail.Resolve(); err == nil || err.Error() != "password file:nothing: no such file" {
		t.Errorf("without a password: %v", err)
	}
}
