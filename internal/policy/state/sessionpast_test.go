package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// pastCounter is a Counter that shows what is stored.
type pastCounter map[string][]byte

func (c pastCounter) Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error {
	if now, _ := change(c[owner+key]); now != nil {
		c[owner+key] = now
	}
	return nil
}

// pastSession plays calls in a directory, with a rule against rm -rf.
type pastSession struct {
	t       *testing.T
	dir     string
	file    string
	counter pastCounter
	now     time.Time
	fails   error         // of the Counter
	place   state.Counter // instead of counter
}

// noPlace is a Counter that can store nothing.
type noPlace struct{ error }

func (n noPlace) Count(string, string, func([]byte) ([]byte, time.Duration)) error { return n.error }

func newPastSession(t *testing.T, rules string) *pastSession {
	t.Helper()
	s := &pastSession{t: t, dir: t.TempDir(), file: filepath.Join(t.TempDir(), "grapnel.yaml"), counter: pastCounter{}, now: time.Now()}
	if err := os.WriteFile(s.file, []byte("version: 1\nhooks:\n"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

const noDelete = "  - {name: no-delete, on: tool.before, match: {command: rm -rf}, block: no}\n"

// fire judges one call as a program does that is started for each call: it loads the policy anew,
// for this event.
func (s *pastSession) fire(tool *grapnel.Tool) grapnel.Decision {
	s.t.Helper()
	ev := &grapnel.Event{
		Kind: grapnel.ToolBefore, ID: fmt.Sprint(s.now.UnixNano()), Time: s.now, Tool: tool,
		Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "s1", CWD: s.dir},
	}
	set := load.Policies(load.Request{
		Files: []load.File{{Path: s.file, Must: true}}, Counter: s.stored(), Event: ev, Now: func() time.Time { return s.now },
	})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
	return engine.Fire(s.t.Context(), ev).Decision
}

// state returns the Counter of the session.
func (s *pastSession) stored() state.Counter {
	switch {
	case s.fails != nil:
		return noPlace{s.fails}
	case s.place != nil:
		return s.place
	}
	return s.counter
}

func (s *pastSession) shell(line string) grapnel.Decision {
	s.t.Helper()
	input, _ := json.Marshal(map[string]string{"command": line})
	return s.fire(&grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: input, Commands: []string{line}})
}

func (s *pastSession) write(name, text string) grapnel.Decision {
	s.t.Helper()
	return s.fire(&grapnel.Tool{
		Name: "Write", Class: grapnel.ClassWrite, Input: json.RawMessage(`{}`), Content: text,
		Paths: []grapnel.Path{{Path: filepath.Join(s.dir, name), Use: grapnel.UseWrite}},
	})
}

// TestSessionPast checks that a script is judged when it is run, if the session wrote it: from the
// file, or from the call if the file is not there yet.
func TestSessionPast(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(s *pastSession) grapnel.Decision{
		"a script": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			return s.shell("bash x.sh")
		},
		"by a shell": func(s *pastSession) grapnel.Decision {
			s.shell("echo 'rm -rf /' > x.sh")
			return s.shell("chmod +x x.sh && ./x.sh")
		},
		"its content counts": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "ls\n")
			s.put("x.sh", "rm -rf /\n")
			return s.shell("./x.sh")
		},
		"edited in parts": func(s *pastSession) grapnel.Decision {
			s.put("x.sh", "ls\n")
			s.fire(&grapnel.Tool{
				Name: "Edit", Class: grapnel.ClassEdit, Input: json.RawMessage(`{}`), Content: "rm -rf /",
				Paths: []grapnel.Path{{Path: filepath.Join(s.dir, "x.sh"), Use: grapnel.UseWrite}},
			})
			return s.shell("sh x.sh")
		},
		"copied, then linked": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			s.shell("cp x.sh y.sh")
			s.shell("ln -s y.sh z.sh")
			return s.shell("sh z.sh")
		},
		"copied into a directory": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			s.shell("cp x.sh sub/")
			return s.shell("sh sub/x.sh")
		},
		"installed as a program": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			s.shell("install -m 755 x.sh tool")
			return s.shell("./tool")
		},
		"from another directory": func(s *pastSession) grapnel.Decision {
			s.write("sub/x.sh", "rm -rf /\n")
			return s.shell("cd sub; sh ./x.sh")
		},
		"a Makefile": func(s *pastSession) grapnel.Decision {
			s.write("Makefile", "clean:\n\trm -rf $(HOME)\n")
			return s.shell("make clean")
		},
		"written by a program that is not known": func(s *pastSession) grapnel.Decision {
			s.shell("./generate")
			s.put("x.json", "rm -rf /\n")
			return s.shell("bash x.json")
		},
		"with the time of an old file": func(s *pastSession) grapnel.Decision {
			s.shell("tar -xf scripts.tar")
			s.put("x.sh", "rm -rf /\n")
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(s.dir, "x.sh"), old, old); err != nil {
				s.t.Fatal(err)
			}
			return s.shell("bash x.sh")
		},
		"renamed by a program": func(s *pastSession) grapnel.Decision {
			s.put("x.txt", "rm -rf /\n")
			s.settle()
			s.shell("git mv x.txt y.sh")
			if err := os.Rename(filepath.Join(s.dir, "x.txt"), filepath.Join(s.dir, "y.sh")); err != nil {
				s.t.Fatal(err)
			}
			return s.shell("cat README; sh y.sh")
		},
		"copied in the same line": func(s *pastSession) grapnel.Decision {
			s.shell("./generate")
			s.put("x.txt", "rm -rf /\n")
			return s.shell("cp x.txt y.sh && sh y.sh")
		},
		"in memory": func(s *pastSession) grapnel.Decision {
			s.shell("echo 'rm -rf /' > /dev/shm/grapnel-test-does-not-exist")
			return s.shell("sh /dev/shm/grapnel-test-does-not-exist")
		},
		"after many moves": func(s *pastSession) grapnel.Decision {
			s.shell("mv docs x")
			for i := range 100 {
				s.shell(fmt.Sprintf("mv a%d b%d", i, i))
			}
			s.now = s.now.Add(-time.Minute) // the files do not exist
			return s.shell("ln -s / y; rm -rf y/etc")
		},
		"a linked directory": func(s *pastSession) grapnel.Decision {
			s.shell("ln -s / build")
			return s.shell("rm -r build/ -f")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := play(newPastSession(t, noDelete)); got != grapnel.Block {
				t.Errorf("got %v, want block", got)
			}
		})
	}
}

