package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/fault"
)

// Hash is a SHA-256 hash.
type Hash [sha256.Size]byte

// MarshalText returns the hash in hex.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText parses the output of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(h) {
		return fmt.Errorf("%q is not a hash (want %d hexadecimal digits)", text, 2*len(h))
	}
	copy(h[:], raw)
	return nil
}

// A Head identifies the end of the chain of rows. A Head from yesterday shows later whether the
// rows of that time still exist unchanged. The zero Head is the head of an empty store.
type Head struct {
	Seq  int64
	Hash Hash
}

// String returns SEQ:HASH, the hash in hex.
func (h Head) String() string {
	return strconv.FormatInt(h.Seq, 10) + ":" + hex.EncodeToString(h.Hash[:])
}

// MarshalText returns the same text as String.
func (h Head) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses the output of String.
func (h *Head) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHead(string(text))
	return err
}

// ParseHead parses the output of String.
func ParseHead(text string) (Head, error) {
	seq, sum, ok := strings.Cut(text, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	raw, errHex := hex.DecodeString(sum)
	if !ok || err != nil || n < 0 || errHex != nil || len(raw) != sha256.Size {
		return Head{}, fmt.Errorf("%q is not the head of a log (want SEQ:HASH, the hash with %d hexadecimal digits)", text, 2*sha256.Size)
	}
	return Head{Seq: n, Hash: Hash(raw)}, nil
}

// next returns the head after one more row. The hash includes the time of the row, so that a
// removal can prove the age of the last row that it removed.
func (h Head) next(seq, time int64, digest Hash) Head {
	var row [sha256.Size + 8 + 8 + sha256.Size]byte
	copy(row[:], h.Hash[:])
	binary.BigEndian.PutUint64(row[sha256.Size:], uint64(seq))    // no row has a negative number
	binary.BigEndian.PutUint64(row[sha256.Size+8:], uint64(time)) // the bits are hashed, not the number
	copy(row[sha256.Size+16:], digest[:])
	return Head{Seq: seq, Hash: sha256.Sum256(row[:])}
}

// headFile is the anchor: a file with a recent Head. It is written a short time after commits, and
// before rows are removed.
const headFile = "grapnel.head"

// readAnchor returns the Head in the anchor, or fs.ErrNotExist if the file does not exist.
func readAnchor(dir string) (Head, error) {
	f, err := openRegular(filepath.Join(dir, headFile), os.O_RDONLY)
	if err != nil {
		return Head{}, err
	}
	defer f.Close()
	text := make([]byte, 256)
	n, err := f.Read(text)
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", headFile, err)
	}
	h, err := ParseHead(string(bytes.TrimSpace(text[:n])))
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", headFile, err)
	}
	return h, nil
}

// writeAnchor replaces the anchor. The content reaches the disk before the rename, so that a
// power cut leaves the old anchor and never half of the new one.
func writeAnchor(dir string, h Head) error {
	if fault.On {
		fault.At("store: before the anchor")
	}
	f, err := openRegular(filepath.Join(dir, headFile+".new"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(h.String() + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if fault.On {
		fault.At("store: before the anchor has its name")
	}
	err = os.Rename(f.Name(), filepath.Join(dir, headFile))
	if fault.On {
		fault.At("store: after the anchor")
	}
	return err
}
