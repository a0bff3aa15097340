package secret

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// The tests assemble secrets at random, so that scanners of repositories do not report them.

// sample returns a random text that matches an expression.
func sample(rng *rand.Rand, re *syntax.Regexp) string {
	one := func(runes []rune) string {
		var all []byte
		for i := 0; i+1 < len(runes); i += 2 {
			for r := max(runes[i], ' '); r <= min(runes[i+1], '~'); r++ {
				all = append(all, byte(r))
			}
		}
		if len(all) == 0 {
			return " "
		}
		return string(all[rng.IntN(len(all))])
	}
	times := func(sub *syntax.Regexp, least, most int) string {
		if most < 0 || most > least+12 {
			most = least + 12
		}
		var b strings.Builder
		for range least + rng.IntN(most-least+1) {
			b.WriteString(sample(rng, sub))
		}
		return b.String()
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return one(re.Rune)
	case syntax.OpQuest:
		return times(re.Sub[0], 0, 1)
	case syntax.OpStar:
		return times(re.Sub[0], 0, 3)
	case syntax.OpPlus:
		return times(re.Sub[0], 1, 12)
	case syntax.OpRepeat:
		return times(re.Sub[0], re.Min, re.Max)
	case syntax.OpCapture:
		return sample(rng, re.Sub[0])
	case syntax.OpAlternate:
		return sample(rng, re.Sub[rng.IntN(len(re.Sub))])
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(sample(rng, sub))
		}
		return b.String()
	}
	return ""
}

// secretAt returns the position of the secret according to the expression of a rule.
func secretAt(re *regexp.Regexp, text string) (begin, end int) {
	m := re.FindStringSubmatchIndex(text)
	for i := 2; i+1 < len(m); i += 2 {
		if m[i] >= 0 {
			return m[i], m[i+1]
		}
	}
	if m == nil {
		return -1, -1
	}
	return m[0], m[1]
}

// certain completes the text for rules whose secrets have conditions beyond the expression.
func certain(rng *rand.Rand, id, text string) string {
	switch id {
	case "jwt":
		head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
		return head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"u`+chars(rng, 20)+`"}`)) + "." + chars(rng, 43)
	case "docker-auth":
		return `"auth": "` + base64.StdEncoding.EncodeToString([]byte("me:"+chars(rng, 16))) + `"`
	case "basic-authorization":
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+chars(rng, 16)))
	}
	return text
}

func chars(rng *rand.Rand, n int) string {
	const all = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = all[rng.IntN(len(all))]
	}
	return string(b)
}

// rep and the pieces keep these lines from looking like secrets to scanners.
func rep(s string, n int) string { return strings.Repeat(s, n) }

func TestFind(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	id := func(n int) string { return strings.ToUpper(chars(rng, n)) }
	pem := "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n" + rep(chars(rng, 70)+"\n", 6) + "-----END " + "OPENSSH PRIVATE KEY-----"
	for text, want := range map[string]string{
		"-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n" + pem[40:]: "private-key",
		"     1→" + strings.ReplaceAll(pem, "\n", "\n     2→"):                                                    "private-key",
		"aws " + "AKIA" + id(16):                                                          "aws-access-key-id",
		"AWS_SECRET_ACCESS_KEY=" + chars(rng, 40):                                         "aws-secret-access-key",
		`{"SecretAccessKey": "` + chars(rng, 40) + `"}`:                                   "aws-secret-access-key",
		"git clone https://gh" + "p_" + chars(rng, 36) + "@github.com/a/b":                "github-token",
		"https://x-access-token:gh" + "s_" + chars(rng, 36) + "@github.com/a/b":           "github-token",
		"export OPENAI_API_KEY=sk-" + "proj-" + chars(rng, 48):                            "openai-key",
		"sk-" + chars(rng, 48):                                                            "sk-key",
		"sk-abcdefghijklmnopqrstuvwxyz":                                                   "sk-key",
		"ANTHROPIC_API_KEY=sk-" + "ant-api03-" + chars(rng, 93) + "AA":                    "anthropic-key",
		"x\n" + pem + "\ny":                                                               "private-key",
		`{"private_key": "` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`:                  "private-key",
		"postgres://app:" + chars(rng, 12) + "@db.internal:5432/x":                        "url-password",
		"redis://:s3cr-" + chars(rng, 8) + "@cache:6379/0":                                "url-password",
		"DB_PASSWORD=hunter2-" + chars(rng, 4):                                            "password",
		"gl" + "pat-gEOzdmenCkhvMdgaKjIg":                                                 "gitlab-token", // no digits
		`"password": "Tr0ub4dor&3"`:                                                       "password",
		`password = 'xK9#mP2$vL5n'`:                                                       "password",
		`{\"password\": \"xK9mP2vL5n\"}`:                                                  "password",
		"Authorization: Bearer " + chars(rng, 40):                                         "authorization-header",
		"curl -H 'X-Api-Key: " + chars(rng, 32) + "' https://api.internal":                "api-key-header",
		"curl -u admin:9" + chars(rng, 12) + " https://api.internal":                      "curl-user",
		"mysql --password=" + chars(rng, 6) + "7x" + chars(rng, 6):                        "password-option",
		"deploy --api-key " + chars(rng, 30) + "42":                                       "password-option",
		"client_secret: " + chars(rng, 16) + "4" + chars(rng, 16) + "2":                   "generic-token",
		`apiKey: "` + chars(rng, 16) + "4" + chars(rng, 16) + `2"`:                        "generic-token",
		"machine api.internal\nlogin me\npassword " + chars(rng, 6) + "7" + chars(rng, 6): "netrc-password",
		"SG." + chars(rng, 22) + "." + chars(rng, 43):                                     "sendgrid-key",
		"hv" + "s." + chars(rng, 90):                                                      "vault-token",
		"123456789:AA" + chars(rng, 33):                                                   "telegram-bot-token",
		"npm_" + chars(rng, 36):                                                           "npm-token",
	} {
		got := Find(text)
		if len(got) != 1 || got[0].Rule != want {
			t.Errorf("Find(%q) = %+v, want %s", text, got, want)
		}
		masked := Mask(text)
		if len(got) == 1 && (strings.Contains(masked, text[got[0].Begin+got[0].Keep:got[0].End]) || !strings.Contains(masked, "***")) {
			t.Errorf("Mask(%q) = %q", text, masked)
		}
		if again := Find(masked); len(again) > 0 {
			t.Errorf("Find(%q) = %+v, although it is masked", masked, again)
		}
	}
}

