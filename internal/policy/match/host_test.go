package match

import "testing"

func TestHostOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://example.com/x":             "example.com",
		"https://EXAMPLE.com:8443":          "example.com",
		"https://user:pass@example.com/":    "example.com",
		"https://good.com@evil.com/":        "evil.com",
		`https://evil.com\@good.com/`:       "evil.com",
		"http://[::1]:80/":                  "::1",
		"http://[fe80::1%25eth0]/":          "fe80::1%25eth0",
		"example.com/path":                  "example.com",
		"https://example.com.":              "example.com",
		"https://example.com?next=evil.com": "example.com",
		"https://example.com#@evil.com":     "example.com",
		"":                                  "",
		"https://":                          "",
		"[":                                 "[",
	} {
		if got := HostOf(address); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", address, got, want)
		}
	}
}
