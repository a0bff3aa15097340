package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/shell"
)

// The past of a session has the databases that it created, as digests. A creation that is announced only
// creates the database if its result arrives as a success: "createdb shop" also fails because another shop
// exists, which must not be dropped then. Uncertain facts are forgotten, so that a drop is judged as any
// other.

// maxDatabases is the maximum number of databases that are stored of a session. The oldest one is forgotten.
const maxDatabases = 64

// A pastDatabase is a database that a session created, or that a call is about to create.
type pastDatabase struct {
	Key   string // digest of its match.DatabaseKey
	State string // one of the states below

	// The call that was announced last, unless the state is made.
	At   time.Time
	Call call
	Did  [2]string // its callDigest as it came, and as hooks changed it
}

// The states of a database.
const (
	databaseMade    = "made"
	databaseCreated = "created" // a call creates it
	databaseAgain   = "again"   // a call drops the one that the session made, and creates it
	databaseDropped = "dropped" // a call drops the one that the session made
)

// databaseDeed is an action of a call on a database.
type databaseDeed struct {
	act shell.Act
	key string // as pastDatabase.Key; empty = any database
}

// fields of an encoded pastDatabase.
const (
	madeFields    = 3
	pendingFields = 9
)

func (d *pastDatabase) encode(b []byte) []byte {
	b = fmt.Appendf(b, "database\t%s\t%s", d.Key, d.State)
	if d.State != databaseMade {
		b = fmt.Appendf(b, "\t%d\t%s\t%s\t%s\t%s\t%s", d.At.UnixNano(), d.Call.ID, d.Call.Event, d.Call.What, d.Did[0], d.Did[1])
	}
	return append(b, '\n')
}

// readDatabase decodes the fields of a line.
func readDatabase(fields []string) (d pastDatabase, err error) {
	if len(fields) < madeFields {
		return d, errors.New("a database has too few fields")
	}
	d.Key, d.State = fields[1], fields[2]
	switch {
	case len(fields) == madeFields && d.State == databaseMade:
		return d, nil
	case len(fields) != pendingFields || !slices.Contains([]string{databaseCreated, databaseAgain, databaseDropped}, d.State):
		return d, errors.New("a database has the wrong fields")
	}
	at, err := strconv.ParseInt(fields[3], 10, 64)
	d.At, d.Did = time.Unix(0, at), [2]string{fields[7], fields[8]}
	d.Call.ID, d.Call.Event, d.Call.What = fields[4], fields[5], fields[6]
	return d, err
}

// created reports whether the session made a database and has not dropped it since. A call that drops it may
// be reported twice.
func (p *sessionPast) created(ev *grapnel.Event, past *pastFiles, key string) bool {
	i := past.database(shortDigest(key))
	if i < 0 {
		return false
	}
	d := &past.Databases[i]
	switch d.State {
	case databaseMade:
		return true
	case databaseAgain, databaseDropped:
		return p.now().Sub(d.At) < sameCall && callOf(ev).is(d.Call)
	}
	return false
}

func (f *pastFiles) database(key string) int {
	return slices.IndexFunc(f.Databases, func(d pastDatabase) bool { return d.Key == key })
}

// mayCreate reports whether a shell line may create a database.
func mayCreate(line string) bool {
	return strings.Contains(line, "createdb") ||
		(strings.Contains(line, "sql") || strings.Contains(line, "mariadb")) && strings.Contains(strings.ToLower(line), "create")
}

// mayChangeDatabases reports whether a shell line may create or drop a database by its own words.
func mayChangeDatabases(line string) bool {
	return mayCreate(line) || strings.Contains(strings.ToLower(line), "drop")
}

// databaseDeeds adds the actions of a call on databases.
func (d *deeds) databaseDeeds(ev *grapnel.Event, scripts []*shell.Script) {
	for _, script := range scripts {
		if script.Steers() { // the same words may mean another server from now on
			d.databases = append(d.databases, databaseDeed{act: shell.Drops})
		}
		for i := range script.Commands {
			for _, one := range script.Databases(i) {
				key := match.DatabaseKey(ev, &one)
				switch {
				case one.Known && one.Name == "": // a schema, a role
				case one.Act == shell.Creates:
					if key != "" && one.Sure && showsFailure(ev) {
						d.databases = append(d.databases, databaseDeed{shell.Creates, shortDigest(key)})
					}
				case key == "":
					if one.Family == "postgres" || one.Family == "mysql" {
						d.databases = append(d.databases, databaseDeed{act: shell.Drops})
					}
				default:
					d.databases = append(d.databases, databaseDeed{shell.Drops, shortDigest(key)})
				}
			}
		}
	}
}

// showsFailure reports whether the result of a call shows that a command of it failed: it is one line, the agent
// waits for it, and no message is redirected.
func showsFailure(ev *grapnel.Event) bool {
	if len(ev.Tool.Commands) != 1 || strings.Contains(ev.Tool.Commands[0], ">") {
		return false
	}
	var input map[string]any
	if json.Unmarshal(ev.Tool.Input, &input) != nil {
		return true
	}
	for name, value := range input {
		if strings.Contains(strings.ToLower(name), "background") && value != false {
			return false
		}
	}
	return true
}

