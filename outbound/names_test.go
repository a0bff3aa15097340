package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// Names open themselves only: no name that contains, ends or looks like them.
func TestNames(t *testing.T) {
	t.Parallel()
	g := networks(t, "*.corp.internal", "Build.Lan.Example", "10.1.2.0/24")
	for raw, want := range map[string]Fault{
		"https://collector.corp.internal/x":             "ok",
		"https://a.b.corp.internal/":                    "ok",
		"https://COLLECTOR.Corp.Internal./":             "ok",
		"https://ｃollector。corp.internal/":              "ok",
		"https://build.lan.example/":                    "ok",
		"https://collector.corp.internal:8443/":         "ok",
		"https://collector.corp.internal:6379/":         ForbiddenPort,
		"https://corp.internal/":                        ForbiddenHost,
		"https://evilcorp.internal/":                    ForbiddenHost,
		"https://metadata.google.internal/":             ForbiddenHost,
		"https://collector.corp.internal.local/":        ForbiddenHost,
		"https://collector/":                            ForbiddenHost,
		"https://localhost/":                            ForbiddenHost,
		"https://.corp.internal/":                       BadURL,
		"https://a..corp.internal/":                     BadURL,
		"https://-a.corp.internal/":                     BadURL,
		"https://collector.corp.internal@evil.example/": UserInfo,
		"https://evil.example\\.corp.internal/":         BadURL,
		"https://evil.example%2f.corp.internal/":        BadURL,
		"https://10.1.3.3/":                             ForbiddenIP,
	} {
		if _, err := g.CheckURL(raw); faultOf(err) != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	for _, bad := range []string{
		"*", "*.", "*.com", "*.internal", "**.corp.internal", "*corp.internal", "a.*.internal", "collector", "localhost", "a..internal", ".corp.internal", "corp.internal.",
		"-a.corp.internal", "a_.internal ", "a.internal:443", "1.2.3.4", "*.1.2.3.4", "0x7f.1", "büro.internal", "a.internal\n", "[::1]", "::1", strings.Repeat("a", 64) + ".internal", strings.Repeat("a.", 130) + "internal",
	} {
		if g, err := ParseGuard([]string{bad}); err == nil {
			t.Errorf("ParseGuard(%q) = %+v, want an error", bad, g)
		}
	}
}

// The addresses that a name may have. An opened name leads neither to this machine nor to a service
// that returns credentials.
func TestNamedAddresses(t *testing.T) {
	t.Parallel()
	names, both := networks(t, "*.corp.internal"), networks(t, "*.corp.internal", "127.0.0.0/8")
	for texts, want := range map[string][4]bool{ // the name; the name and the network; another name; the name over http
		"8.8.8.8 172.32.0.1 100.128.0.1 2606:4700:4700::1111 64:ff9b::808:808 ::ffff:8.8.8.8":                                       {true, true, true, false},
		"10.1.2.3 172.31.255.255 192.168.1.1 100.64.0.1 100.100.100.201 fd12::1 fd20:ce::255 ::ffff:10.1.2.3 64:ff9b::c0a8:1":       {true, true, false, false},
		"127.0.0.1 ::ffff:127.0.0.1 64:ff9b::7f00:1":                                                                                {false, true, false, false},
		"::1 :: 0.0.0.0 fec0::1 224.0.0.1 ff02::1 255.255.255.255 192.0.2.1 198.18.0.1 2001:db8::1":                                 {}, // this machine, multicast, reserved
		"fe80::1 fd12::1%eth0 ::10.1.2.3 2002:a00:1:: 2001:0:a00:1:: 64:ff9b:1::a00:1":                                              {}, // a link, tunnels
		"169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254":                                      {}, // credentials
		"::ffff:169.254.169.254 64:ff9b::a9fe:a9fe ::ffff:100.100.100.200 64:ff9b::6464:64c8 ::ffff:168.63.129.16 64:ff9b::c000:c0": {},
	} {
		for text := range strings.FieldsSeq(texts) {
			const named = "collector.corp.internal:443"
			addr := netip.MustParseAddr(text)
			got := [4]bool{
				names.checkOf("https://"+named)(addr) == nil, both.checkOf("https://"+named)(addr) == nil,
				names.checkOf("https://other.example:443")(addr) == nil, names.checkOf("http://"+named)(addr) == nil,
			}
			if got != want {
				t.Errorf("%s: %v, want %v", text, got, want)
			}
		}
	}
}

// An attacker who owns a name, or one of its addresses, gains nothing by names that others opened.
func TestNamesAndRebinding(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		url   string
		found []string
		want  Fault
	}{
		"opened":                       {"https://collector.corp.internal/", []string{"10.0.0.5"}, Unreachable},
		"opened, and public":           {"https://collector.corp.internal/", []string{"10.0.0.5", somewhere}, Unreachable},
		"opened, with loopback":        {"https://collector.corp.internal/", []string{"10.0.0.5", "127.0.0.1"}, DNSForbiddenIP},
		"opened, with credentials":     {"https://collector.corp.internal/", []string{"169.254.169.254"}, DNSForbiddenIP},
		"opened, in the clear":         {"http://collector.corp.internal/", []string{"10.0.0.5"}, DNSForbiddenIP},
		"another name":                 {"https://evil.example/", []string{"10.0.0.5"}, DNSForbiddenIP},
		"a name that ends differently": {"https://collector.corp.internal.evil.example/", []string{"10.0.0.5"}, DNSForbiddenIP},
	} {
		opts := &Options{
			Guard: networks(t, "*.corp.internal"), Resolver: public(tt.found...),
			Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				if tt.want == DNSForbiddenIP {
					t.Errorf("%s: %s is dialed", name, address)
				}
				if err := dialer(func() Guard { return networks(t, "*.corp.internal") }).ControlContext(ctx, "tcp", address, nil); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				// The address changes between the check and the connection.
				if err := dialer(func() Guard { return networks(t, "*.corp.internal") }).ControlContext(ctx, "tcp", "127.0.0.1:443", nil); faultOf(err) != ForbiddenIP {
					t.Errorf("%s: loopback at the dial: %v", name, err)
				}
				// The name was closed meanwhile.
				if err := dialer(func() Guard { return Guard{} }).ControlContext(ctx, "tcp", "10.0.0.5:443", nil); faultOf(err) != ForbiddenIP {
					t.Errorf("%s: a closed name at the dial: %v", name, err)
				}
				return nil, errors.New("no server")
			},
		}
		if _, err := post(t, NewClient(opts), tt.url); faultOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	// Without a host, no name is open.
	if err := dialer(func() Guard { return networks(t, "*.corp.internal") }).ControlContext(t.Context(), "tcp", "10.0.0.5:443", nil); faultOf(err) != ForbiddenIP {
		t.Error(err)
	}
}
