package outbound

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// The hosts that another implementation of the WHATWG URL standard has read. If Grapnel permits a
// URL, it uses the same host as a browser. Other tests cover the URLs that only Grapnel refuses.
//
// Proves: IC-59
func TestSameHostAsBrowsers(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/whatwg.jsonl") // new URL(url).hostname, Node.js 20.20.2
	if err != nil {
		t.Fatal(err)
	}
	permitted := 0
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		var row struct {
			URL  string
			Host *string // nil = the URL was refused
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		u, err := Guard{}.CheckURL(row.URL)
		if err != nil {
			continue
		}
		permitted++
		if row.Host == nil {
			t.Errorf("%q: becomes %s, a browser refuses it", row.URL, u)
		} else if want := strings.TrimSuffix(*row.Host, "."); u.Hostname() != want && "["+u.Hostname()+"]" != want {
			t.Errorf("%q: becomes %s, a browser would ask %s", row.URL, u, want)
		}
	}
	if permitted < 100 {
		t.Errorf("only %d were permitted: this shows little", permitted)
	}
}

// A second, independent list of public addresses agrees with the first one. The test uses addresses
// next to all borders, random addresses, and IPv4 addresses inside IPv6 addresses.
//
// Proves: IC-61, IC-69
func TestPublicIndependent(t *testing.T) {
	t.Parallel()
	borders := []uint32{
		0, 0x0100_0000, 0x0a00_0000, 0x0b00_0000, 0x6440_0000, 0x6480_0000, 0x7f00_0000, 0x8000_0000, 0xa83f_8110, 0xa9fe_0000, 0xa9ff_0000,
		0xac10_0000, 0xac20_0000, 0xc000_0000, 0xc000_0100, 0xc000_0200, 0xc000_0300, 0xc058_6300, 0xc058_6400, 0xc0a8_0000, 0xc0a9_0000,
		0xc612_0000, 0xc614_0000, 0xc633_6400, 0xc633_6500, 0xcb00_7100, 0xcb00_7200, 0xe000_0000, 0xf000_0000, 0xffff_ffff,
	}
	heads := []uint64{ // the upper half of IPv6 addresses
		0, 0x0064_ff9b << 32, 0x0064_ff9b_0001 << 16, 0x0064_ff9a << 32, 0x1fff << 48, 0x2000 << 48, 0x2001 << 48, 0x2001_01ff << 32, 0x2001_0200 << 32,
		0x2001_0db7 << 32, 0x2001_0db8 << 32, 0x2001_0db9 << 32, 0x2002 << 48, 0x2003 << 48, 0x3ffe << 48, 0x3fff << 48, 0x3fff_1000 << 32,
		0x4000 << 48, 0x5f00 << 48, 0x0100 << 48, 0xfc00 << 48, 0xfe80 << 48, 0xfec0 << 48, 0xff00 << 48,
	}
	check := func(addr netip.Addr, want bool) {
		if err := (Guard{}).CheckAddr(addr); (err == nil) != want {
			t.Errorf("CheckAddr(%v) = %v, want public %v", addr, err, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 50_000 {
		v4 := r.Uint32()
		if i%2 == 0 {
			v4 = borders[r.IntN(len(borders))] + uint32(r.IntN(5)) - 2
		}
		var b [16]byte
		binary.BigEndian.PutUint32(b[:], v4)
		check(netip.AddrFrom4([4]byte(b[:4])), public4(v4))

		high, low := heads[r.IntN(len(heads))], uint64(v4)
		switch r.IntN(5) {
		case 0:
			high, low = high+uint64(r.IntN(3))-1, r.Uint64() // also the value before and after
		case 1:
			high |= uint64(r.Uint32())
		case 2:
			high, low = 0, 0xffff<<32|low
		case 3:
			low |= uint64(r.Uint32()) << 32
		}
		binary.BigEndian.PutUint64(b[:8], high)
		binary.BigEndian.PutUint64(b[8:], low)
		check(netip.AddrFrom16(b), public6(high, low))
	}
}

func public4(a uint32) bool {
	switch {
	case a>>24 == 0, a>>24 == 10, a>>24 == 127, a>>28 >= 14: // this host, private, loopback, multicast and reserved
		return false
	case a>>22 == 0x6440_0000>>22, a>>16 == 0xa9fe, a == 0xa83f_8110, a>>20 == 0xac1, a>>16 == 0xc0a8, a>>17 == 0xc612>>1:
		return false
	}
	switch a >> 8 {
	case 0xc0_00_00, 0xc0_00_02, 0xc0_58_63, 0xc6_33_64, 0xcb_00_71:
		return false
	}
	return true
}

func public6(high, low uint64) bool {
	switch {
	case high == 0 && low>>32 == 0xffff, high == 0x0064_ff9b<<32 && low>>32 == 0: // mapped, NAT64
		return public4(uint32(low))
	case high>>61 != 1: // 2000::/3
		return false
	}
	first, second := high>>48, high>>32&0xffff
	return (first != 0x2001 || second >= 0x200 && second != 0xdb8) && first != 0x2002 && (first != 0x3fff || second >= 0x1000)
}
