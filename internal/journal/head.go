package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// A Head identifies a state of the log: the first Offset bytes of a segment, and the manifest at that time. A
// Head from yesterday shows later whether all of it still exists unchanged. It says nothing after retention
// has removed the segment. The zero Head is the head of an empty log.
//
// The hash is SHA-256(hash of the newest line of the manifest, or zeros; SHA-256 of the bytes). The line is
// the one about the last segment before, or a later one, but not the line about this segment or a line behind
// it. So a Head of a segment that was sealed meanwhile can still be compared.
type Head struct {
	Segment int
	Offset  int64
	Hash    Hash
}

// headOf returns the head after bytes with a SHA-256 sum.
func headOf(segment int, offset int64, line Hash, sum []byte) Head {
	return Head{segment, offset, sha256.Sum256(append(line[:], sum...))}
}

// String returns SEGMENT:OFFSET:HASH, the hash in hex.
func (h Head) String() string {
	return strconv.Itoa(h.Segment) + ":" + strconv.FormatInt(h.Offset, 10) + ":" + h.Hash.String()
}

// MarshalText returns the same text as String.
func (h Head) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses the output of String.
func (h *Head) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHead(string(text))
	return err
}

// ParseHead parses the output of String.
func ParseHead(text string) (h Head, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		var bad [3]error
		h.Segment, bad[0] = strconv.Atoi(parts[0])
		h.Offset, bad[1] = strconv.ParseInt(parts[1], 10, 64)
		bad[2] = h.Hash.UnmarshalText([]byte(parts[2]))
		err = errors.Join(bad[:]...)
	}
	if err != nil || h.String() != text || h.Segment < 0 || h.Offset < 0 || h.Segment == 0 && h != (Head{}) {
		return Head{}, fmt.Errorf("%q is not the head of a log (want SEGMENT:OFFSET:HASH, the hash with %d hexadecimal digits)", text, 2*sha256.Size)
	}
	return h, nil
}

const (
	headFile    = "head"     // has the newest Head that a process saved
	newHeadFile = "head.new" // the same, until it is complete
)

// ReadHead returns the saved head. The error is [fs.ErrNotExist] if none was saved.
func ReadHead(dir string) (Head, error) {
	text, err := files.Read(filepath.Join(dir, headFile), 1<<10)
	if err != nil {
		return Head{}, fmt.Errorf("cannot read the saved head: %w", err)
	}
	line, _ := strings.CutSuffix(string(text), "\n")
	h, err := ParseHead(line)
	if err == nil && line+"\n" != string(text) {
		err = errors.New("the file was cut")
	}
	if err != nil {
		return Head{}, fmt.Errorf("cannot read the saved head, %s: %w", filepath.Join(dir, headFile), err)
	}
	return h, nil
}

// A HeadKeeper saves the head of a log again and again, and reads only what is new. It is not safe for
// concurrent use, but several processes can have one each.
type HeadKeeper struct {
	Dir string

	number  int         // of the first segment that is not sealed; 0 = unknown
	file    fs.FileInfo // of it, when it was read
	offset  int64
	sum     hash.Hash // of the first offset bytes
	saved   Head
	checked bool // the file with the head that another process saved
}

// Save seals closed segments, and replaces the saved head if the log has new bytes. It flushes the bytes first,
// so that the saved head names nothing that a power cut takes away. Call it again after an error, for example
// [ErrBusy]. If the log does not match the head that was saved before, Save keeps that head, because it is
// evidence, and returns an error: the way out is to read the report of Verify and to remove the file.
func (k *HeadKeeper) Save() error {
	if k.unchanged() {
		return nil
	}
	numbers, err := Numbers(k.Dir)
	if len(numbers) == 0 || err != nil {
		return err
	}
	l, err := openLedger(k.Dir)
	if err == nil {
		if _, err = l.seal(); err == nil || errors.Is(err, ErrBusy) {
			err = k.save(l.Manifest)
		}
		err = errors.Join(err, l.close())
	}
	if err != nil {
		return fmt.Errorf("cannot save the head: %w", err)
	}
	return nil
}

