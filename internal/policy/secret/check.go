package secret

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
)

// A check is a condition on a secret that an expression cannot check.
type check uint8

// Checks of the precise rules.
const (
	checkNone     check = iota
	checkRandom         // it has letters and digits
	checkMixed          // it has letters and digits, or a higher entropy than words
	checkCases          // it has letters and digits, or letters of both cases; for tokens with a prefix that nothing else has
	checkDigits         // it has digits
	checkCrc            // its last six characters are a checksum; a wrong checksum only makes the finding less certain
	checkJwt            // it begins with a JSON object that names an algorithm
	checkAddress        // it is a password, and not a placeholder
	checkBasic          // it is the base64 of user:password
	checkPassword       // a person or a program chose it as a password, and it is not a word of source code
	checkOption         // the same, for the value of a command-line option
	checkToken          // it is a random token

	// Checks of the rules for records.
	checkLettersDigits
	checkLiteral
	checkAssigned
	checkAssignedRandom
	checkFlag
)

// maxChecked is the maximum number of bytes of a secret that the checks read.
const maxChecked = 1 << 10

// holds reports whether the match of a rule's expression is a secret.
func (r *rule) holds(text string, f Finding, all bool) bool {
	v := text[f.Begin:f.End]
	if r.loose {
		return !strings.HasPrefix(v, "***") && looksLike(r.check, text, f.Begin, f.End)
	}
	v = v[:min(len(v), maxChecked)]
	body := v[min(f.Keep, len(v)):]
	if r.check == checkCrc && summed(body) {
		return true
	}
	if r.entropy > 0 && entropy(body) < float64(r.entropy)/10 {
		return false
	}
	return r.suits(text, f, v, body) && !placeholder(body)
}

// suits applies the check of a precise rule.
func (r *rule) suits(text string, f Finding, v, body string) bool {
	switch r.check {
	case checkRandom:
		return random(body)
	case checkMixed:
		return random(body) || entropy(body) > 4.2
	case checkCases:
		return random(body) || strings.ToLower(body) != body && strings.ToUpper(body) != body
	case checkDigits:
		return strings.ContainsAny(body, "0123456789")
	case checkJwt:
		return signed(v)
	case checkBasic:
		return login(v)
	case checkAddress:
		return addressPassword(text, f.Begin, f.End)
	case checkPassword:
		return password(text, f.Begin, f.End)
	case checkOption:
		return v[0] != '-' && password(text, f.Begin, f.End)
	case checkToken:
		return chance(v) && literal(text, f.Begin, f.End) && !named(text, f.Begin)
	default:
		return true
	}
}

// summed reports whether the last six characters are the CRC-32 of the others in base 62, as in
// tokens of GitHub and npm.
func summed(token string) bool {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if len(token) < 36 {
		return false
	}
	body, sum := token[:len(token)-6], token[len(token)-6:]
	want := checksum(body)
	for i := len(sum) - 1; i >= 0; i-- {
		if sum[i] != digits[want%62] {
			return false
		}
		want /= 62
	}
	return true
}

// checksum returns the CRC-32 of a short text. It does not use hash/crc32, which builds a table
// at startup.
func checksum(text string) uint32 {
	crc := ^uint32(0)
	for i := range len(text) {
		crc ^= uint32(text[i])
		for range 8 {
			crc = crc>>1 ^ 0xEDB88320&-(crc&1)
		}
	}
	return ^crc
}

// entropy returns the Shannon entropy of a text in bits per byte.
func entropy(text string) float64 {
	if text == "" {
		return 0
	}
	var counts [256]uint16
	for i := range len(text) {
		counts[text[i]]++
	}
	sum := 0.0
	for i := range len(text) { // visits each distinct byte once, without a loop over all 256
		if n := counts[text[i]]; n > 0 {
			counts[text[i]] = 0
			if n > 1 {
				sum += float64(n) * math.Log2(float64(n))
			}
		}
	}
	return math.Log2(float64(len(text))) - sum/float64(len(text))
}

