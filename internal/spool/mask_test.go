package spool

import (
	"strings"
	"testing"
)

// Secrets are assembled here, so that scanners of repositories do not report them.
func rep(s string, n int) string { return strings.Repeat(s, n) }

func TestMask(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN " + "RSA PRIVATE KEY-----"
	end := "-----END " + "RSA PRIVATE KEY-----"
	tests := map[string]struct{ text, want string }{
		"anthropic":            {"key sk-ant-" + "api03-" + rep("aB3_", 20) + " end", "key sk-ant-*** end"},
		"openai":               {"sk-" + rep("aB3", 16), "sk-***"},
		"openai project":       {`"sk-proj-` + rep("aB3-", 16) + `"`, `"sk-proj-***"`},
		"stripe":               {"sk_" + "live_" + rep("a1", 12), "sk_live_***"},
		"github classic":       {"git clone https://ghp_" + rep("a1B2", 9) + "@github.com/x/y", "git clone https://ghp_***@github.com/x/y"},
		"github app":           {"ghs_" + rep("a1B2", 9), "ghs_***"},
		"github oauth":         {"gho_" + rep("a1B2", 9), "gho_***"},
		"github fine":          {"github_" + "pat_11ABC" + rep("a_B", 20), "github_pat_***"},
		"gitlab":               {"glpat-" + rep("a1B-", 5), "glpat-***"},
		"slack bot":            {"xoxb-" + "123456789012-abcdef", "xoxb-***"},
		"slack hook":           {"https://hooks.slack.com/services/T000/B000/" + rep("a1B2", 6), "https://hooks.slack.com/services/***"},
		"aws":                  {"AKIA" + "IOSFODNN7EXAMPLE.", "AKIA***."},
		"aws temporary":        {"(ASIA" + "IOSFODNN7EXAMPLE)", "(ASIA***)"},
		"google":               {"AIza" + rep("a1B_-", 7), "AIza***"},
		"google oauth":         {"ya29." + rep("a1B_-", 7), "ya29.***"},
		"npm":                  {"//registry.example.org/:_authToken=npm_" + rep("a1B2", 9), "//registry.example.org/:_authToken=npm_***"},
		"hugging face":         {"hf_" + rep("aB", 17), "hf_***"},
		"sendgrid":             {"SG." + rep("a", 22) + "." + rep("b", 43), "SG.***"},
		"two in a line":        {"AKIA" + rep("A", 16) + " AKIA" + rep("B", 16), "AKIA*** AKIA***"},
		"jwt":                  {"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN x", "token eyJ*** x"},
		"jwt, cut off":         {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0", "eyJ***"},
		"bearer":               {"Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer ***"},
		"bearer, small":        {"-H 'authorization: bearer abcdef0123456789abcdef'", "-H 'authorization: bearer ***'"},
		"basic":                {"curl -H 'Authorization: Basic dXNlcjpwYXNz' x", "curl -H 'Authorization: Basic ***' x"},
		"cookie":               {"Cookie: session=abcdef; x=y\nHost: a", "Cookie: ***\nHost: a"},
		"in a URL":             {"psql postgres://app:hunter2@db.example.com/x", "psql postgres://app:***@db.example.com/x"},
		"in a URL, no user":    {"redis://:hunter2@localhost:6379", "redis://:***@localhost:6379"},
		"private key":          {"a\n" + key + "\nMIIEow" + rep("AbC+/", 20) + "\n" + end + "\nb", "a\n" + key + "***\nb"},
		"private key, escaped": {key + `\nMIIEow` + rep("AbC+/", 20) + `\n` + end + `\nb`, key + `***\nb`},
		"private key, cut off": {key + "\nMIIEow" + rep("AbC+/", 20), key + "***"},
		"password=":            {"PGPASSWORD=changeme psql", "PGPASSWORD=*** psql"},
		"password: x1":         {"password: hunter2", "password: ***"},
		"password in JSON":     {`{"password":"hunter","n":1}`, `{"password":"***","n":1}`},
		"password, quoted":     {`db_password = "hunter"`, `db_password = "***"`},
		"password, ruby":       {`:password => 's3cret'`, `:password => '***'`},
		"MYSQL_PWD":            {"MYSQL_PWD=abc mysql", "MYSQL_PWD=*** mysql"},
		"token=":               {"?token=abc123def456&x=1", "?token=***&x=1"},
		"api_key=":             {"export MY_API_KEY=abc123def456", "export MY_API_KEY=***"},
		"aws secret":           {"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "aws_secret_access_key = ***"},
		"client secret, yaml":  {"client_secret: 8f2a9c17-aaaa", "client_secret: ***"},
		"flag":                 {"login --password hunter2 --user me", "login --password *** --user me"},
		"flag, quoted":         {`login --api-key "abc123"`, `login --api-key "***"`},
		"prefix beats name":    {"API_KEY=sk-ant-" + rep("aB3_", 10), "API_KEY=sk-ant-***"},
		"name after name":      {"login --secret token --token abc123", "login --secret token --token ***"},
		"azure":                {"AccountKey=" + rep("a1B2", 21) + "==;x", "AccountKey=***;x"},
		"other letters":        {"İİ password=hunter2 ß", "İİ password=*** ß"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Mask(tt.text)
			if got != tt.want {
				t.Errorf("Mask(%q) = %q, want %q", tt.text, got, tt.want)
			}
			if again := Mask(got); again != got {
				t.Errorf("Mask(%q) = %q, want what is masked to stay", got, again)
			}
		})
	}
}

func TestMaskKeeps(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"a perfectly ordinary sentence about tokens, passwords and secrets",
		"3f786850e387550fdab836ed7e6dc881de23001b",
		"commit 3f786850e387550fdab836ed7e6dc881de23001b",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"123e4567-e89b-12d3-a456-426614174000",
		"sha512-abcdefABCDEF0123456789+/==",
		"git checkout task-management-of-some-long-thing-2",
		"risk-assessment-2024-final-version", "disk-0123456789abcdef0123", "sk-short", "sk-learn-and-its-many-good-friends",
		"password: must be at least twelve characters", "Password: required", `password: string;`, `"password": "string"`, "password=None",
		"if password == other:", "password = get_password()", "password=$PASSWORD", "password=${PASSWORD}", "password: {{ password }}",
		"token := newToken()", "token = tokenizer.next", "token: string", "const token = process.env.TOKEN1", "token=os.environ1",
		"input_tokens: 12345678", `{"max_tokens":4096}`, "secretary: jane", "api_key", "the --password flag is needed", "--token $TOKEN", "--token <value>",
		"use a --token to log in", "--secret id=npm,src=.npmrc",
		"https://example.com:8080/a@b", "http://localhost:3000/x", "git@github.com:a/b.git", "ssh://git@host:22/x", "https://user@host/", "https://u:$PW@host/",
		"grep -r -- '-----BEGIN RSA PRIVATE KEY-----' .", "-----BEGIN CERTIFICATE-----\n" + rep("MIIB", 20),
		"AKIA is a prefix", "AKIAIOSFODNN7EXAMPLETOOLONG", "xAKIA" + rep("A", 16), "npm_config_registry=https://registry.example.org", "npm_package_name",
		"eyJhbGciOiJIUzI1NiJ9", "Bearer of good news", "bearer authentication-is-described-below", "Cookie: chocolate chip",
		"passwd: files systemd", "cat /etc/passwd", "PWD=/home/me", "OLDPWD=/tmp/1", "AIza", "keyboard=qwerty12345", "monkey: banana12345",
		"AUTHORIZATION: see below", "author: jane1234567", "func (t *Token) secret() {}",
	} {
		if got := Mask(text); got != text {
			t.Errorf("Mask(%q) = %q, want it as it is", text, got)
		}
	}
}

