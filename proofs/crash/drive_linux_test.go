//go:build system

package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A drive is what a disk has at a moment: what programs see, and what of that a power cut leaves. It follows the
// system calls of programs, as strace prints them.
//
// It keeps what POSIX promises, and less than most file systems do: a flush of a file keeps its content, and only a flush of
// the directory above keeps its name. All else can be there, in part, or not at all.
type drive struct {
	dir     string              // other paths are ignored
	above   *node               // has only the name of dir
	waiting map[string]flushing // flushes that have begun, by thread
	written map[string]bool     // files that are not in dir, and were written
}

// A node is a file, a directory or a link.
type node struct {
	link string // target; empty = no link

	data    []byte   // of a file
	kept    []byte   // what a power cut leaves
	changes []change // that are not flushed
	flushed int      // number of changes before them

	names map[string]*node   // of a directory; nil = it is none
	safe  map[string]*node   // what a power cut leaves
	moves []map[string]*node // that are not flushed
	named int                // number of moves before them
}

// A change is a write, or sets the size.
type change struct {
	at   int64
	text []byte // nil = set the size to at
}

// flushing is a flush that has begun. It keeps only what was written before.
type flushing struct {
	text    string // of the call
	node    *node
	changes int
	moves   int
}

func newDir() *node { return &node{names: map[string]*node{}, safe: map[string]*node{}} }

// newDrive returns the drive before the first call: dir is a copy of the directory begin, and its name is not flushed.
func newDrive(dir, begin string) (*drive, error) {
	d := &drive{dir: dir, above: newDir(), waiting: map[string]flushing{}, written: map[string]bool{}}
	top, err := load(begin)
	d.above.move(map[string]*node{filepath.Base(dir): top})
	return d, err
}

// load returns the node of a file that is on disk. A directory is new.
func load(path string) (*node, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return &node{link: target}, err
	case info.IsDir():
		n := newDir()
		entries, err := os.ReadDir(path)
		for _, e := range entries {
			below, failed := load(filepath.Join(path, e.Name()))
			n.names[e.Name()], n.safe[e.Name()] = below, below
			err = errors.Join(err, failed)
		}
		return n, err
	}
	data, err := os.ReadFile(path)
	return &node{data: data, kept: bytes.Clone(data)}, err
}

// traced are the calls that a drive knows.
const traced = "openat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,renameat,renameat2,rename,linkat,link,unlinkat,unlink,mkdirat,mkdir,rmdir,symlinkat,symlink,ftruncate,truncate,fallocate,copy_file_range,mknodat"