// fakes lists words that mark a value as an example. A random token contains one of them only
// with a negligible probability.
var fakes = [...]string{
	"example", "dummy", "changeme", "change_me", "change-me", "placeholder", "redacted", "sample", "your_", "your-", "yourpass", "yoursecret", "yourtoken", "yourapi", "insert", "replace",
	"xxxx", "***", "....", "____", "${", "{{", "}}", "$(", "<", ">", "%(", "mytoken", "my-token", "my_token", "mysecret", "my-secret", "my_secret", "lorem", "foobar", "notasecret", "not-a-secret", "not_a_secret",
	"deadbeefdeadbeef",
}

// shortFakes lists words that are short enough to occur in random tokens, but seldom with this
// letter case.
var shortFakes = [...]string{"test", "Test", "TEST", "fake", "Fake", "FAKE", "mock", "Mock", "MOCK", "todo", "TODO"}

// placeholder reports whether a value is a placeholder or an example.
func placeholder(v string) bool {
	if len(v) > 256 {
		v = v[:64] // longer values contain such words by chance
	}
	low := asciiLower(v)
	for _, word := range &fakes {
		if strings.Contains(low, word) {
			return true
		}
	}
	for _, word := range &shortFakes {
		if strings.Contains(v, word) {
			return true
		}
	}
	run := 1
	for i := 1; i < len(v); i++ {
		if v[i] != v[i-1] {
			run = 1
		} else if run++; run >= 7 {
			return true
		}
	}
	return false
}

// random reports whether a value has letters and digits, as a generated value has.
func random(v string) bool {
	letters, digits := false, false
	for i := range len(v) {
		switch c := v[i]; {
		case c >= '0' && c <= '9':
			digits = true
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters = true
		}
	}
	return letters && digits
}

// signed reports whether a JSON web token has a header that names an algorithm. It rejects the
// sample token of jwt.io that many texts quote.
func signed(token string) bool {
	head, rest, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	return err == nil && strings.Contains(string(text), `"alg"`) && !strings.HasPrefix(rest, "eyJzdWIiOiIxMjM0NTY3ODkwIiwi")
}

// login reports whether v is the base64 of user:password.
func login(v string) bool {
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
	if err != nil {
		return false
	}
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	user, pass, ok := strings.Cut(string(text), ":")
	return ok && user != "" && len(pass) >= 4 && !placeholder(pass) && !passwordPlaceholder(pass) && pass != user
}

// passwordPlaceholders lists words that are placeholders for a password, and passwords that are publicly
// known.
var passwordPlaceholders = [...]string{
	"pass", "passw0rd", "pwd", "token", "postgres", "postgresql", "mysql", "root", "admin", "guest", "user", "username", "login", "letmein", "qwerty", "123456", "1234567", "12345678", "123456789", "1234567890",
	"s3cret", "secr3t", "s3cr3t", "opensesame", "foo", "bar", "baz", "qux", "abc", "abcd", "abc123", "hello", "world", "none", "null", "true", "false", "string", "password1", "password123", "minioadmin", "rabbitmq", "mongo", "redis", "docker", "vagrant", "default", "public", "private",
	"x-oauth-basic", "x-access-token", "oauth2", "undefined", "required", "optional",
	"uint8array", "arraybuffer", "base64", "utf8", "sha256", "sha512", "md5", "argon2", "argon2id", "pbkdf2", "bcrypt",
}

// passwordPlaceholder reports whether a value is a placeholder for a password.
func passwordPlaceholder(v string) bool {
	low := asciiLower(v)
	return strings.Contains(low, "passw") || strings.Contains(low, "secret") || slices.Contains(passwordPlaceholders[:], low)
}

