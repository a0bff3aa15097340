package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"time"
)

// sumLength is the length of the last member of a line, with the brace behind it: ,"crc":"1a2b3c4d"}
const sumLength = len(`,"crc":"`) + 8 + len(`"}`)

// sum returns CRC-32C, for which processors have an instruction.
func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// sealed returns an object with its checksum as the last member.
func sealed(object []byte) []byte {
	body := object[:len(object)-1]
	line := append(make([]byte, 0, len(body)+sumLength), body...)
	return appendSum(line, sum(body))
}

func appendSum(line []byte, sum uint32) []byte {
	line = append(line, `,"crc":"`...)
	line = hex.AppendEncode(line, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return append(line, `"}`...)
}

// Errors of lines.
var (
	errCut     = errors.New("it has no checksum, so it was cut")
	errChanged = errors.New("its checksum is wrong: it was cut or changed")
)

// opened returns the object of a complete line, without the checksum.
func opened(line []byte) ([]byte, error) {
	n := len(line) - sumLength
	if n < 1 || !bytes.HasPrefix(line[n:], []byte(`,"crc":"`)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, errCut
	}
	if body := line[:n]; bytes.Equal(appendSum(nil, sum(body)), line[n:]) {
		return append(bytes.Clone(body), '}'), nil
	}
	return nil, errChanged
}

// version is the version of the format.
const version = 1

// A header is the first line of a segment.
type header struct {
	Version int       `json:"journal"`
	Key     string    `json:"key"`  // random
	Time    time.Time `json:"time"` // when the segment was made

	length int // of the line
}

func (h header) line() []byte {
	raw, err := json.Marshal(h)
	if err != nil {
		panic(err) // it has a number, a text and a time
	}
	return sealed(raw)
}
