package match

import (
	"slices"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/shell"
)

// The key `drops` looks at the databases that the commands of a line drop:
//
//	dropdb shop_test                   # test
//	createdb spike                     # in an earlier call, which succeeded
//	psql -c 'drop database spike'      # session
//	mysql -h db -e 'drop schema shop'  # other

// A dropClass is a kind of dropped database. A set of them is their sum.
type dropClass uint8

const (
	dropSession   dropClass = 1 << iota // the session made it
	dropTest                            // its name has the word test
	dropTemporary                       // its name has the letters of test, dev, tmp, scratch, local or demo
	dropUnknown                         // its name is computed
	dropOther                           // the rest; also a schema, a role, and everything on a server
)

var dropWords = []string{"session", "test", "temporary", "unknown", "other"}

// DropWords lists the words of the key drops.
func DropWords() []string { return slices.Clone(dropWords) }

func dropClasses(words []string) (set dropClass) {
	for i, word := range dropWords {
		if slices.Contains(words, word) {
			set |= 1 << i
		}
	}
	return set
}

func (c dropClass) words() (words []string) {
	for i, word := range dropWords {
		if c&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return words
}

// DatabaseKey returns a text that is the same for the same database: of one family, with the same name and the
// same connection. It returns "" if a part of this is not known.
func DatabaseKey(ev *grapnel.Event, d *shell.Database) string {
	if !d.Known || d.Name == "" || d.Server == "" {
		return ""
	}
	dir := ""
	if d.Here {
		dir = home.Absolute(d.Dir, ev.Session.CWD)
	}
	return strings.Join([]string{d.Family, d.Name, d.Server, dir}, "\x00")
}

// drops has the databases that the session of one event created, or the event itself.
type drops struct {
	created func(key string) bool
	lines   map[*shell.Script]map[string]int // by key: the first command of a line that creates it
}

func (f *Facts) drops() *drops {
	return f.keptDrops.get(func() *drops {
		d := &drops{created: func(string) bool { return false }, lines: map[*shell.Script]map[string]int{}}
		if f.session != nil {
			if past := f.session(f.Event); past.Created != nil {
				d.created = past.Created
			}
		}
		for _, script := range f.Scripts() {
			first := map[string]int{}
			for i := range script.Commands {
				for _, one := range script.Databases(i) {
					key := DatabaseKey(f.Event, &one)
					if _, known := first[key]; !known && one.Act == shell.Creates && one.Sure {
						first[key] = i
					}
				}
			}
			d.lines[script] = first
		}
		return d
	})
}

// dropsOf returns the classes of the databases that a command drops; 0 = none.
func (f *Facts) dropsOf(script *shell.Script, i int) (set dropClass) {
	list := script.Databases(i)
	for j := range list {
		if list[j].Act == shell.Drops {
			set |= f.dropClass(script, i, &list[j])
		}
	}
	return set
}

func (f *Facts) dropClass(script *shell.Script, i int, one *shell.Database) dropClass {
	switch {
	case !one.Known:
		return dropUnknown
	case one.Name == "":
		return dropOther
	}
	if key := DatabaseKey(f.Event, one); key != "" {
		d := f.drops()
		if first, ok := d.lines[script][key]; d.created(key) || ok && one.Sure && first < i {
			return dropSession
		}
	}
	name := strings.ToLower(one.Name)
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	switch {
	case slices.Contains(strings.FieldsFunc(name, separates), "test"):
		return dropTest
	case slices.ContainsFunc([]string{"test", "dev", "tmp", "scratch", "local", "demo"}, func(part string) bool { return strings.Contains(name, part) }):
		return dropTemporary
	}
	return dropOther
}

// fitsDrops reports whether a command drops a database of the classes of the match.
func (c *compiled) fitsDrops(f *Facts, script *shell.Script, i int) bool {
	set := f.dropsOf(script, i)
	if c.reading.strict() && script.SendsStatements(i) { // which may do anything else
		return false
	}
	if c.reading.every() {
		return set != 0 && set&^c.drops == 0
	}
	return set&c.drops != 0
}

// dropped returns the classes of the databases that the commands of a call drop.
func (f *Facts) dropped() []string {
	var set dropClass
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			set |= f.dropsOf(script, i)
		}
	}
	return set.words()
}

// droppedParts describes the commands that drop a database of the classes of the match.
func (c *compiled) droppedParts(f *Facts) (parts []string) {
	if c.drops == 0 {
		return nil
	}
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			if c.fitsCommand(f, script, i) {
				parts = append(parts, "drops "+strings.Join(f.dropsOf(script, i).words(), ", ")+": "+Shorten(script.Commands[i].String()))
			}
		}
	}
	return parts
}
