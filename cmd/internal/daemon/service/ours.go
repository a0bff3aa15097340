package service

import (
	"hash/maphash"
	"sync"
)

// ours are the lines that this process has appended and not read again yet. It is safe for concurrent use.
type ours struct {
	mu    sync.Mutex
	seed  maphash.Seed
	lines map[uint64]int
}

func (o *ours) add(lines [][]byte)    { o.change(lines, 1) }
func (o *ours) remove(lines [][]byte) { o.change(lines, -1) }

func (o *ours) change(lines [][]byte, by int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines == nil {
		o.lines, o.seed = map[uint64]int{}, maphash.MakeSeed()
	}
	for _, line := range lines {
		sum := maphash.Bytes(o.seed, line)
		if o.lines[sum] += by; o.lines[sum] == 0 {
			delete(o.lines, sum)
		}
	}
}

// take removes a line, and reports whether this process has appended it.
func (o *ours) take(line []byte) bool {
	o.mu.Lock()
	known := o.lines != nil && o.lines[maphash.Bytes(o.seed, line)] > 0
	o.mu.Unlock()
	if known {
		o.change([][]byte{line}, -1)
	}
	return known
}
