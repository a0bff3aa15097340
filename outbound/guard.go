package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Guard decides which addresses a Client may connect to: public addresses, Networks, and private
// addresses of Names.
type Guard struct {
	// Networks are non-public networks that the operator has opened. They allow neither names of
	// local hosts nor the addresses of cloud metadata services, which return credentials.
	Networks []netip.Prefix

	// Names are hosts that the operator has opened, in lower case: collector.corp.internal, or
	// *.corp.internal for all names below corp.internal. They may be local names, and their addresses
	// may be private. They allow neither loopback nor any other special address, and http only in
	// Networks.
	Names []string
}

// ParseGuard returns a Guard that opens networks in CIDR notation, such as 10.1.2.0/24, and names.
func ParseGuard(texts []string) (Guard, error) {
	var g Guard
	for _, text := range texts {
		if !strings.Contains(text, "/") {
			name, err := parseName(text)
			if err != nil {
				return Guard{}, err
			}
			g.Names = append(g.Names, name)
			continue
		}
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return Guard{}, fmt.Errorf("network %q: want an address and a prefix length, such as 10.1.2.0/24", text)
		case p.Masked() != p:
			return Guard{}, fmt.Errorf("network %q: the address has bits after the prefix (did you mean %v?)", text, p.Masked())
		case p.Addr().Is4In6():
			return Guard{}, fmt.Errorf("network %q: write it as an IPv4 network", text)
		}
		g.Networks = append(g.Networks, p)
	}
	return g, nil
}

// CheckURL checks a URL without a DNS lookup: its spelling, scheme, user, host and port, in this
// order. It returns the URL in a form that every parser reads alike; the Client connects to that
// URL. The error is an [*Error].
//
// Input that browsers would repair is an error, because another parser could repair it
// differently and get another host.
func (g Guard) CheckURL(raw string) (*url.URL, error) { return g.check(raw, false) }

// CheckHookURL checks the URL of a Hook's server, like CheckURL. It also accepts http:// if the
// host is an address in an open network, or a name. Names are checked when their addresses are
// known.
func (g Guard) CheckHookURL(raw string) (*url.URL, error) { return g.check(raw, true) }

func (g Guard) check(raw string, inClear bool) (*url.URL, error) {
	u, err := g.checkURL(raw, inClear)
	if known, ok := errors.AsType[*Error](err); ok && known.Fault == BadURL {
		_, err := g.checkURL(repaired(raw), inClear)
		if worse, ok := errors.AsType[*Error](err); ok && worse.Fault != BadURL {
			known.Repaired = worse.Fault
		}
	}
	return u, err
}

