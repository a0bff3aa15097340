package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
)

// minPrefix is the minimum length of a prefix that Short returns. An ID begins with 12 digits of
// milliseconds, so that 10 digits stay unique unless another event follows within a quarter of a
// second.
const minPrefix = 10

// idWindow is the number of IDs that are read at once. A log is mostly read in the order of IDs.
const idWindow = 64

// IDs finds Records by a prefix of their ID, without torn lines. It has the state of the log when it was opened. It is
// not safe for concurrent use.
type IDs struct {
	fresh  []string // that the index does not have, sorted
	view   *view
	window []string // IDs of the index that follow each other
	end    bool     // the window contains the last ID of the index

	problem error // why a part of the log cannot be read
}

// IDs opens the IDs of a log. Close them afterwards.
func (l Log) IDs(ctx context.Context) *IDs {
	i := &IDs{view: l.Open().look(ctx, Query{})}
	errs := i.view.errs
	if i.view.log != nil {
		var err error
		i.fresh, err = i.view.log.IDs(i.view.head)
		errs = append(errs, err)
	}
	i.problem = errors.Join(errs...)
	return i
}

// Close closes the log.
func (i *IDs) Close() { i.view.close() }

// Find returns the first IDs with a prefix, sorted, at most limit. If it finds none, and a part of
// the log cannot be read, it returns an error.
func (i *IDs) Find(ctx context.Context, prefix string, limit int) ([]string, error) {
	found, err := i.indexed(ctx, "SELECT DISTINCT id FROM record WHERE id >= ? AND id < ? AND torn = '' AND seq > ? AND seq <= ? ORDER BY id LIMIT ?",
		prefix, prefix+"\U0010FFFF", i.view.base, i.view.head, limit)
	if err != nil {
		return nil, err
	}
	at, _ := slices.BinarySearch(i.fresh, prefix)
	for n, id := range i.fresh[at:] {
		if !strings.HasPrefix(id, prefix) || n == limit {
			break
		}
		found = append(found, id)
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
	stored, err := i.neighbors(ctx, id)
	if err != nil {
		return id
	}
	at, known := slices.BinarySearch(i.fresh, id)
	if !known && at == len(i.fresh) { // a new event, while a log is followed
		i.fresh = append(i.fresh, id)
	}
	length := minPrefix
	for _, other := range append(around(i.fresh, id), stored...) {
		length = max(length, common(id, other)+1)
	}
	return id[:min(length, len(id))]
}

// neighbors returns the IDs before and after an ID in the index.
func (i *IDs) neighbors(ctx context.Context, id string) ([]string, error) {
	if n := len(i.window); n == 0 || id <= i.window[0] || id >= i.window[n-1] && !i.end {
		var err error
		i.window, err = i.indexed(ctx, `SELECT id FROM (SELECT id FROM record WHERE id < ?1 AND torn = '' AND seq > ?3 ORDER BY id DESC LIMIT 1)
			UNION ALL SELECT id FROM (SELECT DISTINCT id FROM record WHERE id >= ?1 AND torn = '' AND seq > ?3 ORDER BY id LIMIT ?2)`, id, idWindow, i.view.base)
		if err != nil {
			return nil, err
		}
		i.end = len(i.window) < idWindow
	}
	return around(i.window, id), nil
}

// around returns the IDs before and after an ID in a sorted list.
func around(list []string, id string) (near []string) {
	at, known := slices.BinarySearch(list, id)
	if at > 0 {
		near = append(near, list[at-1])
	}
	if known {
		at++
	}
	if at < len(list) {
		near = append(near, list[at])
	}
	return near
}

// common returns the length of the common prefix of two IDs.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// indexed returns the IDs of a query of the index. If the index is gone, all IDs become fresh.
func (i *IDs) indexed(ctx context.Context, query string, args ...any) (ids []string, err error) {
	if i.view.head == 0 {
		return nil, nil
	}
	err = i.view.read(ctx, func(v *database.View) error {
		return v.Each(query, args, func(scan func(into ...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
	})
	if err = i.view.without(err); err == nil && i.view.head == 0 {
		ids, i.window = nil, nil
		i.fresh, err = i.view.log.IDs(0)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the IDs of the index: %w", err)
	}
	return ids, nil
}
