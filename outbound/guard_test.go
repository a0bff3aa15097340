package outbound

import (
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// faultOf returns the Fault of an error, or "ok" for nil.
func faultOf(err error) Fault {
	if err == nil {
		return "ok"
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Fault
	}
	return Fault("no Error: " + err.Error())
}

func networks(t testing.TB, texts ...string) Guard {
	t.Helper()
	guard, err := ParseGuard(texts)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// Which URLs are accepted, and the spelling in which they are returned.
//
// Proves: IC-58, IC-59, IC-60, IC-61, IC-69
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{ // a URL or a Fault
		"https://example.com":                         "https://example.com",
		"HTTPS://EXAMPLE.com./a?b#c":                  "https://example.com/a?b",
		"https://example.com:443/a%2Fb":               "https://example.com/a%2Fb",
		"https://example.com:0443?":                   "https://example.com?",
		"https://example.com:8443/é?x=\\":             "https://example.com:8443/%C3%A9?x=\\",
		"https://bücher.example/":                     "https://xn--bcher-kva.example/",
		"https://b%C3%BCcher.example/":                "https://xn--bcher-kva.example/",
		"https://ＢＵＥＣＨＥＲ．example/":                    "https://buecher.example/",
		"https://faß.example/":                        "https://xn--fa-hia.example/",
		"https://r3---sn-4g5e.example/":               "https://r3---sn-4g5e.example/",
		"https://8.8.8.8/":                            "https://8.8.8.8/",
		"https://[2A00:1450:4001:0::1]:8443/":         "https://[2a00:1450:4001::1]:8443/",
		"https://[64:ff9b::8.8.8.8]/":                 "https://[64:ff9b::808:808]/",
		"https://example.com/@127.0.0.1":              "https://example.com/@127.0.0.1",
		"":                                            string(BadURL),
		"example.com/hook":                            string(BadURL),
		"//example.com/hook":                          string(BadURL),
		"https:example.com":                           string(BadURL),
		"https:/example.com":                          string(NoHost),
		"https:///example.com":                        string(NoHost),
		"https://:443/":                               string(NoHost),
		"mailto:a@example.com":                        string(BadScheme),
		"http://user@localhost/":                      string(BadScheme),
		"https://user@/":                              string(UserInfo),
		"https://user@localhost/":                     string(UserInfo),
		"https://@example.com/":                       string(UserInfo),
		" https://example.com/":                       string(BadURL),
		"https://example.com/ ":                       string(BadURL),
		"https://example.com/a b":                     string(BadURL),
		"https://exam\tple.com/":                      string(BadURL),
		"https://example.com/\u2028":                  string(BadURL),
		"https://example.com/\x85\xff":                string(BadURL),
		`https:\\example.com\`:                        string(BadURL),
		`https://example.com\@10.0.0.1/`:              string(BadURL),
		"https://ex%61mple.com/":                      string(BadURL),
		"https://0.0.0A%800/":                         string(BadURL), // found by FuzzCheckURL
		"https://%31%32%37.0.0.1/":                    string(BadURL),
		"https://127.0.0.1/":                          string(ForbiddenIP),
		"https://127.0.0.1./":                         string(ForbiddenIP),
		"https://0x7f.1/":                             string(ForbiddenIP),
		"https://0x/":                                 string(ForbiddenIP), // 0.0.0.0
		"https://017700000001/":                       string(ForbiddenIP),
		"https://①②⑦.⓪.0.1/":                          string(ForbiddenIP),
		"https://127。0。0。1/":                          string(ForbiddenIP),
		"https://134744072/":                          string(AmbiguousHost), // 8.8.8.8
		"https://8.8.8.8./":                           string(AmbiguousHost),
		"https://8.8.8.010/":                          string(AmbiguousHost),
		"https://8.8.2056/":                           string(AmbiguousHost),
		"https://8.8.8.8.8/":                          string(BadURL),
		"https://8.8.8.256/":                          string(BadURL),
		"https://8.8.8.08/":                           string(BadURL),
		"https://example.1/":                          string(BadURL),
		"https://example.0xffffffffffffffffffff/":     string(BadURL),
		"https://99999999999999999999/":               string(BadURL),
		"https://1..1/":                               string(BadURL),
		"https://[::1]/":                              string(ForbiddenIP),
		"https://[::ffff:10.0.0.1]/":                  string(ForbiddenIP),
		"https://[64:ff9b::10.0.0.1]/":                string(ForbiddenIP),
		"https://[2002:a00:1::]/":                     string(ForbiddenIP),
		"https://[::8.8.8.8]/":                        string(ForbiddenIP),
		"https://[8.8.8.8]/":                          string(BadURL),
		"https://[2a00::1%25eth0]/":                   string(BadURL),
		"https://2a00:1450:4001::1/":                  string(BadURL),
		"https://localhost/":                          string(ForbiddenHost),
		"https://LOCALHOST./":                         string(ForbiddenHost),
		"https://a.b.localhost/":                      string(ForbiddenHost),
		"https://local\u00adhost/":                    string(ForbiddenHost),
		"https://ｌｏｃａｌｈｏｓｔ/":                          string(ForbiddenHost),
		"https://metadata.google.internal/":           string(ForbiddenHost),
		"https://metadata.goog/":                      string(ForbiddenHost),
		"https://db.default.svc/":                     string(ForbiddenHost),
		"https://intranet/":                           string(ForbiddenHost),
		"https://example..com/":                       string(BadURL),
		"https://.example.com/":                       string(BadURL),
		"https://example.com../":                      string(BadURL),
		"https://-example.com/":                       string(BadURL),
		"https://example-.com/":                       string(BadURL),
		"https://exam_ple.com/":                       string(BadURL),
		"https://xn--a.example/":                      string(BadURL),
		"https://example.xn--/":                       string(BadURL), // not example
		"https://www.example.com.ｘn--/":               string(BadURL),
		"https://xn--8-å-.com/":                       string(BadURL), // not xn--8--zia.com
		"https://x\u00adn--8-å-.com/":                 string(BadURL),
		"https://XN--Bcher-KVA.example。/":             "https://xn--bcher-kva.example/",
		"https://ｘｎ－－bcher-kva.例え/":                   "https://xn--bcher-kva.xn--r8jz45g/",
		"https://\u0661\u0662\u0667.0.0.1/":           string(BadURL),
		"https://" + strings.Repeat("a", 64) + ".de":  string(BadURL),
		"https://" + strings.Repeat("a.", 126) + "de": string(BadURL),
		"https://example.com:0/":                      string(ForbiddenPort),
		"https://example.com:22/":                     string(ForbiddenPort),
		"https://example.com:6379/":                   string(ForbiddenPort),
		"https://localhost:22/":                       string(ForbiddenHost),
		"https://localhost:65536/":                    string(BadURL),
		"https://example.com:a/":                      string(BadURL),
	} {
		u, err := Guard{}.CheckURL(raw)
		got := string(faultOf(err))
		if err == nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("CheckURL(%q) = %s (%v), want %s", raw, got, err, want)
		}
	}
}

