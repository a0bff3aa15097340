package state_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/policy/load"
)

const guardDatabases = "  - {name: keep-databases, on: tool.before, match: {drops: [unknown, other]}, block: Keep it.}\n" +
	"  - {name: no-staging, on: tool.before, match: {command: createdb -h staging}, block: no}\n"

// play plays calls. A call is a shell line, and behind " => " its result: "ok", an output, or "failed:" and
// an output. Without a result, none arrives. It returns the decision of the last call.
func (s *pastSession) play(ids bool, calls ...string) (got grapnel.Decision) {
	s.t.Helper()
	for i, call := range calls {
		line, result, ended := strings.Cut(call, " => ")
		input, _ := json.Marshal(map[string]any{"command": line, "run_in_background": strings.HasPrefix(line, "TERM=bg ")})
		tool := func() *grapnel.Tool {
			t := &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: input, Commands: []string{line}}
			if ids {
				t.ID = fmt.Sprint("call-", i)
			}
			return t
		}
		if line, only := strings.CutPrefix(line, "only the result: "); only {
			t := tool()
			t.Commands, t.Output = []string{line}, json.RawMessage(`""`)
			s.event(grapnel.ToolAfter, t)
			continue
		}
		if got = s.fire(tool()); !ended || got == grapnel.Block {
			continue
		}
		kind, t := grapnel.ToolAfter, tool()
		if message, failed := strings.CutPrefix(result, "failed:"); failed {
			kind, result = grapnel.ToolFailed, message
		}
		if result == "ok" {
			result = ""
		}
		t.Output, _ = json.Marshal(map[string]any{"stdout": result, "stderr": "", "interrupted": false})
		s.event(kind, t)
	}
	return got
}

// event fires an event like fire.
func (s *pastSession) event(kind grapnel.Kind, tool *grapnel.Tool) {
	s.t.Helper()
	ev := &grapnel.Event{
		Kind: kind, ID: fmt.Sprint(s.now.UnixNano()), Time: s.now, Tool: tool,
		Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "s1", CWD: s.dir},
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: s.file, Must: true}}, Counter: s.stored(), Event: ev})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if v := engine.Fire(s.t.Context(), ev); v.Decision != grapnel.None || len(v.Reasons) > 0 {
		s.t.Errorf("%s: %v %v", tool.Commands[0], v.Decision, v.Reasons)
	}
}