// A model may write the text that takes longest to search. With quadratic work, these texts
// would exceed the timeout of the tests.
func TestMaskHostile(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"sk-", "eyJ-", "cookie:a", "--x", "token=", "://", "-----BEGIN " + "PRIVATE KEY-----"} {
		text := rep(unit, 1<<20/len(unit))
		if got := Mask(text); len(got) > 8*len(text) {
			t.Errorf("Mask of 1 MB of %q has %d bytes", unit, len(got))
		}
	}
}

func TestSecretName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"password": true, "user_email": true, "userEmail": true, "email": false, "dbPassword": true, "DB_PASSWORD": true, "api_key": true, "apiKey": true, "x-api-key": true, "access_token": true,
		"Authorization": true, "Set-Cookie": true, "client_secret": true, "privateKey": true, "token": true, "credentials": true,
		"": false, "key": false, "tokens": false, "next_page_token": false, "command": false, "keyboard": false, "secretary": false, "author": false,
		"input_tokens": false, "passwordless": false,
	} {
		if got := secretName(name); got != want {
			t.Errorf("secretName(%q) = %v, want %v", name, got, want)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("password=hunter2 AKIA" + rep("A", 16) + " https://a:b1@c bearer " + rep("a1", 20))
	f.Add("-----BEGIN " + "PRIVATE KEY-----\n" + rep("A", 40))
	f.Add("token : => \"")
	f.Fuzz(func(t *testing.T, text string) {
		got := Mask(text)
		if again := Mask(got); len(again) > len(got)+64 {
			t.Errorf("Mask(%q) = %q, and grows to %q", text, got, again)
		}
		if !strings.Contains(got, "***") && got != text {
			t.Errorf("Mask(%q) = %q: changed, and does not say so", text, got)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	text := rep("An ordinary line of the output of some tool, with tokens in it: 42.\n", 30)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Mask(text)
	}
}
