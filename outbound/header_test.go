package outbound

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// Which names and values of headers are accepted.
//
// Proves: IC-64, IC-69
func TestCheckHeaders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		headers map[string]string
		want    Fault
	}{
		"none":                  {nil, "ok"},
		"some":                  {map[string]string{"X-Team": "platform", "X-Empty": "", "User-Agent": "a\tb", "!#$%&'*+-.^_`|~": "~ "}, "ok"},
		"no name":               {map[string]string{"": "x"}, BadHeader},
		"a space":               {map[string]string{"X A": "x"}, BadHeader},
		"a colon":               {map[string]string{"X:": "x"}, BadHeader},
		"beyond ASCII":          {map[string]string{"X-ü": "x"}, BadHeader},
		"a line break":          {map[string]string{"X": "a\r\nHost: b"}, BadHeader},
		"a NUL":                 {map[string]string{"X": "a\x00"}, BadHeader},
		"a DEL":                 {map[string]string{"X": "a\x7f"}, BadHeader},
		"bytes above ASCII":     {map[string]string{"X": "\xff"}, BadHeader},
		"as large as it may be": {map[string]string{"X": strings.Repeat("x", maxHeaderValue)}, "ok"},
		"too large":             {map[string]string{"X": strings.Repeat("x", maxHeaderValue+1)}, BadHeader},
		"twice":                 {map[string]string{"X-A": "1", "x-a": "2"}, BadHeader},
		"any case":              {map[string]string{"hOST": "x"}, ForbiddenHeader},
		"underscores":           {map[string]string{"X_Forwarded_For": "x"}, ForbiddenHeader},
		"a prefix":              {map[string]string{"X-AWS-EC2-Metadata-Token": "x"}, ForbiddenHeader},
		"no prefix":             {map[string]string{"X-Forwarding": "x"}, "ok"},
		"bad before forbidden":  {map[string]string{"Host": "\n"}, BadHeader},
	} {
		if err := CheckHeaders(maps.All(tt.headers)); faultOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	many := map[string]string{}
	for i := range maxHeaders {
		many[fmt.Sprintf("X-%d", i)] = ""
	}
	if err := CheckHeaders(maps.All(many)); err != nil {
		t.Errorf("%d headers: %v", len(many), err)
	}
	many["X-One-More"] = ""
	if err := CheckHeaders(maps.All(many)); faultOf(err) != BadHeader {
		t.Errorf("%d headers: %v", len(many), err)
	}
}

// FuzzCheckHeader: a permitted header arrives unchanged and once, and changes nothing else in the
// request.
func FuzzCheckHeader(f *testing.F) {
	for _, seed := range [][2]string{
		{"X-Team", "platform"}, {"Host", "a"}, {"x_forwarded_for", "b"}, {"X-A", "a\r\nHost: b"}, {"X-A ", ""}, {"Content-length", "5"}, {"te", "trailers"}, {"X", " a\t"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if CheckHeaders(maps.All(map[string]string{name: value})) != nil {
			return
		}
		req, err := http.NewRequest(http.MethodPost, "https://example.com/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "grapnel")
		req.Header.Set(name, value)
		want := req.Header.Clone()
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatalf("%q: %q: %v", name, value, err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("%q: %q: %v", name, value, err)
		}
		want.Set(name, strings.Trim(value, " \t")) // white space around a value is ignored
		want.Set("Content-Length", "4")
		if !maps.EqualFunc(got.Header, want, func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) || got.Host != "example.com" || got.ContentLength != 4 || got.Close {
			t.Errorf("%q: %q: arrives as %v of %s, %d bytes\nwant %v", name, value, got.Header, got.Host, got.ContentLength, want)
		}
	})
}