// repaired returns a URL as browsers parse it: without control characters, with slashes instead
// of backslashes, with added missing slashes, and with a decoded host.
func repaired(raw string) string {
	raw = strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	raw = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(raw)
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return raw
	}
	rest = strings.TrimLeft(rest, `/\`)
	end := strings.IndexAny(rest, `/\?#`)
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if decoded, err := url.PathUnescape(host); err == nil {
		host = decoded
	}
	return scheme + "://" + host + strings.ReplaceAll(path, `\`, "/")
}

func (g Guard) checkURL(raw string, inClear bool) (*url.URL, error) {
	u, port, err := parseURL(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "https" && (u.Scheme != "http" || !inClear):
		return nil, fault(BadScheme, "scheme %q is not allowed: use https", u.Scheme)
	case u.User != nil:
		return nil, fault(UserInfo, "the URL contains a user name or password: use a header instead")
	case u.Hostname() == "":
		return nil, fault(NoHost, "the host is missing after %s://", u.Scheme)
	}
	host, err := g.checkHost(u)
	if err == nil && u.Scheme == "http" {
		if addr, noAddr := netip.ParseAddr(strings.Trim(host, "[]")); noAddr == nil {
			err = g.checkClear(addr)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(forbiddenPorts, port):
		return nil, fault(ForbiddenPort, "port %d is reserved for another protocol", port)
	case port != defaultPort(u.Scheme):
		host = fmt.Sprintf("%s:%d", host, port)
	}
	return &url.URL{Scheme: u.Scheme, Host: host, Path: u.Path, RawPath: u.RawPath, ForceQuery: u.ForceQuery, RawQuery: u.RawQuery}, nil
}

// parseURL parses a URL and its port. It rejects URLs that parsers read differently: some remove
// white space and control characters, and treat a backslash as a slash.
func parseURL(raw string) (*url.URL, uint16, error) {
	if !utf8.ValidString(raw) {
		return nil, 0, fault(BadURL, "the URL is not valid UTF-8")
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }); i >= 0 {
		return nil, 0, fault(BadURL, "white space or control character at byte %d", i)
	}
	if head, _, _ := strings.Cut(raw, "?"); strings.Contains(head, `\`) {
		return nil, 0, fault(BadURL, "the URL contains a backslash, which some parsers read as a slash: write %%5C for a backslash")
	}
	u, err := url.Parse(raw)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the outer error contains the URL
	}
	switch {
	case err != nil:
		return nil, 0, fault(BadURL, "cannot parse the URL: %w", err)
	case u.Scheme == "":
		return nil, 0, fault(BadURL, "the URL does not begin with https://")
	case (u.Scheme == "https" || u.Scheme == "http") && u.Opaque != "":
		return nil, 0, fault(BadURL, "// is missing after %s:", u.Scheme)
	case u.Port() == "":
		return u, defaultPort(u.Scheme), nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil, 0, fault(BadURL, "invalid port %s", u.Port())
	}
	return u, uint16(port), nil
}

func defaultPort(scheme string) uint16 {
	if scheme == "http" {
		return 80
	}
	return 443
}

// CheckAddr returns an error if the Client must not connect to an address. It checks an IPv6
// address that maps to an IPv4 address as that IPv4 address.
func (g Guard) CheckAddr(addr netip.Addr) error {
	if addr.Zone() != "" {
		return fault(ForbiddenIP, "%v has a zone, so it is valid on one link only", addr)
	}
	addr = meant(addr)
	what := special(addr)
	switch {
	case what == "":
		return nil
	case slices.ContainsFunc(credentials, func(p netip.Prefix) bool { return p.Contains(addr) }):
		return fault(ForbiddenIP, "%v is %s and cannot be allowed: cloud providers serve credentials there", addr, what)
	case slices.ContainsFunc(g.Networks, func(p netip.Prefix) bool { return p.Contains(addr) }):
		return nil
	default:
		return fault(ForbiddenIP, "%v is %s: only public addresses and allowed networks can be reached", addr, what)
	}
}

// meant returns the IPv4 address that an IPv6 address maps to, or the address itself.
func meant(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// checkClear returns an error if unencrypted requests to an address are not allowed. They are
// allowed only in open networks, because only the operator knows which networks are safe.
func (g Guard) checkClear(addr netip.Addr) error {
	if err := g.CheckAddr(addr); err != nil {
		return err
	}
	if addr = meant(addr); !slices.ContainsFunc(g.Networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return fault(BadScheme, "%v is not in an allowed network: use https", addr)
	}
	return nil
}

// checkNamed is CheckAddr for the addresses of Names.
func (g Guard) checkNamed(addr netip.Addr) error {
	err := g.CheckAddr(addr)
	holds := func(p netip.Prefix) bool { return p.Contains(meant(addr)) }
	if err != nil && addr.Zone() == "" && slices.ContainsFunc(private, holds) && !slices.ContainsFunc(credentials, holds) {
		return nil
	}
	return err
}

// checkOf returns the address check for a host, see hostOf.
func (g Guard) checkOf(host string) func(netip.Addr) error {
	scheme, host, _ := strings.Cut(host, "://")
	if scheme == "http" {
		return g.checkClear
	}
	if name, _, _ := net.SplitHostPort(host); g.names(name) {
		return g.checkNamed
	}
	return g.CheckAddr
}

// special returns a description of an address that is not public, or the empty string.
func special(addr netip.Addr) string {
	for _, r := range ranges {
		if r.Contains(addr) {
			return r.what
		}
	}
	if !addr.Is4() && !global.Contains(addr) {
		return "outside of 2000::/3, the range of public addresses"
	}
	return ""
}

// global contains all public IPv6 addresses; nat64 contains the IPv6 addresses that map to IPv4
// addresses.
var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
)

// A network is a special-purpose network with its description.
type network struct {
	netip.Prefix
	what string
}

// ranges are the special-purpose networks of IANA's registries, and one network that a cloud
// provider uses.
var ranges = []network{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "private to a provider"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the Azure platform address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::/128"), "this host"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "reserved for protocols"}, // Teredo, benchmarks, ORCHID
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "a tunnel to an IPv4 address"}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
}

// private are the networks that anyone can use, in which companies have their servers.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
}

// credentials are the addresses of cloud metadata services, which return the machine's
// credentials to every local client.
var credentials = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),     // most providers
	netip.MustParsePrefix("fe80::/10"),          // link-local for IPv6
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// forbiddenPorts are the ports that browsers block (WHATWG Fetch, bad ports), because the
// services there could interpret a request in their own protocol. It also has the ports of
// services without authentication: Docker, Redis, the kubelet, memcached and MongoDB.
var forbiddenPorts = []uint16{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117,
	119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636,
	989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
	2375, 2376, 6379, 10250, 11211, 27017,
}
