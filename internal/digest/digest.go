// Package digest names content by its SHA-256 in hex:
//
//	name := digest.Of(content)
//
// crypto/sha256 gives the same. It brings the whole cryptographic module of the standard
// library with it, ciphers and a source of entropy included: 160 KB and 32 MB of address
// space in a program that agents start at each event and that only hashes. Whatever is
// secret, signed or sent belongs to the standard library; nothing here is.
package digest

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"
)

// Len is the length of a digest in hex.
const Len = 64

// Of returns the SHA-256 of data in lower-case hex.
func Of(data []byte) string {
	h := start
	whole := len(data) &^ (blockSize - 1)
	blocks(&h, data[:whole])

	// The rest, a one bit, zeros, and the length in bits fill one block or two.
	var last [2 * blockSize]byte
	n := copy(last[:], data[whole:])
	last[n] = 0x80
	end := blockSize
	if n+1+8 > blockSize {
		end = 2 * blockSize
	}
	binary.BigEndian.PutUint64(last[end-8:], uint64(len(data))*8)
	blocks(&h, last[:end])

	var sum [Len / 2]byte
	for i, word := range h {
		binary.BigEndian.PutUint32(sum[4*i:], word)
	}
	return hex.EncodeToString(sum[:])
}

// Is reports whether s has the form of a digest. What has not may be a path.
func Is(s string) bool {
	return len(s) == Len && strings.Trim(s, "0123456789abcdef") == ""
}

const blockSize = 64

// FIPS 180-4, 5.3.3: the fractions of the square roots of the first 8 primes.
var start = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

// 4.2.2: the fractions of the cube roots of the first 64 primes.
var k = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// blocks adds whole blocks to sum (6.2.2). Eight rounds are written out, after which each
// word is back in its variable: that saves moving all of them in every round.
func blocks(sum *[8]uint32, data []byte) {
	var w [64]uint32
	for ; len(data) >= blockSize; data = data[blockSize:] {
		block := (*[blockSize]byte)(data)
		for i := range 16 {
			w[i] = binary.BigEndian.Uint32(block[4*i:])
		}
		for i := 16; i < 64; i++ {
			x, y := w[i-15], w[i-2]
			w[i] = w[i-16] + w[i-7] +
				(bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3) +
				(bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10)
		}
		a, b, c, d, e, f, g, h := sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7]
		for i := 0; i < 64; i += 8 {
			k, w := (*[8]uint32)(k[i:]), (*[8]uint32)(w[i:]) // one check of bounds for all
			d, h = round(a, b, c, d, e, f, g, h+k[0]+w[0])
			c, g = round(h, a, b, c, d, e, f, g+k[1]+w[1])
			b, f = round(g, h, a, b, c, d, e, f+k[2]+w[2])
			a, e = round(f, g, h, a, b, c, d, e+k[3]+w[3])
			h, d = round(e, f, g, h, a, b, c, d+k[4]+w[4])
			g, c = round(d, e, f, g, h, a, b, c+k[5]+w[5])
			f, b = round(c, d, e, f, g, h, a, b+k[6]+w[6])
			e, a = round(b, c, d, e, f, g, h, a+k[7]+w[7])
		}
		for i, word := range [8]uint32{a, b, c, d, e, f, g, h} {
			sum[i] += word
		}
	}
}

// round returns the new d and h; all other words only change their names.
func round(a, b, c, d, e, f, g, h uint32) (uint32, uint32) {
	h += (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) + (g ^ e&(f^g))
	return d + h, h + (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&b | c&(a|b))
}