// Texts that are marked as examples, and texts that only look like a secret.
func TestFindKeeps(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "ab", "AKIA" + "IOSFODNN7EXAMPLE", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"sk_" + "test_4eC39HqLyjWDarjtT1zdp7dc", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_" + rep("a", 36), "ghp_your_token_here", "sk-your-api-key-goes-here-please", "sk-xxxxxxxxxxxxxxxxxxxxxxxx", "sk-...", "sk-<your key>",
		"gldt-deploy-token-for-the-registry", "glpat-your-access-token-here", "glpat-XXXXXXXXXXXXXXXXXXXX", "API_KEY=<your-key>", "API_KEY=${API_KEY}", "API_KEY=$API_KEY", "API_KEY=$(pass show api/key1234567890)", "api_key: {{ .Values.apiKey1234567890 }}", "password: changeme", "password=example123!", "password: \"dummy-Passw0rd\"", "PASSWORD=************",
		"password = os.environ['DB_PASSWORD1']", "const password = getPassword1()", "password: string", "password: str = Field(min_length=12)", "passwordHash = sha256Hex(password)", "if password == userPassword2 {", "type Password struct{}", `"password": "user_password"`, "password: must have 8 characters",
		"postgres://postgres:postgres@localhost:5432/db", "postgres://user:password@host/db", "https://user:pass@example.com", "http://localhost:3000@x", "https://u:$PW@host/", "https://user:${TOKEN}@host", "redis://:@localhost", "https://example.com:8080/a@b",
		"3f786850e387550fdab836ed7e6dc881de23001b", "123e4567-e89b-12d3-a456-426614174000", "token: 123e4567-e89b-12d3-a456-426614174000", `"integrity": "sha512-Vkrq2tXyQp+7vTUeYBL8G0sGuMLYqTyrGWXJBvnIiXRJWnQ1JmVnUDV3fOtN1R8JpL6+ZrG3zgKQJ6VjGhQ2MA=="`,
		"PublicKeyToken=b77a5c561934e089", `"nextPageToken": "CAEQAhoGc2VjcmV0MTIzNDU2Nzg5MA"`, "tokenizer: bert-base-uncased-v2.1-2024", "max_tokens: 4096000000000000", "secretName: my-tls-secret-2024-v1", "kubernetes.io/service-account-token", "token := parser.NextToken2(input)", "token=request.headers.get",
		"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
		"grep -r -- '-----BEGIN RSA PRIVATE KEY-----' .", "-----BEGIN CERTIFICATE-----\n" + rep("MIIBszCCAVmgAwIBAgIUQ4", 20) + "\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\n" + rep("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE", 3),
		"Authorization: Bearer $TOKEN", "Authorization: Bearer <token>", "authorization: bearer authentication-is-described-below", "--password-file /run/secrets/db1234", "use --token to log in", "--token \"$GITHUB_TOKEN\"", "docker run -u 1000:1000 image",
		"task-force-abcdefghijklmnopqrstuvwxyz", "risk-management1234567890abcdef", "npm_config_registry=https://registry.internal", "xoxo-hugs-and-kisses", "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
	} {
		if got := Find(text); len(got) > 0 {
			t.Errorf("Find(%q) finds %s: %q", text, got[0].Rule, text[got[0].Begin:got[0].End])
		}
	}
}

