//go:build system && unix

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

// A program that does not read, or writes far too much, delays no caller beyond its deadline.
// Children that keep its pipes open do not either. These tests run alone, because a program that
// writes without end uses a whole processor.
func TestWorkerBadManners(t *testing.T) { //nolint:tparallel // see above
	const hello = `echo '{"grapnel":1,"type":"hello","concurrency":1000000000}'; `
	big := strings.Repeat("x", 5<<20) // more than a pipe holds
	for name, tt := range map[string]struct {
		program, wantErr string
	}{
		"reads nothing":    {hello + `trap '' TERM INT; sleep 1000`, "took longer than its timeout"},
		"floods":           {hello + `exec yes`, `"y" is not a JSON object`},
		"floods one line":  {hello + `exec tr '\0' x </dev/zero`, "answer larger than"},
		"floods weather":   {hello + `exec yes '{"type":"weather"}'`, "took longer than its timeout"},
		"floods hello":     {hello + `exec yes '{"grapnel":1,"type":"hello","kinds":["session.end"]}'`, "took longer than its timeout"},
		"floods stderr":    {hello + `exec yes >&2`, "took longer than its timeout"},
		"leaves a child":   {hello + `sleep 5 & trap '' TERM; exit 3`, "exit code 3"},
		"leaves no output": {hello + `exec >&-; sleep 1000`, "took longer than its timeout"},
		"foretells":        {hello + `for i in 1 2 3; do echo '{"type":"answer","id":"'$((i+1000))'","outcome":{"decision":"allow"}}'; done; sleep 1000`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worker(t)
			w.Args, w.Line = nil, tt.program
			pids := filepath.Join(w.Dir, "pids")
			w.Line = "echo $$ >> pids; " + w.Line
			for range 4 { // after three late answers the program is started again
				out, err := askFor(t, w, 300*time.Millisecond, big)
				if !cmp.Equal(out, grapnel.Outcome{}, answerOnly) || err == nil {
					t.Fatalf("%+v, %v, want an error", out, err)
				}
				if !strings.Contains(err.Error(), tt.wantErr) && !errors.Is(err, grapnel.ErrTimeout) { // on a busy machine the hello may be late
					t.Errorf("%v, want %q", err, tt.wantErr)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // must fire: the program does not end by itself
			defer cancel()
			_ = w.Close(ctx)
			started, err := os.ReadFile(pids)
			if err != nil {
				t.Fatal(err)
			}
			for pid := range strings.FieldsSeq(string(started)) {
				if n, _ := strconv.Atoi(pid); !errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
					t.Errorf("process %s is still there", pid)
				}
			}
		})
	}
}
