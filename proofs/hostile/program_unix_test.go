//go:build system && unix

package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// Hooks are programs of other authors. Whatever a program does, the agent gets a reply in time,
// and if a fail-closed guard gives no answer, the reply blocks.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		run  string
		want string // text in the reply; a guard that could not answer gives the reason
	}{
		"hangs":                {`sleep 300`, "timeout"},
		"will not end":         {`trap '' TERM INT HUP; while :; do sleep 1; done`, "timeout"},
		"leaves a child":       {`sleep 300 & exit 2`, "blocked by hook"},
		"leaves a deaf child":  {`trap '' TERM INT HUP; sleep 300 & echo no >&2; exit 2`, "no"},
		"many children":        {`i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i+1)); done; wait`, "timeout"},
		"talks without end":    {`while :; do echo yes; sleep 0.01; done`, "timeout"},
		"says 100 MB":          {`head -c 100000000 /dev/zero; exit 2`, "deny"},
		"says 100 MB of JSON":  {`printf '{"decision":"allow","reason":"'; head -c 100000000 /dev/zero | tr '\0' x; printf '"}'`, "larger than"},
		"complains for 100 MB": {`head -c 100000000 /dev/zero | tr '\0' x >&2; exit 2`, "more bytes cut"},
		"reads nothing":        {`exec <&-; echo no >&2; exit 2`, "no"},
		"closes everything":    {`exec <&- >&- 2>&-; exit 2`, "blocked by hook"},
		"ends itself":          {`kill -9 $$`, "signal"},
		"ends its group":       {`kill -9 0`, "signal"},
		"crashes":              {`kill -SEGV $$`, "signal"},
		"is not there":         {`/no/such/program`, "did not find it"},
		"is no program":        {`/etc/passwd`, "could not answer"},
		"is a directory":       {`/etc`, "could not answer"},
		"half an answer":       {`printf '{"decision":"al'`, "cannot read its answer"},
		"two answers":          {`echo '{"decision":"allow"}{"decision":"allow"}'`, "cannot read its answer"},
		"an unknown word":      {`echo '{"decision":"Allow"}'`, "unknown decision"},
		"twice":                {`echo '{"decision":"allow","decision":"block"}'`, "blocked by hook"},
		"another case":         {`echo '{"decision":"block","Decision":"allow"}'`, "blocked by hook"},
		"nested":               {`printf '{"set":{"tool.input":'; head -c 100000 /dev/zero | tr '\0' '['`, "cannot read its answer"},
		"what it may not":      {`echo '{"set":{"tool.next":1}}'`, "does not permit"},
		"an allow that fails":  {`echo '{"decision":"allow"}'; exit 3`, "exit code 3"},
		"escape sequences":     {`printf '\033[2J\a' >&2; exit 2`, "deny"},
		"no UTF-8":             {`printf 'no \377\300' >&2; exit 2`, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := "2s"
			if strings.Contains(tt.run, "100000000") { // it ends without a timeout, but needs seconds on a busy machine
				timeout = "60s"
			}
			w := newWorld(t, "version: 1\nhooks:\n  - name: guard\n    on: tool.before\n    timeout: "+timeout+"\n    on_error: closed\n    run: "+quoted(tt.run)+"\n")
			// The agent waits for every process that has its pipes open.
			r := blocked(t, w.hook(t, stdin(`"ls `+strings.Repeat("x", 200_000)+`"`), claude.args...))
			if !strings.Contains(r.stdout, tt.want) || len(r.stdout) > 100_000 {
				t.Errorf("want %q in it: %v", tt.want, r)
			}
		})
	}
}

// Processes that a hook starts before its deadline do not outlive it.
func TestChildrenEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	pids := filepath.Join(w.dir, "pids")
	w.write(t, "grapnel.yaml", "version: 1\nhooks:\n  - name: guard\n    on: tool.before\n    timeout: 2s\n    on_error: closed\n    run: "+
		quoted("i=0; while [ $i -lt 40 ]; do (trap '' TERM INT HUP; sleep 300) & echo $! >> "+pids+"; i=$((i+1)); done; wait")+"\n")
	var text []byte
	await.Until(t, "the hook begins before its deadline", func() bool { // a busy machine may be late
		blocked(t, w.hook(t, stdin(ls), claude.args...))
		text, _ = os.ReadFile(pids)
		return len(text) > 0
	})
	for line := range strings.Lines(string(text)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, fmt.Sprintf("child %d ends", pid), func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
		})
	}
}

// zombie reports whether a process has ended but was not waited for. In a container there may be
// no process that waits.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && strings.HasPrefix(state, "Z")
}

// An event that is too large for a line of the log is stored in a separate file, and the
// observing hook gets the whole event.
func TestLargePending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	seen := filepath.Join(w.dir, "seen")
	w.write(t, "grapnel.yaml", "version: 1\nhooks:\n  - {name: look, on: tool.before, async: true, run: "+quoted("wc -c > "+seen+".new && mv "+seen+".new "+seen)+"}\n")
	r := run(t, w.hook(t, stdin(`"echo `+strings.Repeat("x", 3<<20)+`"`), claude.args...))
	if r != (result{cpu: r.cpu}) {
		t.Errorf("the answer is %v, want none", r)
	}
	await.Until(t, "the observing hook runs", func() bool { _, err := os.Stat(seen); return err == nil })
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || n < 3<<20 {
		t.Errorf("it got %s bytes", text)
	}
	lines, err := os.ReadFile(filepath.Join(w.root, "state", "journal", "00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if len(line) > 64<<10 {
			t.Errorf("a line of the log has %d bytes", len(line))
		}
	}
}
