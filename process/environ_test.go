package process

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

func TestLooksSecret(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "NPM_TOKEN", "CI_JOB_TOKEN", "AWS_SESSION_TOKEN", "githubtoken", "npm_config__authToken",
		"npm_config_//registry.example.org/:_authToken", "GITHUB_TOKENS", "SECRET", "AZURE_CLIENT_SECRET", "APP_SECRETS_JSON", "OPENAI_API_KEY",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "ENCRYPTION_KEY", "MYAPIKEY", "SSH_PRIVATE_KEY", "KEY", "PGPASSWORD", "DB_PASSWORD",
		"DB_PASS", "MYSQL_PWD", "SVN_PASSWD", "GPG_PASSPHRASE", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_CREDENTIAL_EXPIRATION", "ANTHROPIC_AUTH_TOKEN",
		"TWILIO_AUTH", "BASIC_AUTH", "SESSION_COOKIE", "MY-API-KEY", "my.secret.value", "PRIVATE_DATA", "AZURE_DEVOPS_EXT_PAT", "SUPABASE_JWT",
	} {
		if !looksSecret(name) {
			t.Errorf("looksSecret(%q) = false, want true", name)
		}
	}
	for _, name := range []string{
		"PATH", "HOME", "PWD", "OLDPWD", "LANG", "LC_ALL", "TERM", "SHELL", "USER", "EDITOR", "DISPLAY", "XAUTHORITY", "SSH_AUTH_SOCK", "SSH_ASKPASS",
		"GIT_ASKPASS", "KEYBOARD", "KEYMAP", "KEYRING", "MONKEY", "GNOME_KEYRING_CONTROL", "GIT_AUTHOR_NAME", "AUTHOR", "AUTHORITY", "GOPRIVATE", "GOPATH",
		"TOKENIZERS_PARALLELISM", "MAX_THINKING_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "XDG_SESSION_ID", "CLAUDE_CODE_SESSION_ID",
		"DBUS_SESSION_BUS_ADDRESS", "SECRETARY", "COMPASS", "BYPASS", "PATCH", "PGPASSFILE", "VIRTUAL_ENV", "JAVA_HOME", "",
	} {
		if looksSecret(name) {
			t.Errorf("looksSecret(%q) = true, want false", name)
		}
	}
}

func TestInherited(t *testing.T) {
	t.Parallel()
	own := []string{
		"PATH=/bin", "HOME=/h", "LANG=C", "LC_TIME=de", "TMPDIR=/t", "PWD=/old", "OLDPWD=/older", "EMPTY=", "A=b=c", "DB_PASSWORD=x", "ENV=/e",
		"SHELL=/s", "http_proxy=p", "XDG_CONFIG_HOME=/x", "GIT_SSH_COMMAND=evil", "GIT_AUTHOR_NAME=me", "GOMEMLIMIT=x", "SSL_CERT_FILE=/x",
		"LD_PRELOAD=/p", "DYLD_INSERT_LIBRARIES=/p", "BASH_FUNC_ls%%=() { evil; }", "GRAPNEL_DEPTH=1", "GRAPNELDEBUG=x", "=C:=C:\\", "novalue",
	}
	tests := map[string]struct {
		c    Command
		want []string
	}{
		"all": {Command{}, []string{"PATH=/bin", "HOME=/h", "LANG=C", "LC_TIME=de", "TMPDIR=/t", "OLDPWD=/older", "EMPTY=", "A=b=c", "GIT_AUTHOR_NAME=me", "GRAPNELDEBUG=x"}},
		"allowed": {Command{Allow: []string{"http_proxy", "SHELL"}}, []string{
			"PATH=/bin", "HOME=/h", "LANG=C", "LC_TIME=de", "TMPDIR=/t", "OLDPWD=/older", "EMPTY=", "A=b=c", "SHELL=/s", "http_proxy=p", "GIT_AUTHOR_NAME=me", "GRAPNELDEBUG=x",
		}},
		"minimal": {Command{Inherit: InheritMinimal, Allow: []string{"DB_PASSWORD"}}, []string{"PATH=/bin", "HOME=/h", "LANG=C", "LC_TIME=de", "TMPDIR=/t"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.c.inherited(own)); diff != "" {
				t.Errorf("inherited (-want +got):\n%s", diff)
			}
		})
	}
}

