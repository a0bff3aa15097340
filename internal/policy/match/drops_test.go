package match

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

func shellCall(line string) *grapnel.Event {
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{line}}}
	ev.Session.CWD = "/home/dev/shop"
	return ev
}

// TestDrops checks which databases lines drop, in a session that created the database spike.
func TestDrops(t *testing.T) {
	t.Parallel()
	made := DatabaseKey(shellCall(""), &shell.Parse("createdb -h db spike").Databases(0)[0])
	session := func(*grapnel.Event) SessionFiles {
		return SessionFiles{Created: func(key string) bool { return key == made }}
	}
	for line, want := range map[string]string{
		"dropdb -h db spike": "session", "dropdb spike": "other", "dropdb -h db spike2": "other", "psql -h db -c 'drop database spike'": "session", "mysqladmin -h db drop spike": "other",
		"PGHOST=db dropdb spike": "session", "docker exec x dropdb -h db spike": "other", "dropdb -h $X spike": "other", "export PGHOST=db; dropdb spike": "session", "source x; dropdb -h db spike": "other",
		"dropdb -h db spike; dropdb shop": "session other", "psql -h db -c 'drop database spike' -c 'drop database shop_test'": "session test",
		"dropdb test": "test", "dropdb shop_test": "test", "dropdb shop-test-7": "test", "dropdb TEST_shop": "test", "dropdb _test": "test", "dropdb shop_tests": "temporary", "dropdb contest": "temporary",
		"dropdb shop_dev": "temporary", "dropdb demo": "temporary", "dropdb tmp1": "temporary", "dropdb local": "temporary", "dropdb scratchpad": "temporary",
		"dropdb $DB": "unknown", "dropdb": "other", "dropdb shop": "other", "psql -c 'drop schema test'": "other", "psql -c 'drop role test'": "other", "psql -c 'select 1'": "", "createdb shop": "",
		"createdb x && dropdb x": "session", "createdb x && psql x -c 'select 1' && psql -c 'drop database x'": "session", "createdb x; dropdb x": "other", "createdb x && (false; dropdb x)": "session",
		"dropdb x && createdb x": "other", "createdb x || dropdb x": "other", "createdb -h a x && dropdb -h b x": "other", "createdb x -O \"$(dropdb x)\"": "other", "createdb x && dropdb x || true": "other",
	} {
		ev := shellCall(line)
		cache := func() *FactCache { return &FactCache{Session: session} }
		if got := strings.Join(cache().Of(ev).dropped(), " "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
		for _, class := range DropWords() {
			m, err := cache().Matcher(&policyfile.Match{Drops: []string{class}}, nil, "", Reading{})
			if err != nil {
				t.Fatal(err)
			}
			fits := slices.Contains(strings.Fields(want), class)
			if ok, err := m.Match(ev, nil); err != nil || ok != fits {
				t.Errorf("%s: drops %s: got %v, %v", line, class, ok, err)
			}
			if why := m.Explain(ev, nil); strings.Contains(why, "drops") != fits {
				t.Errorf("%s: drops %s: explained by %q", line, class, why)
			}
		}
	}
}

// TestDropsEvery checks exceptions and allows, for which each dropped database must have one of the classes.
func TestDropsEvery(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct{ blocked, allowed bool }{
		"dropdb a_test":                               {false, true},
		"dropdb a_test b":                             {true, false},
		"dropdb a_test; dropdb b":                     {true, false},
		"dropdb a_test && ls":                         {false, false},
		"psql -c 'drop database a_test'":              {false, false}, // a client can do anything else
		"dropdb \"$DB\"":                              {true, false},
		"psql -c 'drop database a_test; drop role a'": {true, false},
	} {
		ev := shellCall(line)
		guard, err := (&FactCache{}).Matcher(&policyfile.Match{Command: []string{"dropdb", "psql"}}, []policyfile.Match{{Drops: []string{"test"}}}, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := guard.Match(ev, nil); err != nil || got != want.blocked {
			t.Errorf("%s: blocked %v, %v", line, got, err)
		}
		pass, err := (&FactCache{}).Matcher(&policyfile.Match{Drops: []string{"test"}}, nil, "", Reading{Allow: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pass.Match(ev, nil); err != nil || got != want.allowed {
			t.Errorf("%s: allowed %v, %v", line, got, err)
		}
	}
}