// settle waits until a file that is written now has a later time than those before.
func (s *pastSession) settle() { time.Sleep(30 * time.Millisecond) }

func (s *pastSession) put(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// TestSessionPastLeavesFree checks what the past of a session does not change.
func TestSessionPastLeavesFree(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(s *pastSession) grapnel.Decision{
		"a script from before the session": func(s *pastSession) grapnel.Decision {
			s.put("x.sh", "rm -rf /\n")
			s.settle()
			s.shell("ls > x.txt")
			return s.shell("bash x.sh")
		},
		"a program that was compiled": func(s *pastSession) grapnel.Decision {
			s.shell("make")
			s.put("x", "\x7fELF\x02\x01\x01\x00\x00\nrm -rf /\n")
			return s.shell("./x")
		},
		"a script of another session": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			for key := range s.counter {
				delete(s.counter, key)
			}
			return s.shell("bash x.sh")
		},
		"a script that was changed back": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			s.put("x.sh", "ls\n")
			s.now = s.now.Add(time.Hour)
			return s.shell("bash x.sh")
		},
		"reading it": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			return s.shell("cat x.sh; git add x.sh")
		},
		"checking its syntax": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "rm -rf /\n")
			return s.shell("bash -n x.sh")
		},
		"another goal": func(s *pastSession) grapnel.Decision {
			s.write("Makefile", "all:\n\tgo build\nclean:\n\trm -rf $(HOME)\n")
			return s.shell("make all")
		},
		"directories that a script makes": func(s *pastSession) grapnel.Decision {
			s.write("x.sh", "OUT=$(cd \"$(dirname \"$0\")\" && pwd)/out\nrm -rf \"$OUT\"; rm -rf \"${1:?}\"\n")
			return s.shell("sh x.sh")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := play(newPastSession(t, noDelete)); got != grapnel.None {
				t.Errorf("got %v, want none", got)
			}
		})
	}
}