// addressPassword reports whether the password in a URL is a real one and not a placeholder.
func addressPassword(text string, begin, end int) bool {
	v := text[begin:end]
	if !literal(text, begin, end) || placeholder(v) || passwordPlaceholder(v) || strings.HasPrefix(v, ":") {
		return false
	}
	at := strings.LastIndex(text[max(0, begin-140):begin], "://")
	if at >= 0 && text[max(0, begin-140):begin][at+3:] == v+":" { // postgres:postgres
		return false
	}
	host := text[end:min(len(text), end+40)]
	if stop := strings.IndexAny(host, "/ \n\"'"); stop >= 0 {
		host = host[:stop]
	}
	if placeholder(host) {
		return false
	}
	port := !strings.ContainsFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	return !port && len(v) >= 4 && (len(v) >= 12 || kinds(v) >= 2 || entropy(v) > 2.9)
}

// kinds returns how many of these classes a text has: lower case, upper case, digits, others.
func kinds(v string) int {
	var has [4]int
	for i := range len(v) {
		switch c := v[i]; {
		case c >= 'a' && c <= 'z':
			has[0] = 1
		case c >= 'A' && c <= 'Z':
			has[1] = 1
		case c >= '0' && c <= '9':
			has[2] = 1
		case c != '_' && c != '-' && c != '.':
			has[3] = 1
		}
	}
	return has[0] + has[1] + has[2] + has[3]
}

// password reports whether a value was chosen as a password. It rejects words of source code: a
// name, a type, a path, a call.
func password(text string, begin, end int) bool {
	v := text[begin:end]
	if !literal(text, begin, end) || passwordPlaceholder(v) || path(v) || named(text, begin) {
		return false
	}
	quoted := begin > 0 && (text[begin-1] == '"' || text[begin-1] == '\'') && end < len(text) && text[end] == text[begin-1]
	some := random(v) || quoted && kinds(v) >= 3
	if !some || wordy(v) {
		return false
	}
	if quoted {
		return !strings.ContainsAny(v, " {}")
	}
	if identifier(v) {
		return false
	}
	before := text[begin-1]
	switch before {
	case '=':
		return true
	case ' ', '\t':
		return len(v) >= 7 && !strings.ContainsAny(v, "[]")
	default:
		return len(v) >= 7 && !strings.ContainsAny(v, "[]")
	}
}

// chance reports whether a value is a random token. It rejects names, versions, paths and IDs.
func chance(v string) bool {
	digits := 0
	for i := range len(v) {
		if v[i] >= '0' && v[i] <= '9' {
			digits++
		}
	}
	if digits < 2 || !random(v) || path(v) || wordy(v) || identifier(v) || uuid(v) || passwordPlaceholder(v) {
		return false
	}
	low := asciiLower(v)
	return !strings.HasPrefix(low, "sha256") && !strings.HasPrefix(low, "sha512") && !strings.HasPrefix(low, "sha1-") && !strings.HasPrefix(low, "data:") && !strings.HasPrefix(low, "0x")
}

