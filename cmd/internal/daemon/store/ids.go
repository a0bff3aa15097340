package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// minPrefix is the minimum length of a prefix that Short returns. An ID begins with 12 digits of
// milliseconds, so that 10 digits stay unique unless another event follows within a quarter of a
// second.
const minPrefix = 10

// idWindow is the number of IDs that are read at once. A log is mostly read in the order of IDs.
const idWindow = 64

// IDs finds Records by a prefix of their ID. It has the state of the log when it was opened. It is
// not safe for concurrent use.
type IDs struct {
	spool  []string // sorted
	store  *Reader  // nil = no store exists
	window []string // IDs of the store that follow each other
	end    bool     // the window contains the last ID of the store

	problem error // why spool or store cannot be read
}

// IDs opens the IDs of a log. Close them afterwards.
func (l Log) IDs(ctx context.Context) *IDs {
	r, err := l.open(ctx, Query{})
	if r.files != nil {
		_ = r.files.Close()
	}
	lines, problem := spool.IDs(l.Spool)
	return &IDs{spool: lines, store: r.store, problem: errors.Join(err, problem)}
}

// Close closes the store.
func (i *IDs) Close() {
	if i.store != nil {
		_ = i.store.Close()
	}
}

// Find returns the first IDs with a prefix, sorted, at most limit. If it finds none, and a part of
// the log cannot be read, it returns an error.
func (i *IDs) Find(ctx context.Context, prefix string, limit int) ([]string, error) {
	at, _ := slices.BinarySearch(i.spool, prefix)
	var found []string
	for _, id := range i.spool[at:] {
		if !strings.HasPrefix(id, prefix) || len(found) == limit {
			break
		}
		found = append(found, id)
	}
	if i.store != nil {
		stored, err := i.store.ids(ctx, "SELECT DISTINCT id FROM record WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", prefix, prefix+"\U0010FFFF", limit)
		if err != nil {
			return nil, err
		}
		found = append(found, stored...)
	}
	if len(found) == 0 {
		return nil, i.problem
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), limit)], nil
}

// Short returns the shortest prefix of an ID, of at least minPrefix bytes, that no other ID has.
// If the IDs cannot be read, it returns the whole ID.
func (i *IDs) Short(ctx context.Context, id string) string {
	at, known := slices.BinarySearch(i.spool, id)
	if !known && at == len(i.spool) { // a new event, while a log is followed
		i.spool = append(i.spool, id)
	}
	near := []string{}
	if at > 0 {
		near = append(near, i.spool[at-1])
	}
	for ; at < len(i.spool); at++ {
		if i.spool[at] != id {
			near = append(near, i.spool[at])
			break
		}
	}
	stored, err := i.neighbors(ctx, id)
	if err != nil {
		return id
	}
	length := minPrefix
	for _, other := range append(near, stored...) {
		length = max(length, common(id, other)+1)
	}
	return id[:min(length, len(id))]
}

// neighbors returns the IDs before and after an ID in the store.
func (i *IDs) neighbors(ctx context.Context, id string) ([]string, error) {
	if i.store == nil {
		return nil, nil
	}
	if n := len(i.window); n == 0 || id <= i.window[0] || id >= i.window[n-1] && !i.end {
		var err error
		i.window, err = i.store.ids(ctx, `SELECT id FROM (SELECT id FROM record WHERE id < ?1 ORDER BY id DESC LIMIT 1)
			UNION ALL SELECT id FROM (SELECT DISTINCT id FROM record WHERE id >= ?1 ORDER BY id LIMIT ?2)`, id, idWindow)
		if err != nil {
			return nil, err
		}
		i.end = len(i.window) < idWindow
	}
	at, known := slices.BinarySearch(i.window, id)
	var near []string
	if at > 0 {
		near = append(near, i.window[at-1])
	}
	if known {
		at++
	}
	if at < len(i.window) {
		near = append(near, i.window[at])
	}
	return near, nil
}

// common returns the length of the common prefix of two IDs.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// ids returns the IDs of a query.
func (r *Reader) ids(ctx context.Context, query string, args ...any) (ids []string, err error) {
	err = r.read(ctx, func(v *view) error {
		return v.each(query, args, func(scan func(into ...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the IDs of the store: %w", err)
	}
	return ids, nil
}
