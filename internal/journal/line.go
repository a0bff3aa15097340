package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// sumLength is the length of the last member of a line, with the brace behind it: ,"crc":"1a2b3c4d"}
const sumLength = len(`,"crc":"`) + 8 + len(`"}`)

// sum returns the CRC-32 of Ethernet and zip. The tables of CRC-32C take a quarter of a millisecond at the
// first use, as long as all else that a hook program does for a Record.
func sum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// appendSealed appends an object with its checksum as the last member.
func appendSealed(line, object []byte) []byte {
	body := object[:len(object)-1]
	return appendSum(append(line, body...), sum(body))
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
	if body := line[:n]; bytes.Equal(appendSum(make([]byte, 0, sumLength), sum(body)), line[n:]) {
		return append(append(make([]byte, 0, n+1), body...), '}'), nil
	}
	return nil, errChanged
}

// version is the version of the format.
const version = 1

// A header is the first line of a segment:
//
//	{"journal":1,"key":"...","time":"...","crc":"..."}
type header struct {
	version int
	key     string    // random
	time    time.Time // when the segment was made
	length  int       // of the line
	missing bool
}

// line returns the line. It is written and read without encoding/json, whose first use takes as long as
// all else that a hook program does for a Record.
func (h header) line() []byte {
	return appendSealed(nil, fmt.Appendf(nil, `{"journal":%d,"key":%q,"time":%q}`, h.version, h.key, h.time.UTC().Format(time.RFC3339Nano)))
}

// parseHeader reads a header.
func parseHeader(line []byte) (h header, ok bool) {
	object, err := opened(line)
	if err != nil {
		return h, false
	}
	rest, ok := bytes.CutPrefix(object, []byte(`{"journal":`))
	number, rest, found := bytes.Cut(rest, []byte(`,"key":"`))
	if h.version, err = strconv.Atoi(string(number)); !ok || !found || err != nil {
		return h, false
	}
	key, rest, found := bytes.Cut(rest, []byte(`","time":"`))
	at, _, ended := bytes.Cut(rest, []byte{'"'})
	h.key, h.length = string(key), len(line)
	h.time, err = time.Parse(time.RFC3339Nano, string(at))
	return h, found && ended && err == nil && h.key != ""
}
