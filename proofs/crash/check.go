package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// settles is the longest time in which an idle daemon must add all Records to the index.
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

func (t *trial) index() string   { return filepath.Join(served.State(t.root), "index") }
func (t *trial) state() string   { return served.State(t.root) }
func (t *trial) journal() string { return filepath.Join(t.state(), spool.JournalDir) }

// log returns the log of the daemon.
func (t *trial) log() index.Log { return index.Log{State: t.state(), Index: t.index()} }

// settled waits until the index has all Records.
func (t *trial) settled(ctx context.Context) error {
	r := t.log().Open()
	defer r.Close()
	for end := time.Now().Add(settles); ; time.Sleep(50 * time.Millisecond) {
		lag, err := r.Lag(ctx)
		if err != nil || lag.Since.IsZero() {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the index does not have the last %d bytes of the log after %v", lag.Bytes, settles)
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
		files, err := filepath.Glob(filepath.Join(t.state(), "outbox", "*"))
		if err != nil {
			return err
		}
		if len(jobs)+len(files) == 0 {
			break
		}
		if time.Now().After(end) {
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
	report, err := journal.Verify(ctx, t.journal(), journal.VerifyOptions{Limits: t.limits})
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("the log was changed: %v", report.Findings)
	}
	r := t.log().Open()
	defer func() { err = errors.Join(err, r.Close()) }()
	have := map[string]*spool.Entry{} // by the ID of the call
	var rows []int64
	for row, err := range r.Records(ctx, index.Query{Lean: true, Oldest: true}) {
		if err != nil {
			return err
		}
		rows = append(rows, row.Seq)
		if row.Late || row.Event == spool.Torn { // a process was killed while it wrote
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
	if err := t.same(ctx, rows); err != nil {
		return err
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

// same returns an error if the log has other rows when it is read without the index.
func (t *trial) same(ctx context.Context, rows []int64) error {
	r := index.Log{State: t.state(), Index: t.index() + ".none"}.Open()
	defer r.Close()
	n := 0
	for row, err := range r.Records(ctx, index.Query{Lean: true, Oldest: true}) {
		if err != nil {
			return err
		}
		if n >= len(rows) || rows[n] != row.Seq {
			return fmt.Errorf("row %d, number %d, of the log is not in the index", row.Seq, n)
		}
		n++
	}
	if n != len(rows) {
		return fmt.Errorf("the log has %d rows, and the index %d", n, len(rows))
	}
	return nil
}

// unfinished lists parts of file names that exist only during an operation.
var unfinished = []string{".new", "new-", ".tmp", ".broken", "daemon.json"}

// files verifies that no temporary file was left behind. A process that was killed while it stored a
// policy leaves its file until another content is stored.
func (t *trial) files() error {
	return filepath.WalkDir(served.State(t.root), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if filepath.Base(filepath.Dir(path)) == "policy" && strings.HasPrefix(e.Name(), files.Temporary) {
			return nil
		}
		for _, part := range unfinished {
			if strings.Contains(e.Name(), part) || e.Name() == "socket" {
				return fmt.Errorf("%s was not removed", path)
			}
		}
		return nil
	})
}