var (
	lineOf   = regexp.MustCompile(`^(\d+) +(?:<\.\.\. \w+ resumed>)?(.*)$`)
	callOf   = regexp.MustCompile(`^(\w+)\((.*)\) += (-?\d+)`)
	stringOf = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?`)
	fileOf   = regexp.MustCompile(`^\d+<((?:\\x[0-9a-f]{2})*)>`)
	notEnded = " <unfinished ...>"
)

// text decodes a text of strace -xx.
func text(escaped string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(escaped, `\x`, ""))
	if err != nil {
		return escaped
	}
	return string(raw)
}

// step takes the next line of a trace. It reports whether it is a call that changes the drive.
func (d *drive) step(line string) (changed bool, err error) {
	m := lineOf.FindStringSubmatch(line)
	if m == nil {
		return false, nil
	}
	thread, rest := m[1], m[2]
	if begin, ok := strings.CutSuffix(rest, notEnded); ok {
		w := flushing{text: begin}
		if name, args, _ := strings.Cut(begin, "("); name == "fsync" || name == "fdatasync" {
			if w.node = d.file(args); w.node != nil {
				w.changes, w.moves = w.node.written()
			}
		}
		d.waiting[thread] = w
		return false, nil
	}
	w, resumed := d.waiting[thread]
	if resumed && strings.Contains(line, " resumed>") {
		rest = w.text + rest
		delete(d.waiting, thread)
	}
	call := callOf.FindStringSubmatch(rest)
	if call == nil || strings.HasPrefix(call[3], "-") {
		return false, nil
	}
	return d.call(call[1], call[2], w)
}

// call runs a call that succeeded.
func (d *drive) call(name, args string, begun flushing) (changed bool, err error) {
	var texts []string
	for _, m := range stringOf.FindAllStringSubmatch(args, -1) {
		if m[2] != "" {
			return false, fmt.Errorf("%s: a text is cut", name)
		}
		texts = append(texts, text(m[1]))
	}
	numbers := strings.Split(stringOf.ReplaceAllString(args, ""), ", ")
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(numbers[i], 10, 64)
		return n
	}
	switch name {
	case "openat":
		return d.open(texts[0], args)
	case "write", "pwrite64":
		n := d.file(args)
		if n == nil {
			if m := fileOf.FindStringSubmatch(args); m != nil {
				d.written[text(m[1])] = true
			}
			return false, nil
		}
		at := int64(len(n.data))
		if name == "pwrite64" {
			at = number(3)
		}
		n.write(change{at, []byte(texts[0])})
	case "ftruncate":
		n := d.file(args)
		if n == nil {
			return false, nil
		}
		n.write(change{number(1), nil})
	case "fsync", "fdatasync":
		n := d.file(args)
		if n == nil {
			return false, nil
		}
		if begun.node != n {
			begun.changes, begun.moves = n.written()
		}
		n.flush(begun.changes, begun.moves)
	case "mkdirat", "mkdir":
		return d.move(map[string]*node{texts[0]: newDir()})
	case "symlinkat":
		return d.move(map[string]*node{texts[1]: {link: texts[0]}})
	case "linkat":
		return d.move(map[string]*node{texts[1]: d.find(texts[0])})
	case "unlinkat", "unlink":
		return d.move(map[string]*node{texts[0]: nil})
	case "renameat", "renameat2", "rename":
		return d.move(map[string]*node{texts[1]: d.find(texts[0]), texts[0]: nil})
	default:
		return false, fmt.Errorf("the drive does not know the call %s(%.200s)", name, args)
	}
	return true, nil
}

// open makes or empties a file, if the flags say so.
func (d *drive) open(path, args string) (changed bool, err error) {
	n := d.find(path)
	switch {
	case n == nil && strings.Contains(args, "O_CREAT"):
		return d.move(map[string]*node{path: {}})
	case n != nil && strings.Contains(args, "O_TRUNC"):
		n.write(change{0, nil})
		return true, nil
	}
	return false, nil
}

// file returns the node of the first argument, an open file. It returns nil for files outside of the drive, and for those
// without a name.
func (d *drive) file(args string) *node {
	m := fileOf.FindStringSubmatch(args)
	if m == nil {
		return nil
	}
	return d.find(text(m[1]))
}

// find returns the node of a path, or nil.
func (d *drive) find(path string) *node {
	above := filepath.Dir(d.dir)
	if path == above {
		return d.above
	}
	if path != d.dir && !strings.HasPrefix(path, d.dir+"/") {
		return nil
	}
	n := d.above
	for name := range strings.SplitSeq(path[len(above)+1:], "/") {
		if n = n.names[name]; n == nil {
			return nil
		}
	}
	return n
}

// move changes the names of nodes at once. All are in one directory.
func (d *drive) move(paths map[string]*node) (changed bool, err error) {
	names := map[string]*node{}
	var dir *node
	for path, n := range paths {
		above := d.find(filepath.Dir(path))
		switch {
		case above == nil, above == d.above && path != d.dir:
			continue
		case dir != nil && dir != above:
			return false, fmt.Errorf("%s moves between directories", path)
		}
		dir, names[filepath.Base(path)] = above, n
	}
	if dir == nil {
		return false, nil
	}
	dir.move(names)
	return true, nil
}

// move changes names of a directory at once.
func (n *node) move(names map[string]*node) {
	apply(n.names, names)
	n.moves = append(n.moves, names)
}

func apply(names, move map[string]*node) {
	for name, n := range move {
		if names[name] = n; n == nil {
			delete(names, name)
		}
	}
}

func (n *node) write(c change) {
	n.data = c.apply(n.data)
	n.changes = append(n.changes, c)
}

func (c change) apply(data []byte) []byte {
	end := c.at + int64(len(c.text))
	if c.text == nil {
		data = data[:min(c.at, int64(len(data)))]
	}
	if grow := end - int64(len(data)); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[c.at:], c.text)
	return data
}

// written returns the numbers of changes and moves so far.
func (n *node) written() (changes, moves int) {
	return n.flushed + len(n.changes), n.named + len(n.moves)
}

// flush makes the first changes and moves safe.
func (n *node) flush(changes, moves int) {
	for ; n.flushed < changes; n.flushed++ {
		n.kept, n.changes = n.changes[0].apply(n.kept), n.changes[1:]
	}
	for ; n.named < moves; n.named++ {
		apply(n.safe, n.moves[0])
		n.moves = n.moves[1:]
	}
}

// A cut decides what is left of what was not flushed.
type cut struct {
	move  func() bool         // whether a change of names is left
	write func(change) change // what is left of a write; at < 0 = nothing
}

// cuts are kinds of power cuts.
func cuts() map[string]cut {
	nothing := change{at: -1}
	none, all := func() bool { return false }, func() bool { return true }
	return map[string]cut{
		"nothing":        {none, func(change) change { return nothing }},
		"only names":     {all, func(change) change { return nothing }},
		"names and size": {all, func(c change) change { return change{c.at, make([]byte, len(c.text))} }},
		"everything":     {all, func(c change) change { return c }},
		"a part": {func() bool { return rand.IntN(2) == 0 }, func(c change) change {
			if n := len(c.text); n > 0 && rand.IntN(3) == 0 {
				return change{c.at, c.text[:rand.IntN(n)]}
			}
			if rand.IntN(2) == 0 {
				return nothing
			}
			return c
		}},
	}
}

// put makes what a power cut leaves of a node.
func (c cut) put(n *node, path string) error {
	switch {
	case n.link != "":
		return os.Symlink(n.link, path)
	case n.names != nil:
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		names := map[string]*node{}
		apply(names, n.safe)
		for _, m := range n.moves {
			if c.move() {
				apply(names, m)
			}
		}
		for name, below := range names {
			if err := c.put(below, filepath.Join(path, name)); err != nil {
				return err
			}
		}
		return nil
	}
	data := bytes.Clone(n.kept)
	for _, change := range n.changes {
		if left := c.write(change); left.at >= 0 {
			data = left.apply(data)
		}
	}
	return os.WriteFile(path, data, 0o600)
}

// same returns an error if a directory on disk has something else. Files that are mapped into memory differ.
func (n *node) same(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below, name := n.names[e.Name()], filepath.Join(path, e.Name())
		switch {
		case e.Type()&fs.ModeSocket != 0:
			continue
		case below == nil:
			return fmt.Errorf("the drive does not have %s", name)
		case e.IsDir():
			if err := below.same(name); err != nil {
				return err
			}
		case e.Type().IsRegular() && !strings.HasSuffix(name, "-shm"):
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if !bytes.Equal(data, below.data) {
				return fmt.Errorf("%s has %d bytes, and on the drive other %d", name, len(data), len(below.data))
			}
		}
	}
	if len(entries) < len(n.names) {
		return fmt.Errorf("the drive has %d names in %s, which has %d", len(n.names), path, len(entries))
	}
	return nil
}

// steps calls do after each call of a trace that changes a drive.
func (d *drive) steps(trace string, do func()) error {
	f, err := os.Open(trace)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		changed, err := d.step(lines.Text())
		if err != nil {
			return err
		}
		if changed {
			do()
		}
	}
	return lines.Err()
}