// addDatabases adds the coming actions of an announced call on databases, and reports whether anything
// changed.
func (f *pastFiles) addDatabases(d *deeds, now time.Time) (changed bool) {
	pending := pastDatabase{At: now, Call: d.call, Did: d.did}
	for _, deed := range d.databases {
		if deed.key == "" {
			changed = changed || len(f.Databases) > 0
			f.Databases = nil
			continue
		}
		i := f.database(deed.key)
		state := ""
		if i >= 0 {
			state = f.Databases[i].State
		}
		own := i >= 0 && f.Databases[i].Call.ID == d.call.ID && f.Databases[i].Did == d.did
		switch {
		case deed.act == shell.Creates && state == databaseMade: // fails
			continue
		case deed.act == shell.Creates && own && state == databaseDropped:
			pending.State = databaseAgain
		case deed.act == shell.Creates:
			pending.State = databaseCreated
		case i < 0:
			continue
		case state == databaseMade || own && (state == databaseDropped || state == databaseAgain):
			pending.State = databaseDropped
		default:
			f.Databases, changed = slices.Delete(f.Databases, i, i+1), true
			continue
		}
		if pending.Key = deed.key; i >= 0 {
			f.Databases = slices.Delete(f.Databases, i, i+1)
		}
		f.Databases, changed = append(f.Databases, pending), true
	}
	f.Databases = f.Databases[max(0, len(f.Databases)-maxDatabases):]
	return changed
}

// awaits reports whether an event may be the result of a call that was announced. It reads nothing for lines
// that cannot create or drop a database.
func (p *sessionPast) awaits(ev *grapnel.Event) bool {
	if ev.Tool == nil || !slices.ContainsFunc(ev.Tool.Commands, mayChangeDatabases) {
		return false
	}
	past, ok := p.read(ev)
	return ok && slices.ContainsFunc(past.Databases, func(d pastDatabase) bool { return d.State != databaseMade })
}

// end records the result of a call. If that fails, the session did not create the database, and the next
// announced call reports the reason.
func (r *Recorder) end(ev *grapnel.Event) {
	e := r.ending(ev) // reads the past, so it must not wait for itself below
	_ = r.past.counter.Count(sessionOwner(ev), r.past.key(ev), func(kept []byte) ([]byte, time.Duration) {
		past, err := readPast(kept)
		if err != nil || !past.ended(&e) {
			return nil, 0
		}
		return past.encode(), keepPast
	})
}

// An ending is the result of a call.
type ending struct {
	call    call
	did     string // its callDigest
	created bool   // it created what it was about to create
	left    bool   // it did not drop what it was about to drop
}

func (r *Recorder) ending(ev *grapnel.Event) ending {
	facts := r.facts.Of(ev)
	return ending{callOf(ev), callDigest(ev), succeeded(ev, facts), onlyFailed(ev, facts)}
}

// ended adds the result of a call, and reports whether anything changed.
func (f *pastFiles) ended(e *ending) (changed bool) {
	left := f.Databases[:0]
	for _, d := range f.Databases {
		same := d.Call.ID == e.call.ID || d.Call.What == "" || e.call.What == "" // without What, the ID is one of the event
		if d.State == databaseMade || !same || !slices.Contains(d.Did[:], e.did) {
			left = append(left, d)
			continue
		}
		changed = true
		if e.created && d.State != databaseDropped || e.left && d.State == databaseDropped {
			left = append(left, pastDatabase{Key: d.Key, State: databaseMade})
		}
	}
	f.Databases = left
	return changed
}

// failures are words of messages of programs that failed, and of agents that did not
// wait for them.
var failures = []string{"exist", "error", "fail", "fatal", "denied", "could not", "couldn't", "cannot", "can't", "not found", "timed out", "timeout", "background", "running"}

// succeeded reports whether the result of a call certainly shows that all of its commands succeeded.
func succeeded(ev *grapnel.Event, facts *match.Facts) bool {
	if ev.Kind != grapnel.ToolAfter || facts.Failed() {
		return false
	}
	fine := true
	ev.Texts(grapnel.FieldOutput, func(text string) bool {
		for line := range strings.Lines(strings.ToLower(text)) {
			if strings.HasPrefix(line, "command: ") || strings.Contains(line, "(none)") { // Gemini CLI: "Error: (none)"
				continue
			}
			fine = fine && !slices.ContainsFunc(failures, func(word string) bool { return strings.Contains(line, word) })
		}
		return fine
	})
	return fine
}

// onlyFailed reports whether a call that does nothing but drop one database failed, so that the database still
// exists.
func onlyFailed(ev *grapnel.Event, facts *match.Facts) bool {
	scripts := facts.Scripts()
	return facts.Failed() && len(scripts) == 1 && len(scripts[0].Commands) == 1 && len(scripts[0].Databases(0)) == 1 &&
		!strings.Contains(strings.ToLower(string(ev.Tool.Output)), "not exist")
}