// Variables that a project can set for an agent's hooks, and which must not reach a program.
// The name of a variable may be harmless, and its value a credential.
func TestHoldsSecret(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{
		"DATABASE_URL=postgres://app:x9@db.internal/shop":          true,
		"REDIS_URL=redis://:hunter2@cache:6379/0":                  true,
		"MONGO_URI=mongodb+srv://app:p@ss@cluster0.example.net/db": true,
		"SMTP_URL=smtps://robot%40example.com:x@mail.example.com":  true,
		"CONN_STR=Server=db;User Id=sa;Password=Zq8xT4mvLw2;":      true,
		"FOO=" + "gl" + "pat-gEOzdmenCkhvMdgaKjIg":                 true,
		"BAR=" + "AKIA" + "Q3EGZ7XK2LMN4PQR":                       true,
		"HF=" + "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH":       true,
		"STRIPE_SK=" + "sk_" + "live_51HxYzAbCdEfGhIjKlMnOpQrStUv": true,
		"PATH=/usr/bin:/bin":                                       false,
		"HOME=/home/ann":                                           false,
		"DATABASE_URL=postgres://app@db.internal/shop":             false,
		"API=https://api.example.com/v1?at=a:b@c":                  false,
		"LS_COLORS=rs=0:di=01;34:ln=01;36:*.tar=01;31":             false,
		"DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus":    false,
		"GIT_AUTHOR_EMAIL=ann@example.com":                         false,
		"URL=://":                                                  false,
	} {
		if got := holdsSecret(v); got != want {
			t.Errorf("holdsSecret(%q) = %v, want %v", v, got, want)
		}
	}
	c := &Command{Allow: []string{"DATABASE_URL"}}
	own := []string{"DATABASE_URL=postgres://app:x9@db/shop", "OTHER_URL=postgres://app:x9@db/shop", "LANG=C"}
	if got, want := c.inherited(own), []string{own[0], own[2]}; !slices.Equal(got, want) {
		t.Errorf("inherited %q, want %q", got, want)
	}
}

func TestSteers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "GODEBUG", "GOMEMLIMIT", "GOGC", "GOMAXPROCS", "GOTRACEBACK", "GOFLAGS",
		"SHELL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "no_proxy", "XDG_CONFIG_HOME", "XDG_STATE_HOME",
		"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_DIR", "PYTHONWARNINGS", "LUA_INIT_5_4", "PAGER", "DYLD_INSERT_LIBRARIES",
	} {
		if !steers(name) {
			t.Errorf("steers(%q) = false", name)
		}
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "TERM", "USER", "TMPDIR", "NODE_ENV", "PYTHONUTF8", "GOPATH", "GOOS", "GITHUB_ACTIONS", "CI", "XDG_RUNTIME_DIR", "DISPLAY", "ENVIRONMENT", "LDAP", "GIT_AUTHOR_EMAIL"} {
		if steers(name) {
			t.Errorf("steers(%q) = true", name)
		}
	}
}

func TestInheritFor(t *testing.T) {
	t.Parallel()
	for scope, want := range map[grapnel.Scope]Inherit{
		grapnel.ScopeManaged: InheritAll, grapnel.ScopeUser: InheritAll, grapnel.ScopeProject: InheritMinimal,
		grapnel.ScopePlugin: InheritMinimal, grapnel.ScopeSession: InheritAll,
	} {
		if got := InheritFor(scope); got != want {
			t.Errorf("InheritFor(%s) = %d, want %d", scope, got, want)
		}
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	var vars []string
	for i := range 40 {
		vars = append(vars, fmt.Sprintf("V%d=%s", i, strings.Repeat("é\x00", 20000)))
	}
	vars = append(vars, "V1=again", "SHORT=s", "noequals", "=noname")
	got := bounded(vars, maxVar, maxVars)
	if len(got) != 41 || got[40] != "SHORT=s" {
		t.Errorf("bounded returned %d variables, the last %.40q, want the 41 with different names and the short one whole", len(got), got[len(got)-1])
	}
	total := 0
	for _, v := range got {
		total += len(v) + 1
		_, value, _ := strings.Cut(v, "=")
		if len(value) > maxVar || strings.Contains(v, "\x00") || strings.ToValidUTF8(v, "") != v {
			t.Errorf("%.40q... is too long, has NUL, or was cut inside a character", v)
		}
	}
	if total > maxVars+len(got)*100 {
		t.Errorf("the variables have %d bytes together, want about %d at most", total, maxVars)
	}
	if !strings.HasSuffix(got[0], "more bytes cut]") || slices.Contains(got, "V1=again") {
		t.Errorf("first = %.20q...%q, want a mark at its end", got[0], got[0][len(got[0])-20:])
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ab", 100)
	tests := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"fits":      {"abc", 3, "abc"},
		"empty":     {"", 0, ""},
		"no room":   {long, 3, "… [grapnel: 200 more bytes cut]"},
		"character": {strings.Repeat("é", 60), 53 + 2, "é… [grapnel: 118 more bytes cut]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := cut(tt.text, tt.limit); got != tt.want {
				t.Errorf("cut(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.want)
			}
		})
	}
}