// TestSessionDatabases checks that a database that the session created is free, and nothing else.
func TestSessionDatabases(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]struct {
		calls []string
		want  grapnel.Decision
	}{
		"created":                    {[]string{"createdb shop => ok", "dropdb shop"}, grapnel.None},
		"created by a statement":     {[]string{"psql -c 'create database shop' => CREATE DATABASE", "dropdb --if-exists shop"}, grapnel.None},
		"dropped by a statement":     {[]string{"createdb shop => ok", "psql -d postgres -c 'drop database shop'"}, grapnel.None},
		"mysql":                      {[]string{"mysqladmin -u root create shop => ok", "mysql -u root -e 'drop database shop'"}, grapnel.None},
		"in a container":             {[]string{"docker exec db createdb -U postgres shop => ok", "docker exec -it db dropdb -U postgres shop"}, grapnel.None},
		"and filled":                 {[]string{"createdb shop && psql -q shop -f schema.sql => ok", "dropdb shop"}, grapnel.None},
		"dropped by a script":        {[]string{"createdb shop => ok", "echo 'dropdb shop' > drop.sh => ok", "sh drop.sh"}, grapnel.None},
		"drop that is reset":         {[]string{"createdb shop => ok", "dropdb shop && createdb shop => ok", "dropdb shop"}, grapnel.None},
		"drop that failed":           {[]string{"createdb shop => ok", "dropdb shop => failed:is being accessed by other users", "dropdb -f shop"}, grapnel.None},
		"other calls in between":     {[]string{"createdb shop => ok", "ls => ok", "source .venv/bin/activate && pytest => ok", "dropdb shop"}, grapnel.None},
		"nothing":                    {[]string{"dropdb shop"}, grapnel.Block},
		"no result":                  {[]string{"createdb shop", "dropdb shop"}, grapnel.Block},
		"failed":                     {[]string{"createdb shop => failed:already exists", "dropdb shop"}, grapnel.Block},
		"failed without a message":   {[]string{"createdb shop => failed:", "dropdb shop"}, grapnel.Block},
		"already exists":             {[]string{"createdb shop => createdb: database \"shop\" already exists", "dropdb shop"}, grapnel.Block},
		"exit code":                  {[]string{"createdb shop => {\"exit_code\": 1}", "dropdb shop"}, grapnel.Block},
		"blocked":                    {[]string{"createdb -h staging shop => ok", "dropdb -h staging shop"}, grapnel.Block},
		"only the result":            {[]string{"only the result: createdb shop", "dropdb shop"}, grapnel.Block},
		"result of another call":     {[]string{"createdb shop", "only the result: createdb shop -O ann", "dropdb shop"}, grapnel.Block},
		"in the background":          {[]string{"TERM=bg createdb shop => ok", "dropdb shop"}, grapnel.Block},
		"still running":              {[]string{"createdb shop => Command running in background with ID: 1", "dropdb shop"}, grapnel.Block},
		"hidden message":             {[]string{"createdb shop 2>/dev/null => ok", "dropdb shop"}, grapnel.Block},
		"if not exists":              {[]string{"psql -c 'create database if not exists shop' => ok", "dropdb shop"}, grapnel.Block},
		"|| true":                    {[]string{"createdb shop || true => ok", "dropdb shop"}, grapnel.Block},
		"; true":                     {[]string{"createdb shop; true => ok", "dropdb shop"}, grapnel.Block},
		"piped":                      {[]string{"createdb shop | cat => ok", "dropdb shop"}, grapnel.Block},
		"not a program":              {[]string{"createdb() { true; }; createdb shop => ok", "dropdb shop"}, grapnel.Block},
		"through standard input":     {[]string{"echo 'create database shop' | psql => ok", "dropdb shop"}, grapnel.Block},
		"another name":               {[]string{"createdb shop => ok", "dropdb shop2"}, grapnel.Block},
		"another case":               {[]string{"createdb Shop => ok", "dropdb shop"}, grapnel.Block},
		"another host":               {[]string{"createdb -h localhost shop => ok", "dropdb -h db.prod shop"}, grapnel.Block},
		"another host by a variable": {[]string{"createdb shop => ok", "PGHOST=db.prod dropdb shop"}, grapnel.Block},
		"another port":               {[]string{"createdb shop => ok", "dropdb -p 5433 shop"}, grapnel.Block},
		"another container":          {[]string{"docker exec db createdb shop => ok", "docker exec other dropdb shop"}, grapnel.Block},
		"in no container":            {[]string{"docker exec db createdb shop => ok", "dropdb shop"}, grapnel.Block},
		"another directory":          {[]string{"docker compose exec db createdb shop => ok", "cd /srv/prod && docker compose exec db dropdb shop"}, grapnel.Block},
		"another family":             {[]string{"createdb shop => ok", "mysqladmin drop shop"}, grapnel.Block},
		"another one, too":           {[]string{"createdb shop => ok", "dropdb shop; dropdb b"}, grapnel.Block},
		"dropped":                    {[]string{"createdb shop => ok", "dropdb shop => ok", "dropdb shop"}, grapnel.Block},
		"dropped without a result":   {[]string{"createdb shop => ok", "dropdb shop", "dropdb shop"}, grapnel.Block},
		"dropped and created by no":  {[]string{"createdb shop => ok", "dropdb shop => ok", "createdb shop => failed:already exists", "dropdb shop"}, grapnel.Block},
		"reset that failed":          {[]string{"createdb shop => ok", "dropdb shop && createdb shop => failed:", "dropdb shop"}, grapnel.Block},
		"drop of what is gone":       {[]string{"createdb shop => ok", "dropdb shop => failed:database \"shop\" does not exist", "dropdb shop"}, grapnel.Block},
		"renamed":                    {[]string{"createdb shop => ok", "psql -c 'alter database shop rename to b; alter database prod rename to shop' => ok", "dropdb shop"}, grapnel.Block},
		"exported host":              {[]string{"createdb shop => ok", "export PGHOST=db.prod => ok", "dropdb shop"}, grapnel.Block},
		"forwarded port":             {[]string{"createdb -h localhost shop => ok", "ssh -fNL 5432:db:5432 prod => ok", "dropdb -h localhost shop"}, grapnel.Block},
		"dropped by an unknown name": {[]string{"createdb shop_a => ok", "dropdb shop_a \"$X\" => ok", "createdb shop_b", "dropdb shop_b"}, grapnel.Block},
		"another session":            {[]string{"createdb shop => ok", "dropdb shop"}, grapnel.Block},
	} {
		for _, ids := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", ids), func(t *testing.T) {
				t.Parallel()
				s, calls := newPastSession(t, guardDatabases), play.calls
				if name == "another session" {
					s.play(ids, calls[0])
					clear(s.counter)
					calls = calls[1:]
				}
				if got := s.play(ids, calls...); got != play.want {
					t.Errorf("got %v, want %v: %q", got, play.want, s.counter)
				}
				if got := s.play(ids, "git status => ok"); got != grapnel.None {
					t.Errorf("git status: %v", got)
				}
			})
		}
	}
}