// unchanged reports whether the saved head covers all bytes. A process that adds a line to the manifest saves
// the head itself.
func (k *HeadKeeper) unchanged() bool {
	if k.saved.Segment != k.number || k.number == 0 || files.Exists(segment(k.Dir, k.number+1)) {
		return false
	}
	info, err := os.Lstat(segment(k.Dir, k.number))
	return err == nil && os.SameFile(info, k.file) && info.Size() == k.offset
}

// save saves the head as of the lines of the manifest so far. The caller has its lock.
func (k *HeadKeeper) save(m *Manifest) error {
	if err := k.begin(m); k.number == 0 || err != nil {
		return err
	}
	h, err := k.head(m.Last)
	if err != nil || h == k.saved {
		return err
	}
	if !k.checked {
		if err := checkHead(k.Dir, m); err != nil {
			return fmt.Errorf("cannot replace the saved head: %w", err)
		}
		k.checked = true
	}
	step("before the head")
	if err := replaceHead(k.Dir, h); err != nil {
		return err
	}
	step("after the head")
	k.saved = h
	return nil
}

// replaceHead replaces the file. The content reaches the disk before the rename, so that a power cut leaves the
// old head and never half of the new one. The name reaches it before a line of the manifest does: a manifest without
// a head is a change by another program.
func replaceHead(dir string, h Head) error {
	f, err := files.OpenRegular(filepath.Join(dir, newHeadFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(h.String() + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	step("before the head has its name")
	if err := os.Rename(f.Name(), filepath.Join(dir, headFile)); err != nil {
		return err
	}
	return files.FlushDir(dir)
}

// checkHead returns an error if the log does not match the saved head.
func checkHead(dir string, m *Manifest) error {
	h, err := ReadHead(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && h.Segment <= m.RemovedTo() {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := files.OpenRegular(segment(dir, h.Segment), os.O_RDONLY)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.CopyN(sum, f, h.Offset)
	if errors.Is(err, io.EOF) || err == nil && !m.matches(h, sum.Sum(nil)) {
		err = fmt.Errorf("the log does not match it: %s", h)
	}
	return errors.Join(err, f.Close())
}

// matches reports whether a head is the head after bytes of its segment that have a SHA-256 sum, together with
// one of the lines of the manifest that could be the newest then.
func (m *Manifest) matches(h Head, sum []byte) bool {
	line, matched := Hash{}, false
	for _, s := range m.statements {
		if s.Sealed != nil && s.Sealed.Segment >= h.Segment {
			break
		}
		if s.Sealed != nil {
			matched = false // no head of this segment is older
		} else {
			matched = matched || headOf(h.Segment, h.Offset, line, sum) == h
		}
		line = s.hash
	}
	return matched || headOf(h.Segment, h.Offset, line, sum) == h
}

// begin finds the first segment that is not sealed. It keeps the sum if this is the segment that it knows.
func (k *HeadKeeper) begin(m *Manifest) error {
	numbers, err := Numbers(k.Dir)
	if err != nil {
		return err
	}
	i, _ := slices.BinarySearch(numbers, m.sealedTo()+1)
	if i == len(numbers) {
		k.number = 0
	} else if numbers[i] != k.number {
		k.number, k.file, k.offset, k.sum = numbers[i], nil, 0, sha256.New()
	}
	return nil
}

// head reads and flushes the new bytes of the segment. It returns the head after them and after a line of the manifest.
func (k *HeadKeeper) head(line Hash) (h Head, err error) {
	f, err := files.OpenRegular(segment(k.Dir, k.number), os.O_RDWR)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
	case k.file == nil: // a flushed byte is safe only if the name of its file is
		err = files.FlushDir(k.Dir)
	case !os.SameFile(info, k.file) || info.Size() < k.offset:
		err = fmt.Errorf("%s was replaced or cut", f.Name())
	}
	if err == nil {
		err = files.Flush(f)
	}
	if err != nil {
		return h, err
	}
	n, err := io.Copy(k.sum, io.NewSectionReader(f, k.offset, info.Size()-k.offset))
	k.file, k.offset = info, k.offset+n
	return headOf(k.number, k.offset, line, k.sum.Sum(nil)), err
}
