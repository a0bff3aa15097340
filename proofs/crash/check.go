package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// settles is the longest time in which an idle daemon must write all pending Records to the
// store.
const settles = limit

// check starts a daemon, waits until it has no work left, and verifies that nothing was lost.
func (t *trial) check(ctx context.Context) error {
	if err := t.broken(); err != nil {
		return err
	}
	d, err := served.Start(ctx, t.bin, t.root, nil)
	if err != nil {
		return fmt.Errorf("the last start: %w", err)
	}
	err = t.settled(ctx)
	if err == nil && t.heard != nil {
		err = t.deliveries(ctx)
	}
	if err := errors.Join(err, d.Stop(), t.quiet(d)); err != nil {
		return err
	}
	if err := t.records(ctx); err != nil {
		return err
	}
	return t.files()
}

func (t *trial) store() string { return filepath.Join(served.State(t.root), "store") }
func (t *trial) spool() string { return filepath.Join(served.State(t.root), "spool") }

// settled waits until every Record in the spool is also in the store.
func (t *trial) settled(ctx context.Context) error {
	r, err := store.OpenReader(t.store())
	if err != nil {
		return err
	}
	defer r.Close()
	for end := time.Now().Add(settles); ; time.Sleep(50 * time.Millisecond) {
		in := map[string]bool{}
		for row, err := range r.Records(ctx, store.Query{Lean: true}) {
			if err != nil {
				return err
			}
			in[row.ID] = true
		}
		waits := ""
		for e, err := range spool.Read(t.spool(), spool.Filter{}) {
			if err != nil {
				return err
			}
			if !in[e.ID] {
				waits = e.ID
			}
		}
		if waits == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("record %s is still in the spool alone after %v", waits, settles)
		}
	}
}

// deliveries waits until no delivery is left. It verifies that the receiver got each blocked call,
// always under one ID.
func (t *trial) deliveries(ctx context.Context) error {
	r, err := queue.OpenReader(filepath.Join(served.State(t.root), "queue"))
	if err != nil {
		return err
	}
	defer r.Close()
	for end := time.Now().Add(settles); ; time.Sleep(50 * time.Millisecond) {
		jobs, err := r.Deliveries(ctx, queue.Query{State: delivery.Waiting, Limit: 10})
		if err != nil {
			return err
		}
		waits := len(jobs) > 0
		for _, name := range []string{"pending.jsonl", "taken.jsonl", "later.jsonl"} {
			if _, err := os.Lstat(filepath.Join(t.spool(), name)); err == nil {
				waits = true
			}
		}
		if !waits {
			break
		}
		if time.Now().After(end) {
			files, _ := filepath.Glob(filepath.Join(t.spool(), "*"))
			return fmt.Errorf("deliveries still wait after %v: %+v, %v", settles, jobs, files)
		}
	}
	dead, err := r.Deliveries(ctx, queue.Query{State: delivery.Dead, Limit: 1})
	if err != nil || len(dead) > 0 {
		return errors.Join(fmt.Errorf("dead deliveries: %+v", dead), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var missing, duplicates []string
	for id, a := range t.asked {
		switch n := t.heard.ids(id); {
		case !a.blocked && n > 0:
			return fmt.Errorf("a server got a delivery about call %s, which was not blocked", id)
		case a.blocked && a.given && n == 0:
			missing = append(missing, id)
		case n > 1:
			duplicates = append(duplicates, id)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no server got a delivery about %d blocked calls: %v", len(missing), missing[:min(len(missing), 10)])
	}
	if len(duplicates) > 0 {
		return fmt.Errorf("a server got deliveries about %d calls with several IDs: %v", len(duplicates), duplicates[:min(len(duplicates), 10)])
	}
	return nil
}

// records compares the stored Records with the answers that the agents got.
func (t *trial) records(ctx context.Context) (err error) {
	r, err := store.OpenReader(t.store())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	report, err := r.Verify(ctx)
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("the chain is broken: %v", report.Findings)
	}
	have := map[string]*spool.Entry{} // by the ID of the call
	n := 0
	for row, err := range r.Records(ctx, store.Query{Lean: true}) {
		if err != nil {
			return err
		}
		n++
		if row.Late {
			continue
		}
		_, id, ok := strings.Cut(string(row.Line), `"tool_use_id":"`)
		if id, _, _ = strings.Cut(id, `"`); !ok {
			return fmt.Errorf("record %s, row %d, has no event: %s", row.ID, row.Seq, row.Line)
		}
		if before := have[id]; before != nil {
			return fmt.Errorf("call %s has two Records: %s and %s", id, before.ID, row.ID)
		}
		have[id] = &row.Entry
	}
	if n != report.Rows {
		return fmt.Errorf("the chain has %d rows, and %d were read", report.Rows, n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var lost []string
	for id, a := range t.asked {
		e := have[id]
		delete(have, id)
		switch {
		case e == nil && a.given:
			lost = append(lost, id)
		case e == nil:
		case (e.Decision == grapnel.Block) != a.blocked:
			return fmt.Errorf("call %s: blocked in the reply: %v; decision in its Record: %v", id, a.blocked, e.Decision)
		case a.firing != "" && a.firing != e.ID:
			return fmt.Errorf("call %s: firing %s in the reply; %s in its Record", id, a.firing, e.ID)
		}
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		return fmt.Errorf("%d of %d replies have no Record: %v", len(lost), len(t.asked), lost[:min(len(lost), 10)])
	}
	for id := range have {
		if t.loose {
			break
		}
		return fmt.Errorf("a Record is about call %s, which never happened", id)
	}
	return nil
}

// unfinished lists parts of file names that exist only during an operation.
var unfinished = []string{".new", "new-", ".tmp", ".broken", "daemon.json"}

// files verifies that no temporary file was left behind.
func (t *trial) files() error {
	return filepath.WalkDir(served.State(t.root), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		for _, part := range unfinished {
			if strings.Contains(e.Name(), part) || e.Name() == "socket" {
				return fmt.Errorf("%s was not removed", path)
			}
		}
		return nil
	})
}
