//go:build system && unix

package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/notes"

	"golang.org/x/sys/unix"
)

// fullVar makes a test process one whose files cannot grow: its directory.
const fullVar = "GRAPNEL_TEST_FULL_INDEX"

// TestFullDisk runs TestFullIndex in a process of its own, because a limit for files is one of the whole process.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestFullIndex$")
	cmd.Env = append(os.Environ(), fullVar+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullIndex")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// If the disk is full, the index stops, and says why. The log is still read, and when there is room again, the
// index continues.
func TestFullIndex(t *testing.T) {
	dir := os.Getenv(fullVar)
	if dir == "" {
		t.Skip("it is a part of TestFullDisk")
	}
	p := in(t, dir)
	p.w.MaxSize = 200_000
	var list []spool.Entry
	for i := range 3000 {
		list = append(list, entry(fmt.Sprintf("r%04d", i)))
	}
	p.put(list[:50]...)
	var noted notes.Notes
	x := p.keep(&Options{Note: noted.Add})
	p.catchUp(x)
	limit := func(size uint64) {
		t.Helper()
		p.ok(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: math.MaxInt64}))
	}
	limit(400_000)
	for i := 50; i < len(list); i += 50 {
		p.put(list[i : i+50]...)
	}
	p.run(x)
	await.Until(t, "the index is stopped", func() bool { return x.Condition().Err != nil })
	r := p.Open()
	p.agree("the disk is full", r, Query{}, Query{Limit: 10})
	p.ok(r.Close())
	limit(math.MaxInt64)
	p.all()
	await.Until(t, "the index continues", func() bool { return x.Condition().Err == nil })
	p.agree("there is room again", x.Reader, Query{}, Query{Limit: 10})
	n := p.sql(x.Reader, "SELECT count(*) FROM record")
	if c, err := x.Count(context.Background(), time.Time{}); n != 3000 || c.Totals().Firings != 3000 || err != nil {
		t.Errorf("%d rows, %d counted, %v", n, c.Totals().Firings, err)
	}
	if errors.Is(x.Condition().Err, ErrLocked) || noted.String() == "" {
		t.Errorf("noted: %s", &noted)
	}
}
