package hookcmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/grapnel-dev/grapnel/dialect"
)

// readInput reads the payload: the first JSON value in stdin, and the bytes that arrive together with its
// end. It does not wait for the end of stdin, because some agents and their shells keep the pipe
// open. It reads and drops the bytes beyond the size limit, so that the agent does not get a closed
// pipe.
func readInput(stdin io.Reader) dialect.Input {
	data, err := readValue(io.LimitReader(stdin, dialect.MaxPayload+1))
	if err == nil && len(data) > dialect.MaxPayload {
		_, err = io.Copy(io.Discard, stdin)
	}
	if err != nil {
		err = fmt.Errorf("cannot read standard input: %w", err)
	}
	return dialect.Input{Payload: data, Err: err}
}

// readValue reads until a JSON value is complete, or to the end. If the data does not fit into
// 64 KiB, it continues in a large buffer: unused pages cost nothing.
func readValue(r io.Reader) ([]byte, error) {
	data := make([]byte, 0, 64<<10)
	var scan valueScan
	for {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, max(4<<20, 4*cap(data))), data...)
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case n > 0 && scan.ended(data), errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return data, err
		}
	}
}

// A valueScan finds the end of the first JSON value in bytes that arrive in parts. It looks only at
// brackets, strings and white space; the dialect checks the rest.
type valueScan struct {
	at    int // number of bytes that it has seen
	depth int // of open objects and arrays
	state scanState
}

type scanState uint8

const (
	scanBefore  scanState = iota // white space and byte order marks
	scanBetween                  // in an object or an array
	scanString
	scanEscape // after a backslash in a string
	scanWord   // a number or a literal outside of objects and arrays
)

// ended reports whether the value ends in data, which begins with the data of the last call.
func (s *valueScan) ended(data []byte) bool {
	for ; s.at < len(data); s.at++ {
		c := data[s.at]
		switch {
		case s.state == scanEscape:
			s.state = scanString
		case s.state == scanString:
			// Most of a large payload is text. With many escapes in it, a loop is faster than the
			// functions of package bytes.
			i := s.at
			for i < len(data) && data[i] != '"' && data[i] != '\\' {
				i++
			}
			if s.at = i; i == len(data) {
				return false
			}
			if data[i] == '\\' {
				s.state = scanEscape
				continue
			}
			if s.state = scanBetween; s.depth == 0 {
				return true
			}
		case s.state == scanBefore && (c <= ' ' || c >= 0x80):
		case s.state == scanWord:
			if c <= ' ' {
				return true
			}
		case c == '"':
			s.state = scanString
		case c == '{', c == '[':
			s.state = scanBetween
			s.depth++
		case c == '}', c == ']':
			if s.depth--; s.depth <= 0 {
				return true
			}
		case s.state == scanBefore:
			s.state = scanWord
		}
	}
	return false
}