// TestSessionPastIsBounded plays many calls, and checks what is stored: little, no secrets, and
// nothing without rules about commands or for blocked calls.
func TestSessionPastIsBounded(t *testing.T) {
	t.Parallel()
	s := newPastSession(t, noDelete)
	for i := range 600 {
		s.write(fmt.Sprintf("%s/file-%d.sh", strings.Repeat("directory/", 10), i), "echo "+strings.Repeat("x", 100))
	}
	s.write("last.sh", "export TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789\nrm -rf /\n")
	for key, value := range s.counter {
		if len(value) > 50<<10 {
			t.Errorf("%q has %d bytes", key, len(value))
		}
		if strings.Contains(string(value), "ghp_abcdefghijklmnop") {
			t.Error("a token was stored")
		}
	}
	if got := s.shell("sh last.sh"); got != grapnel.Block {
		t.Errorf("the newest file: %v", got)
	}

	s = newPastSession(t, noDelete+"  - {name: no-scripts, on: tool.before, match: {tool: write, path: '**/*.sh'}, block: no}\n")
	s.write("x.sh", "rm -rf /\n")
	if len(s.counter) > 0 {
		t.Errorf("a blocked call was stored: %v", s.counter)
	}
	s = newPastSession(t, "  - {name: no-secrets, on: tool.before, match: {path: '**/.env'}, block: no}\n")
	s.write("x.sh", "rm -rf /\n")
	if len(s.counter) > 0 {
		t.Errorf("without rules about commands: %v", s.counter)
	}
}

// TestSessionPastWithoutRoom checks that a call asks whose deeds find no room.
func TestSessionPastWithoutRoom(t *testing.T) {
	t.Parallel()
	full := newPastSession(t, noDelete)
	long := strings.Repeat("directory/", 40)
	decisions := map[grapnel.Decision]int{}
	for i := range 300 {
		decisions[full.shell(fmt.Sprintf("mv %s%d.txt %s%d.md", long, i, long, i))]++
	}
	if decisions[grapnel.None] < 50 || decisions[grapnel.Ask] < 50 || len(decisions) != 2 {
		t.Errorf("%v, want that the first moves pass and the last ones ask", decisions)
	}
	if got := full.shell("git status"); got != grapnel.None {
		t.Errorf("a call that moves nothing: %v", got)
	}

	broken := newPastSession(t, noDelete)
	broken.fails = errors.New("no space left on device")
	for line, want := range map[string]grapnel.Decision{"git status": grapnel.None, "echo 'rm -rf /' > x.sh": grapnel.Ask, "ln -s / build": grapnel.Ask} {
		if got := broken.shell(line); got != want {
			t.Errorf("%s on a full disk: %v, want %v", line, got, want)
		}
	}
}

// TestSessionPastDamaged checks that a person is asked once about a damaged value, which is then new.
func TestSessionPastDamaged(t *testing.T) {
	t.Parallel()
	s := newPastSession(t, noDelete)
	s.write("x.sh", "rm -rf /\n")
	for key := range s.counter {
		s.counter[key] = []byte("a\tb\n")
	}
	if got := s.shell("sh x.sh"); got != grapnel.Ask {
		t.Errorf("a damaged value: %v, want ask", got)
	}
	s.write("x.sh", "rm -rf /\n")
	if got := s.shell("sh x.sh"); got != grapnel.Block {
		t.Errorf("after the next call: %v", got)
	}
}

