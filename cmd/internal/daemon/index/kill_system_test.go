//go:build system

package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/fault"
)

// indexerVar makes a test process a daemon that only indexes, in this directory.
const indexerVar = "GRAPNEL_TEST_INDEXER"

// TestIndexer is the process that TestKilled kills.
func TestIndexer(t *testing.T) {
	dir := os.Getenv(indexerVar)
	if dir == "" {
		t.Skip("it is a part of TestKilled")
	}
	p := Log{State: filepath.Join(dir, "state"), Index: filepath.Join(dir, "index")}
	x, err := p.Keep(&Options{Note: func(err error) { fmt.Println("note:", err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// dump returns what the index says about each row.
func (p *place) dump() (rows []string) {
	p.t.Helper()
	r := p.Open()
	defer r.Close()
	for _, query := range []string{
		"SELECT group_concat(concat_ws(' ', seq, size, id, late, hex(digest), sum, time, agent, session, event, decision, would, torn), char(10)) FROM (SELECT * FROM record ORDER BY seq)",
		"SELECT group_concat(concat_ws(' ', seq, name, source), char(10)) FROM (SELECT * FROM ran JOIN hook ON num = hook ORDER BY seq, name, source)",
		"SELECT group_concat(concat_ws(' ', seq, id), char(10)) FROM (SELECT * FROM again ORDER BY seq)",
		"SELECT group_concat(concat_ws(' ', first, last, oldest, newest), char(10)) FROM (SELECT * FROM summary ORDER BY first)",
		"SELECT group_concat(rowid, char(10)) FROM (SELECT rowid FROM words WHERE words MATCH 'wintermute' ORDER BY rowid)",
		"SELECT concat_ws(' ', seq, key) FROM position",
	} {
		p.ok(r.read(p.t.Context(), func(v *database.View) error {
			var text *string
			_, err := v.Row(query, nil, &text)
			if text != nil {
				rows = append(rows, *text)
			}
			return err
		}))
	}
	return rows
}

// A process is killed while it indexes: at random times, and in a build with faults also before and after a commit.
// Then the index has each line once, and is the same as one that is made from nothing.
//
// chaos: daemons
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := in(t, dir)
	p.w.MaxSize = 256 << 10
	n, killed := 0, 0
	for life := range 24 {
		for range 1 + rand.IntN(900) {
			p.put(entry(fmt.Sprint(n)))
			if n++; n%50 == 0 {
				p.raw("\n{torn\n")
				p.put(entry(fmt.Sprint(n - 1)))
				other := entry(fmt.Sprint(n - 2))
				other.MS = float64(life)
				p.put(other)
			}
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIndexer$")
		cmd.Env = append(os.Environ(), indexerVar+"="+dir)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		limit := time.Duration(rand.IntN(400)) * time.Millisecond
		if fault.On && life%3 > 0 {
			point := []string{"index: before the commit", "index: after the commit"}[life%3-1]
			cmd.Env = append(cmd.Env, fmt.Sprintf("GRAPNEL_FAULT_KILL=%s*%d", point, 1+rand.IntN(3)))
			limit = 5 * time.Second // if there are not so many commits
		}
		p.ok(cmd.Start())
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
			killed++
		case <-time.After(limit): // must fire: the process ends only if it is killed
			_ = cmd.Process.Kill()
			<-ended
		}
		if cmd.ProcessState.Exited() {
			t.Fatalf("the process ended by itself: %v", cmd.ProcessState)
		}
		r := p.Open()
		if life%6 == 5 {
			p.agree(fmt.Sprint("after life ", life), r, Query{Limit: 500})
		}
		p.ok(r.Close())
	}
	p.index()
	after := p.dump()
	p.ok(os.RemoveAll(p.Index))
	p.index()
	if diff := cmp.Diff(p.dump(), after); diff != "" {
		t.Errorf("the index differs from one that is made from nothing (-new +killed):\n%.5000s", diff)
	}
	r := p.Open()
	defer r.Close()
	if got := p.sql(r, "SELECT count(*) FROM record WHERE torn = ''"); got != int64(n) {
		t.Errorf("%d rows, want %d", got, n)
	}
	if fault.On && killed < 8 {
		t.Errorf("only %d of 24 processes reached their point", killed)
	}
	t.Logf("%d lines, %d processes were killed at a point", n, killed)
}
