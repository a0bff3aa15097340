package outbound

import (
	"iter"
	"slices"
	"strings"
)

const (
	maxHeaders     = 64
	maxHeaderValue = 8 << 10
)

// CheckHeaders returns an error if the headers of a webhook are invalid or forbidden. headers
// yields pairs of name and value.
func CheckHeaders(headers iter.Seq2[string, string]) error { return checkHeaders(headers, false) }

// checkHeaders does the work of CheckHeaders. For a hook it also allows Authorization.
func checkHeaders(headers iter.Seq2[string, string], hook bool) error {
	seen := make(map[string]bool)
	for name, value := range headers {
		if err := checkHeader(name, value, hook); err != nil {
			return err
		}
		// Only one of two equal headers would be sent, and the choice would be arbitrary.
		lower := strings.ToLower(name)
		if seen[lower] {
			return fault(BadHeader, "header %q is set twice: letter case makes no difference", name)
		}
		if seen[lower] = true; len(seen) > maxHeaders {
			return fault(BadHeader, "more than %d headers", maxHeaders)
		}
	}
	return nil
}

func checkHeader(name, value string, hook bool) error {
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return !tokenRune(r) }):
		return fault(BadHeader, "header %q: a name can contain only letters, digits and !#$%%&'*+-.^_`|~", name)
	case len(value) > maxHeaderValue:
		return fault(BadHeader, "header %q: the value has %d bytes, the maximum is %d", name, len(value), maxHeaderValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }):
		return fault(BadHeader, "header %q: a value can contain only visible ASCII, spaces and tabs", name)
	}
	// Servers behind a proxy often treat X_Real_IP and X-Real-IP as equal.
	folded := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if hook && folded == "authorization" {
		return nil
	}
	if slices.Contains(forbiddenHeaders, folded) ||
		slices.ContainsFunc(forbiddenPrefixes, func(p string) bool { return strings.HasPrefix(folded, p) }) {
		return fault(ForbiddenHeader, "header %q cannot be set for a webhook", name)
	}
	return nil
}

func tokenRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

var (
	forbiddenHeaders = []string{
		// Credentials must not be in this file.
		"authorization", "proxy-authorization", "proxy-authenticate", "cookie", "cookie2", "set-cookie",
		// The identity of the client, which servers trust.
		"forwarded", "via", "x-real-ip", "x-forwarded", "true-client-ip", "cf-connecting-ip", "x-client-ip",
		// The target of the request, which would bypass a server that checks the URL.
		"host", "x-original-url", "x-rewrite-url", "x-http-method-override",
		// The framing of the request: contradictory framing allows request smuggling.
		"transfer-encoding", "content-length", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect",
		// The description of the body, which the client sets.
		"content-type", "content-encoding", "accept-encoding",
		// The headers that cloud metadata services require.
		"metadata", "metadata-flavor",
		// The signature of a delivery.
		"webhook-id", "webhook-timestamp", "webhook-signature",
	}
	forbiddenPrefixes = []string{"x-forwarded-", "x-aws-ec2-metadata-", "x-google-metadata-"}
)
