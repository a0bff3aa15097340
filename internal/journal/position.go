package journal

// Position returns the place of a byte in the whole log as one number, which grows with the log: the segment
// in the upper 32 bits, the offset in the lower ones. So a segment must be smaller than 4 GiB, and the number
// of a segment less than 1<<31. As a number in JSON, which many programs read as a float64, a position is
// exact for segments below 1<<21.
func Position(segment int, offset int64) int64 { return int64(segment)<<32 | offset&(1<<32-1) }

// At returns the segment and the offset of a position.
func At(position int64) (segment int, offset int64) {
	return int(position >> 32), position & (1<<32 - 1)
}