func BenchmarkSessionPast(b *testing.B) {
	var list strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&list, "/home/dev/project/src/api/file-%d.go\n", i)
	}
	file := filepath.Join(b.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nhooks:\n"+noDelete), 0o600); err != nil {
		b.Fatal(err)
	}
	for name, kept := range map[string]string{"empty": "", "full": list.String()} {
		b.Run(name, func(b *testing.B) {
			counter := everyKey(kept)
			set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}, Counter: counter})
			engine, err := grapnel.New(set.Specs, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				engine.Fire(b.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{"git status && go test ./..."}}})
			}
		})
	}
}

// everyKey is a Counter that has the same value for each key.
type everyKey string

func (k everyKey) Count(_, _ string, change func([]byte) ([]byte, time.Duration)) error {
	change([]byte(k))
	return nil
}

// TestSessionPastMoved checks that a directory that was moved twice is deleted under its first name.
func TestSessionPastMoved(t *testing.T) {
	t.Parallel()
	s := newPastSession(t, "  - {name: keep-docs, on: tool.before, match: {command: rm -rf docs}, block: no}\n")
	s.shell("mv docs a")
	s.shell("mv a build")
	if got := s.shell("rm -rf build"); got != grapnel.Block {
		t.Errorf("got %v, want block", got)
	}
	if got := s.shell("rm -rf a"); got != grapnel.Block {
		t.Errorf("under its second name: got %v, want block", got)
	}
}

// TestSamePathAfterMove checks that `same: path` knows a file under its former name.
func TestSamePathAfterMove(t *testing.T) {
	t.Parallel()
	s := newPastSession(t, `  - name: fetched
    on: tool.before
    match: {command: [sh, ./*]}
    after: {event: tool.before, match: {command: curl}, same: path}
    block: no
`)
	s.shell("curl -o got https://example.com/x")
	s.shell("mv got setup")
	s.shell("ln -s setup run")
	for line, want := range map[string]grapnel.Decision{"sh setup": grapnel.Block, "./run": grapnel.Block, "sh other": grapnel.None} {
		if got := s.shell(line); got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// TestSameRun plays calls that run what an earlier call fetched.
func TestSameRun(t *testing.T) {
	t.Parallel()
	const rule = `  - name: fetched
    on: tool.before
    match: {command: [sh, make, npm install, pip install, ./*, /*]}
    after: {event: tool.before, match: {command: [curl, git clone]}, same: run}
    block: no
`
	for line, want := range map[string]grapnel.Decision{
		"git clone https://h/x && true; make -C x":                             grapnel.None, // one call
		"git clone https://h/x; cd x && make":                                  grapnel.None,
		"git clone https://h/x => cd x && make install":                        grapnel.Block,
		"git clone https://h/x => make -C x":                                   grapnel.Block,
		"git clone https://h/x => npm --prefix x install":                      grapnel.Block,
		"git clone https://h/x => pip install ./x":                             grapnel.Block,
		"git clone https://h/x => ./x/deep/setup":                              grapnel.Block,
		"git clone https://h/x => make":                                        grapnel.None,
		"git clone https://h/x => make -C y":                                   grapnel.None,
		"git clone https://h/x => mv x y => sh y/a.sh":                         grapnel.Block,
		"git clone https://h/x => cp -r x y => sh y/a.sh":                      grapnel.Block,
		"curl -o a.tgz https://h/a => tar xzf a.tgz -C /opt/a => /opt/a/setup": grapnel.Block,
		"curl -o a.tgz https://h/a => tar xzf a.tgz => ./a/setup":              grapnel.Block,
		"curl -o a.zip https://h/a => unzip a.zip -d b => sh b/setup":          grapnel.Block,
		"curl -o a.tgz https://h/a => tar xzf a.tgz => sh before.sh":           grapnel.None,
		"curl -o a.tgz https://h/a => tar xzf b.tgz => ./b/setup":              grapnel.None,
		"curl -o a.tgz https://h/a => tar xzf a.tgz; tar xzf b.tgz => ./a/x":   grapnel.Block,
		"curl -o a.json https://h/a => make":                                   grapnel.None,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := newPastSession(t, rule)
			s.put("before.sh", "ls\n")
			s.settle()
			var got grapnel.Decision
			for call := range strings.SplitSeq(line, " => ") {
				got = s.shell(call)
			}
			if got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
