package outbound

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// checkHost checks a URL's host and returns its canonical form: an IPv6 address in brackets, an
// IPv4 address, or an ASCII name in lower case without a final dot.
func (g Guard) checkHost(u *url.URL) (string, error) {
	written := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(written)
		if err != nil || addr.Is4() || addr.Zone() != "" {
			return "", fault(BadURL, "[%s] is not an IPv6 address", written)
		}
		return "[" + addr.String() + "]", g.CheckAddr(addr)
	}
	name, err := spelling.ToASCII(written)
	switch {
	case err != nil:
		return "", fault(BadURL, "host %q: %w", written, err)
	case !encodedOnce(written):
		return "", fault(BadURL, "host %q: invalid encoding after xn--", written)
	}
	name = strings.TrimSuffix(name, ".")
	if again, err := spelling.ToASCII(name); err != nil || again != name { // invalid UTF-8, percent-encoded
		return "", fault(BadURL, "host %q: the name has no stable ASCII form", written)
	}
	if !endsInNumber(name) {
		if err := checkLabels(name); err != nil || g.names(name) {
			return name, err
		}
		return name, checkPublic(name)
	}
	// Some parsers and resolvers read 127.1, 0x7f000001, 017700000001 and 2130706433 as
	// 127.0.0.1; others read them as names.
	addr, err := parseIPv4(name)
	if err != nil {
		return "", fault(BadURL, "host %q: it ends in a number, but is not an IPv4 address: %w", written, err)
	}
	if err := g.CheckAddr(addr); err != nil {
		return "", err
	}
	if addr.String() != written {
		return "", fault(AmbiguousHost, "host %q: some parsers read it as the address %v, others do not", written, addr)
	}
	return written, nil
}

// spelling converts a host to the form for the lookup, as browsers do with UTS #46: other scripts
// to ASCII, and full-width letters and dots to plain ones.
var spelling = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false))

// encodedOnce reports whether each label with the prefix xn-- is in its canonical encoding. The
// idna library accepts labels that decode to ASCII and removes an empty xn-- label; browsers
// reject both.
func encodedOnce(host string) bool {
	for part := range strings.FieldsFuncSeq(host, func(r rune) bool { return strings.ContainsRune(".。．｡", r) }) {
		folded, _ := folding.ToUnicode("a" + part) // no label begins with axn--
		if encoded, ok := strings.CutPrefix(folded, "a"); ok && strings.HasPrefix(encoded, "xn--") {
			if again, err := spelling.ToASCII(part); err != nil || again != encoded {
				return false
			}
		}
	}
	return true
}

// folding does only the first step of spelling, the mapping.
var folding = idna.New(idna.MapForLookup(), idna.ValidateLabels(false))

// endsInNumber reports whether the last label of a host is a number. Some parsers read such a
// host as an address, and it is never a valid name.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// parseIPv4 parses an address like C's inet_aton and the WHATWG URL standard: up to four numbers,
// decimal, octal or hexadecimal. The last number fills the remaining bytes.
func parseIPv4(s string) (netip.Addr, error) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, fmt.Errorf("it has %d parts", len(parts))
	}
	var sum uint64
	for i, part := range parts {
		n, err := parseNumber(part)
		rest := 1
		if i == len(parts)-1 {
			rest = 5 - len(parts)
		}
		if err != nil || n >= 1<<(8*rest) {
			return netip.Addr{}, fmt.Errorf("%q is not a number that fits into an address", part)
		}
		sum = sum<<(8*rest) | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), nil
}

// parseNumber parses 10, 012, 0xa and 0x, which is 0.
func parseNumber(s string) (uint64, error) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"):
		if s, base = s[2:], 16; s == "" {
			return 0, nil
		}
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	return strconv.ParseUint(s, base, 64)
}

// checkLabels returns an error if an ASCII name is invalid.
func checkLabels(name string) error {
	if len(name) > 253 {
		return fault(BadURL, "the host name has %d bytes, the maximum is 253", len(name))
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return fault(BadURL, "host %q: empty label between two dots", name)
		case len(label) > 63:
			return fault(BadURL, "host %q: a label can have at most 63 bytes", name)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fault(BadURL, "host %q: a label cannot begin or end with a hyphen", name)
		}
	}
	return nil
}

// checkPublic returns an error if a name refers to a local host.
func checkPublic(name string) error {
	switch {
	case !strings.Contains(name, "."):
		return fault(ForbiddenHost, "host %q: a name without a dot is a local name", name)
	case slices.Contains(nearbyNames, name),
		slices.ContainsFunc(nearbyEnds, func(end string) bool { return strings.HasSuffix(name, end) }):
		return fault(ForbiddenHost, "host %q: this is a local name: only names that are allowed can be reached", name)
	}
	return nil
}

// names reports whether Names contain a host, which is in its canonical form.
func (g Guard) names(host string) bool {
	return slices.ContainsFunc(g.Names, func(name string) bool {
		if end, ok := strings.CutPrefix(name, "*"); ok {
			return strings.HasSuffix(host, end)
		}
		return name == host
	})
}

// parseName parses a name of a Guard. A name below *.com could have any owner, so a pattern must name
// two labels.
func parseName(text string) (string, error) {
	name := strings.ToLower(text)
	end, below := strings.CutPrefix(name, "*.")
	ascii, err := spelling.ToASCII(end)
	switch {
	case err != nil || ascii != end || strings.Trim(end, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
		return "", fmt.Errorf("name %q: want a name such as collector.corp.internal or *.corp.internal, in ASCII", text)
	case endsInNumber(end):
		return "", fmt.Errorf("network %q: want an address and a prefix length, such as 10.1.2.3/32", text)
	case !strings.Contains(end, ".") && below:
		return "", fmt.Errorf("name %q: name at least two labels after *, such as *.corp.internal", text)
	case !strings.Contains(end, "."):
		return "", fmt.Errorf("name %q: a name without a dot is a local name: write the full name", text)
	}
	if err := checkLabels(end); err != nil {
		return "", err
	}
	return name, nil
}

// Names that are not in the public DNS, or that refer to the local machine or network. Names
// without a dot are forbidden, too.
var (
	nearbyNames = []string{"localhost.localdomain", "metadata.goog"}
	nearbyEnds  = []string{".localhost", ".local", ".localdomain", ".internal", ".home.arpa", ".svc", ".onion", ".invalid", ".test"}
)