func uuid(v string) bool {
	if len(v) != 36 {
		return false
	}
	for i := range len(v) {
		switch c := lower(v[i]); {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// path reports whether a value is a file name or an address.
func path(v string) bool {
	return v[0] == '/' || v[0] == '~' || v[0] == '.' || strings.Contains(v, "://") || strings.Contains(v, "./") || strings.Count(v, "/") >= 2 && wordy(v)
}

// identifier reports whether a value is a qualified name in source code, such as a.b.C1.
func identifier(v string) bool {
	parts := strings.Split(strings.TrimRight(v, ".;:,"), ".")
	if len(parts) < 2 {
		return false
	}
	for _, p := range parts {
		if p == "" || p[0] >= '0' && p[0] <= '9' || strings.Trim(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return false
		}
	}
	return true
}

// wordy reports whether more than half of a value is words: long runs of letters in one case,
// which random values do not have.
func wordy(v string) bool {
	in, run, kind := 0, 0, byte(0)
	add := func() {
		if run >= 5 {
			in += run
		}
		run = 0
	}
	for i := range len(v) {
		var k byte
		switch c := v[i]; {
		case c >= 'a' && c <= 'z':
			k = 'a'
		case c >= 'A' && c <= 'Z':
			k = 'A'
		}
		if k != kind && !(k == 'a' && kind == 'A' && run == 1) { // a capital and lower case letters are one run
			add()
		}
		kind = k
		if k != 0 {
			run++
		}
	}
	add()
	return in*2 > len(v)
}

// notSecret lists the ends of names with public values that are as long as tokens.
var notSecret = [...]string{"page", "page_", "page-", "sync", "sync_", "publickey", "next", "next_", "cursor", "continuation", "continuation_", "csrf", "csrf-", "csrf_", "public", "public_", "pad_", "eos_", "bos_", "unk_", "mask_", "cls_", "sep_"}

// named reports whether the name before a value marks it as public.
func named(text string, begin int) bool {
	from := max(0, begin-60)
	if line := strings.LastIndexByte(text[from:begin], '\n'); line >= 0 {
		from += line + 1
	}
	name := asciiLower(text[from:begin])
	name = strings.TrimRight(name, " \t=:>\"'`\\[]")
	for _, end := range []string{"token", "secret", "key", "password", "credential", "credentials"} {
		if rest, ok := strings.CutSuffix(name, end); ok {
			for _, word := range &notSecret {
				if strings.HasSuffix(rest, word) {
					return true
				}
			}
			return false
		}
	}
	return false
}

// looksLike applies the check of a rule for records.
func looksLike(c check, text string, begin, end int) bool {
	v := text[begin:end]
	switch c {
	case checkLettersDigits:
		return random(v)
	case checkLiteral:
		return literal(text, begin, end)
	case checkAssigned:
		return assigned(text, begin, end)
	case checkAssignedRandom:
		// Source code uses these names for many things.
		return len(v) >= 8 && literal(text, begin, end) && random(v)
	case checkFlag:
		// The value of --password, and not the next word of a sentence or command.
		return v[0] != '-' && !strings.Contains(v, "=") && literal(text, begin, end) && !typeName(v) && !plainWord(v)
	default:
		return true
	}
}

// literal reports whether a value is not a reference to another value: $TOKEN, {{token}},
// %TOKEN%, f(x).
func literal(text string, begin, end int) bool {
	if strings.IndexByte("$%*[\\#.", text[begin]) >= 0 {
		return false
	}
	if end < len(text) && (text[end] == '(' || text[end] == '{') {
		return false
	}
	if !strings.ContainsAny(text[begin:end], "$.:[") { // every reference below contains one of these
		return true
	}
	v := asciiLower(text[begin:end])
	return !strings.Contains(v, "environ") && !strings.Contains(v, "process.env") && !strings.Contains(v, "${") && !strings.HasPrefix(v, "env.") && !strings.HasPrefix(v, "env:")
}

// assigned reports whether a value is a password and not a part of a sentence: "password: must be
// long" is a sentence, "password=must" is not.
func assigned(text string, begin, end int) bool {
	if !literal(text, begin, end) || typeName(text[begin:end]) {
		return false
	}
	before := text[begin-1]
	return before == '=' || before == '"' || before == '\'' || !plainWord(text[begin:end])
}

// typeName reports whether a value is the name of a type, or a word for a missing value.
func typeName(v string) bool {
	return slices.Contains(typeNames[:], strings.TrimRight(asciiLower(v), ".:]!?"))
}

var typeNames = [...]string{
	"string", "str", "text", "none", "null", "nil", "true", "false", "undefined", "optional", "required", "bytes", "int", "any", "yes", "no",
}

// plainWord reports whether a value is letters only, as in a sentence.
func plainWord(v string) bool {
	v = strings.TrimRight(v, ".:!?")
	small := func(s string) bool {
		return !strings.ContainsFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
	}
	return small(v) || small(v[min(1, len(v)):]) && v[0] >= 'A' && v[0] <= 'Z'
}

// asciiLower returns text with ASCII letters in lower case. Offsets in both texts are the same.
func asciiLower(text string) string {
	for i := range len(text) {
		if c := text[i]; c >= 'A' && c <= 'Z' {
			low := []byte(text)
			for ; i < len(low); i++ {
				low[i] = lower(low[i])
			}
			return string(low)
		}
	}
	return text
}