// A valid checksum is sufficient proof, for any words in a token.
func TestChecksum(t *testing.T) {
	t.Parallel()
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	body := "exampleexampleexampleexample12"
	sum := checksum(body)
	tail := ""
	for range 6 {
		tail = string(digits[sum%62]) + tail
		sum /= 62
	}
	if checksum("123456789") != 0xCBF43926 {
		t.Error("checksum is not CRC-32")
	}
	for token, want := range map[string]int{"ghp_" + body + tail: 1, "ghp_" + body + "000000": 0, "npm_" + body + tail: 1} {
		if got := Find(token); len(got) != want {
			t.Errorf("Find(%q) = %+v, want %d", token, got, want)
		}
	}
}

// noise returns texts like the output of tools, and texts that are designed to take long.
func noise(size int) map[string]string {
	rng := rand.New(rand.NewPCG(7, 8))
	fill := func(line func() string) string {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(line())
		}
		return b.String()[:size]
	}
	const base64s = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	all := map[string]string{
		"code": fill(func() string {
			return "\tif err := s.token.Validate(ctx, key, password); err != nil {\n\t\treturn nil, fmt.Errorf(\"secret %q: %w\", name, err)\n\t}\n"
		}),
		"logs": fill(func() string {
			return fmt.Sprintf("2026-03-04T05:06:07.%03dZ INFO http request id=%08x user=42 token=present status=200 took=%dms\n", rng.IntN(1000), rng.Uint32(), rng.IntN(900))
		}),
		"json": fill(func() string {
			return fmt.Sprintf(`{"id":"%016x","name":"item","url":"https://example.com/a/%d","tags":["a","b"],"key":null},`, rng.Uint64(), rng.IntN(1e6))
		}),
		"base64": fill(func() string { return string(base64s[rng.IntN(64)]) }),
		"pem":    fill(func() string { return "-----BEGIN " + "PRIVATE KEY-----\n" }),
		"words":  fill(func() string { return wordTable[1+rng.IntN(len(wordTable)-1)].text }),
		"spaced": fill(func() string { return wordTable[1+rng.IntN(len(wordTable)-1)].text + " " }),
		"values": fill(func() string { return wordTable[1+rng.IntN(len(wordTable)-1)].text + "=" + chars(rng, 4) }),
		"found":  fill(func() string { return "token=" + chars(rng, 20) + "42 " }),
	}
	for _, unit := range []string{"key=", "token", "password", "sk-", "eyJ", "eyJ-", "://", "://a:b", "token=", "--", "--token ", "secret", "a", "-", "\n", "=", "password=\"", "authorization: ", "SG.", "-us1", ":AA", "login \n"} {
		all["of "+unit] = fill(func() string { return unit })
	}
	return all
}

func FuzzFind(f *testing.F) {
	f.Add("password=hunter2 AKIA" + rep("A", 16) + " https://a:b1@c bearer " + rep("a1", 20))
	f.Add("-----BEGIN " + "PRIVATE KEY-----\n" + rep("A", 40))
	f.Add("token : => \"")
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for _, found := range Find(text) {
			if found.Begin < end || found.Begin+found.Keep > found.End || found.End > len(text) || found.Begin >= found.End {
				t.Fatalf("Find(%q) gives %+v behind %d", text, found, end)
			}
			end = found.End
		}
		got := Hide(text)
		if again := Hide(got); len(again) > len(got)+64 {
			t.Errorf("Hide(%q) = %q, and grows to %q", text, got, again)
		}
		if got != text && !Near(text) {
			t.Errorf("Hide(%q) = %q, and nothing is near", text, got)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	all := noise(64 << 10)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(64 << 10)
			for b.Loop() {
				Find(all[name])
			}
		})
	}
}
