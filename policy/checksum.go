package policy

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// checksumSize is the length of a checksum in bytes: 16 digits and the end of the line.
const checksumSize = 17

// addChecksum appends a checksum. It shows that a file was damaged or edited by hand; such a
// file is ignored. It is not a secret, so it does not stop an attacker who may write the file.
// "grapnel doctor" compares snapshots with the files that they were made of.
func addChecksum(data []byte) []byte {
	return fmt.Appendf(data, "%016x\n", checksum(data))
}

// checkChecksum returns data without its checksum, or nil if the checksum is wrong.
func checkChecksum(data []byte) []byte {
	n := len(data) - checksumSize
	if n < 0 || string(fmt.Appendf(nil, "%016x\n", checksum(data[:n]))) != string(data[n:]) {
		return nil
	}
	return data[:n]
}

// checksum reads 8 bytes at a time. It takes 10 µs for a large policy, SHA-256 takes 100.
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
