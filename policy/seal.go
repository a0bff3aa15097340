package policy

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// sealSize is what a seal takes: 16 digits and the end of the line.
const sealSize = 17

// seal puts a checksum behind what is kept. It finds what was damaged, or edited by hand:
// such a thing counts as not kept. It is no secret, and keeps nobody out who means it and
// may write there; "grapnel doctor" compares what is kept with what it was made of.
func seal(data []byte) []byte {
	return fmt.Appendf(data, "%016x\n", checksum(data))
}

// unseal returns what was sealed, or nil if it is not that any more.
func unseal(data []byte) []byte {
	n := len(data) - sealSize
	if n < 0 || string(fmt.Appendf(nil, "%016x\n", checksum(data[:n]))) != string(data[n:]) {
		return nil
	}
	return data[:n]
}

// checksum looks at 8 bytes at a time: some 10 µs for a large policy, where a digest takes
// a hundred.
func checksum(data []byte) uint64 {
	const prime = 0x9e3779b97f4a7c15
	sum := uint64(len(data)) * prime
	for ; len(data) >= 8; data = data[8:] {
		sum = bits.RotateLeft64((sum^binary.LittleEndian.Uint64(data))*prime, 29)
	}
	for _, b := range data {
		sum = bits.RotateLeft64((sum^uint64(b))*prime, 29)
	}
	return sum ^ sum>>32
}
