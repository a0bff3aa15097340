package load

import (
	"encoding/binary"
	"math"
)

// Snapshots use a binary format that takes microseconds to read. encoding/json first inspects the
// types with reflection, which takes longer than most events. A struct is encoded as a bit set of
// its present fields, followed by their values. The functions for the types of package policyfile
// are generated from the types, see codec_gen.go.

// codecWriter appends encoded values to b.
type codecWriter struct{ b []byte }

func (w *codecWriter) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *codecWriter) int(n int64) { w.b = binary.AppendVarint(w.b, n) }

// count writes the length of a list, or an index into a list.
func (w *codecWriter) count(n int) { w.uint(uint64(n)) } // it is not negative

func (w *codecWriter) float(f float64) {
	w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(f))
}

func (w *codecWriter) bool(v bool) {
	n := uint64(0)
	if v {
		n = 1
	}
	w.uint(n)
}

func (w *codecWriter) text(text string) {
	w.uint(uint64(len(text)))
	w.b = append(w.b, text...)
}

// codecReader decodes values from the beginning of a string. Strings that it returns share the
// memory of the input. After an error it returns zero values.
type codecReader struct {
	left  string
	bad   bool
	depth int // nesting depth of structs
}

// maxCodecDepth is larger than the nesting depth that the policy parser permits.
const maxCodecDepth = 200

func (r *codecReader) fail() {
	r.left, r.bad = "", true
}

func (r *codecReader) uint() uint64 {
	n, shift := uint64(0), 0
	for i := 0; i < len(r.left) && shift < 64; i++ {
		b := r.left[i]
		n |= uint64(b&0x7f) << shift
		if shift += 7; b < 0x80 {
			r.left = r.left[i+1:]
			return n
		}
	}
	r.fail()
	return 0
}

func (r *codecReader) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *codecReader) float() float64 {
	if len(r.left) < 8 {
		r.fail()
		return 0
	}
	var n uint64
	for i := range 8 {
		n |= uint64(r.left[i]) << (8 * i)
	}
	r.left = r.left[8:]
	return math.Float64frombits(n)
}

func (r *codecReader) bool() bool { return r.uint() != 0 }

func (r *codecReader) text() string {
	n := r.uint()
	if n > uint64(len(r.left)) {
		r.fail()
		return ""
	}
	text := r.left[:n]
	r.left = r.left[n:]
	return text
}

// count reads the length of a list. Each item takes at least one byte, so a length above the
// remaining bytes is an error. This limits the memory that a damaged file can request.
func (r *codecReader) count() int {
	n := r.uint()
	if n > uint64(len(r.left)) {
		r.fail()
		return 0
	}
	return int(n) // it is not more than the length of a string
}

// enter begins a struct. It fails if the nesting is too deep.
func (r *codecReader) enter() bool {
	if r.depth++; r.depth > maxCodecDepth {
		r.fail()
	}
	return !r.bad
}

// leave ends a struct. It fails if the struct has fields that this version does not support.
func (r *codecReader) leave(unknown uint64) {
	if r.depth--; unknown != 0 {
		r.fail()
	}
}