// An error message contains nothing of a URL except its host.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://example.com/s3cret\x00", "http://example.com/s3cret", "https:///s3cret", "https://a:s3cret@example.com/", "https://10.0.0.1/s3cret",
		"https://localhost/s3cret", "https://example.com:22/s3cret", "https://example.com:x/s3cret", "https://[::/s3cret", "https://a_b.de/s3cret",
		"https://8.8.8.010/s3cret", "https://1.2.3.4.5/s3cret", "https:s3cret", "s3cret", "https://example.com/%zzs3cret", `https://example.com/\s3cret`,
	} {
		if _, err := (Guard{}).CheckURL(raw); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("CheckURL(%q): %v, want an error without the secret", raw, err)
		}
	}
	for name, value := range map[string]string{"Cookie": "s3cret", "X-A": "s3cret\n", "X-B": strings.Repeat("s3cret", 2000)} {
		err := CheckHeaders(maps.All(map[string]string{name: value}))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("header %s: %v, want an error without the secret", name, err)
		}
	}
}

// The first and the last address of each range that is not public, and their neighbors.
//
// Proves: IC-61, IC-69
func TestCheckAddr(t *testing.T) {
	t.Parallel()
	for text, public := range map[string]bool{
		"0.0.0.0": false, "0.255.255.255": false, "1.0.0.0": true,
		"9.255.255.255": true, "10.0.0.0": false, "10.255.255.255": false, "11.0.0.0": true,
		"100.63.255.255": true, "100.64.0.0": false, "100.127.255.255": false, "100.128.0.0": true,
		"126.255.255.255": true, "127.0.0.0": false, "127.255.255.255": false, "128.0.0.0": true,
		"168.63.129.15": true, "168.63.129.16": false, "168.63.129.17": true,
		"169.253.255.255": true, "169.254.0.0": false, "169.254.255.255": false, "169.255.0.0": true,
		"172.15.255.255": true, "172.16.0.0": false, "172.31.255.255": false, "172.32.0.0": true,
		"191.255.255.255": true, "192.0.0.0": false, "192.0.0.255": false, "192.0.1.0": true, "192.0.2.0": false, "192.0.2.255": false, "192.0.3.0": true,
		"192.88.98.255": true, "192.88.99.0": false, "192.88.99.255": false, "192.88.100.0": true,
		"192.167.255.255": true, "192.168.0.0": false, "192.168.255.255": false, "192.169.0.0": true,
		"198.17.255.255": true, "198.18.0.0": false, "198.19.255.255": false, "198.20.0.0": true,
		"198.51.99.255": true, "198.51.100.0": false, "198.51.100.255": false, "198.51.101.0": true,
		"203.0.112.255": true, "203.0.113.0": false, "203.0.113.255": false, "203.0.114.0": true,
		"223.255.255.255": true, "224.0.0.0": false, "239.255.255.255": false, "240.0.0.0": false, "255.255.255.255": false,
		"::": false, "::1": false, "::2": false, "::8.8.8.8": false, "::ffff:8.8.8.8": true, "::ffff:127.0.0.1": false, "::ffff:0:8.8.8.8": false,
		"64:ff9b::8.8.8.8": true, "64:ff9b::169.254.169.254": false, "64:ff9b:1::8.8.8.8": false, "100::1": false,
		"1fff:ffff::": false, "2000::": true, "2000:ffff::": true, "2001::": false, "2001:1ff:ffff::": false, "2001:200::": true,
		"2001:db7:ffff::": true, "2001:db8::": false, "2001:db8:ffff::": false, "2001:db9::": true,
		"2002::": false, "2002:ffff::": false, "2003::": true, "3ffe:ffff::": true, "3fff::": false, "3fff:fff:ffff::": false, "3fff:1000::": true, "3fff:ffff::": true,
		"4000::": false, "5f00::1": false, "fc00::": false, "fd12::1": false, "fe80::1": false, "fe80::1%eth0": false, "2a00::1%eth0": false, "fec0::1": false, "ff02::1": false,
	} {
		err := Guard{}.CheckAddr(netip.MustParseAddr(text))
		if (err == nil) != public || err != nil && faultOf(err) != ForbiddenIP {
			t.Errorf("CheckAddr(%s) = %v, want public %v", text, err, public)
		}
	}
	if err := (Guard{}).CheckAddr(netip.Addr{}); err == nil {
		t.Error("what is no address may be dialled")
	}
}

