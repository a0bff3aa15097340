package match

import "testing"

func TestSlashed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		`C:\Users\me\.ssh\id_rsa`:   "C:/Users/me/.ssh/id_rsa",
		`\\host\share\.env`:         "//host/share/.env",
		`%USERPROFILE%\.aws\config`: "%USERPROFILE%/.aws/config",
		`~\.netrc`:                  "~/.netrc",
		`a\ b`:                      `a\ b`,
		`/tmp/a\b`:                  `/tmp/a\b`,
		"":                          "",
		"C:":                        "C:",
		`C:relative\x`:              `C:relative\x`,
	} {
		if got := slashed(name); got != want {
			t.Errorf("slashed(%q) is %q, want %q", name, got, want)
		}
	}
}