// TestSessionDatabasesReported checks that a drop that is reported twice is free both times.
func TestSessionDatabasesReported(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"dropdb shop", "dropdb shop && createdb shop"} {
		s := newPastSession(t, guardDatabases)
		s.play(true, "createdb shop => ok")
		input, _ := json.Marshal(map[string]string{"command": line})
		tool := &grapnel.Tool{ID: "x", Name: "Bash", Class: grapnel.ClassShell, Input: input, Commands: []string{line}}
		for i := range 3 {
			if got := s.fire(tool); got != grapnel.None {
				t.Errorf("%s, report %d: %v", line, i, got)
			}
		}
		other := *tool
		other.ID = "y"
		if got := s.fire(&other); got != grapnel.Block {
			t.Errorf("%s, another call: %v", line, got)
		}
	}
}

// TestSessionDatabasesAreBounded checks that a number of databases is stored, without their names.
func TestSessionDatabasesAreBounded(t *testing.T) {
	t.Parallel()
	s := newPastSession(t, guardDatabases)
	for i := range 100 {
		s.play(true, fmt.Sprintf("createdb -h secret-host shop%d => ok", i))
	}
	for line, want := range map[string]grapnel.Decision{"dropdb -h secret-host shop99": grapnel.None, "dropdb -h secret-host shop0": grapnel.Block} {
		if got := s.shell(line); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
	for _, value := range s.counter {
		if len(value) > 16<<10 || strings.Contains(string(value), "secret-host") {
			t.Errorf("stored: %d bytes", len(value))
		}
	}
}

// TestSessionDatabasesDamaged checks that damaged facts are reported once, and make nothing free.
func TestSessionDatabasesDamaged(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"database\tx\n", "database\tx\tnew\n", "database\tx\tcreated\ty\t\t\t\t\t\n", "database\tx\tmade\t1\n"} {
		s := newPastSession(t, guardDatabases)
		s.play(true, "createdb shop => ok")
		for key := range s.counter {
			s.counter[key] = append(s.counter[key], line...)
		}
		if got := s.shell("dropdb shop"); got != grapnel.Block {
			t.Errorf("%q: %v", line, got)
		}
		if got := s.shell("createdb b"); got != grapnel.Ask {
			t.Errorf("%q: the next call: %v, want ask", line, got)
		}
	}
}

// TestSessionDatabasesLocked checks that a result does not wait for itself in a Counter with a lock.
func TestSessionDatabasesLocked(t *testing.T) {
	t.Parallel()
	s := newPastSession(t, guardDatabases)
	s.place = &counts.Memory{}
	if got := s.play(true, "createdb shop => ok", "dropdb shop && createdb shop => ok", "dropdb shop => failed:other users", "dropdb shop"); got != grapnel.None {
		t.Errorf("got %v", got)
	}
}