// Networks that an operator can open, and addresses that stay closed even if all networks are open.
func TestNetworks(t *testing.T) {
	t.Parallel()
	some := networks(t, "10.1.2.0/24", "fd12::/16", "2001:db8::/32")
	all := networks(t, "0.0.0.0/0", "::/0")
	for text, want := range map[string][2]bool{
		"10.1.2.3": {true, true}, "10.1.3.3": {false, true}, "::ffff:10.1.2.3": {true, true}, "64:ff9b::10.1.2.3": {true, true}, "::10.1.2.3": {false, true},
		"fd12::1": {true, true}, "2001:db8::1": {true, true}, "127.0.0.1": {false, true}, "::1": {false, true}, "8.8.8.8": {true, true},
		"169.254.169.254": {false, false}, "::ffff:169.254.169.254": {false, false}, "64:ff9b::a9fe:a9fe": {false, false}, "fe80::1": {false, false},
		"100.100.100.200": {false, false}, "168.63.129.16": {false, false}, "192.0.0.192": {false, false}, "fd00:ec2::254": {false, false}, "fd20:ce::254": {false, false},
	} {
		addr := netip.MustParseAddr(text)
		if got := [2]bool{some.CheckAddr(addr) == nil, all.CheckAddr(addr) == nil}; got != want {
			t.Errorf("%s: permitted with some networks and with all: %v, want %v", text, got, want)
		}
	}
	for raw, want := range map[string]Fault{"https://10.1.2.3/": "ok", "https://167838211/": AmbiguousHost, "https://printer.local/": ForbiddenHost, "https://10.1.2.3:22/": ForbiddenPort} {
		if _, err := some.CheckURL(raw); faultOf(err) != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "example.com/8"} {
		if _, err := ParseGuard([]string{"10.0.0.0/8", bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("ParseGuard(%q) = %v, want an error", bad, err)
		}
	}
}

// FuzzCheckURL: if a URL is permitted, its host is not a forbidden address in any notation, a
// second check returns the same URL, and the URL contains no user.
func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/hook?a=b#c", "https://127.1", "https://0x7f.0.0.1/", "https://[::ffff:127.0.0.1]:8443/", "https://a@b:c@d/", `https://a\b/`,
		"https://b%C3%BCcher.example", "https://localhost。/", "https://xn--bcher-kva.example", "https://8.8.8.8:53", "https://1.1.1.1.", "https://[64:ff9b::a00:1]/",
		"https://exam\u00adple.com/", "https:/example.com", "https://ⅷ.8.8.8/", "https://example.com:00443/%2e%2e/", "https://xn--0.xn--1/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := Guard{}.CheckURL(raw)
		if err != nil {
			if known, ok := errors.AsType[*Error](err); !ok || known.Fault == "" {
				t.Errorf("%q: %v is no Error with a Fault", raw, err)
			}
			return
		}
		host := u.Hostname()
		if addr, err := netip.ParseAddr(host); err == nil {
			if err := (Guard{}).CheckAddr(addr); err != nil {
				t.Errorf("%q: %v", raw, err)
			}
		} else if addr, err := parseIPv4(host); err == nil { // as the C library parses it
			t.Errorf("%q: the host %q is %v to some", raw, host, addr)
		}
		if u.Scheme != "https" || u.User != nil || u.Fragment != "" || strings.ContainsAny(host, "/@\\ %") || !strings.ContainsAny(host, ".:") {
			t.Errorf("%q: becomes %q", raw, u)
		}
		again, err := Guard{}.CheckURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Errorf("%q: becomes %q, and that %q, %v", raw, u, again, err)
		}
		if read, err := url.Parse(u.String()); err != nil || read.Host != u.Host {
			t.Errorf("%q: becomes %q, whose host is read as %q, %v", raw, u, read.Host, err)
		}
	})
}
