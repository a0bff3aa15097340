package shell

import (
	"slices"
	"strings"
)

// A Database is the action of a command on one database of a server, or on something that is as large: a
// schema, a role, a keyspace.
type Database struct {
	Act    Act
	Family string // "postgres", "mysql", or another client
	Name   string // empty = no database, or everything on the server
	Known  bool   // the name is known

	// Server is the connection, in a form that is the same for the same words. It is empty if a part of
	// it is not known. Here means that it also depends on the working directory, which is Dir as in
	// Command.Dir: the files of docker compose are there.
	Server string
	Here   bool
	Dir    string

	// Sure means that the command runs only if all commands before it succeeded, and that the line
	// fails if the command does. Only with it, the success of a line says that it created a database.
	Sure bool
}

// An Act is a kind of action on a database.
type Act int

const (
	Creates Act = iota // certainly a new one: not with IF NOT EXISTS
	Drops              // or, without a name, all that a server or a list has
	Renames            // from or to this name
)

// DatabasePrograms are the programs that create and drop databases.
func DatabasePrograms() []string {
	return slices.Concat([]string{"createdb", "dropdb", "pg_dropcluster", "mysqladmin", "mariadb-admin"}, clients[:])
}

// clients are the programs that send statements to a server, in the order of their names.
var clients = [...]string{
	"beeline", "bq", "clickhouse", "clickhouse-client", "cockroach", "cqlsh", "duckdb", "heroku", "hive", "impala-shell", "influx", "mariadb", "mongo", "mongosh", "mycli",
	"mysql", "pgcli", "presto", "psql", "snowsql", "sqlcmd", "sqlite", "sqlite3", "sqlplus", "supabase", "trino", "turso", "usql", "wrangler",
}

func isClient(program string) bool {
	_, found := slices.BinarySearch(clients[:], program)
	return found
}

// family returns the family of a program's databases, or "".
func family(program string) string {
	switch program {
	case "createdb", "dropdb", "pg_dropcluster", "psql", "pgcli":
		return "postgres"
	case "mysqladmin", "mariadb-admin", "mysql", "mariadb", "mycli":
		return "mysql"
	}
	if isClient(program) {
		return program
	}
	return ""
}

// Databases returns the actions of the command with index i on databases.
func (s *Script) Databases(i int) []Database {
	s.databasesOnce.Do(func() {
		s.databases = make([][]Database, len(s.Commands))
		for i := range s.Commands {
			s.databases[i] = s.databasesOf(&s.Commands[i])
		}
	})
	return s.databases[i]
}

func (s *Script) databasesOf(c *Command) (list []Database) {
	kind := family(c.key)
	if kind == "" || c.help || c.computed {
		return nil
	}
	call := c.clientCall()
	switch c.key {
	case "pg_dropcluster":
		list = []Database{{Act: Drops, Known: true}}
	case "createdb":
		list = call.creates()
	case "dropdb":
		list = call.drops()
	case "mysqladmin", "mariadb-admin":
		list = call.administers()
	default:
		list = s.sent(c, &call)
	}
	if list == nil {
		return nil
	}
	server, here, dir, waits := s.server(c, &call)
	if isClient(c.key) && call.reconnects(c) {
		server = ""
	}
	for j := range list {
		d := &list[j]
		d.Family, d.Server, d.Here, d.Dir = kind, server, here, dir
		d.Sure = c.sure && waits && strings.IndexByte(c.Path, '/') < 0
		if !d.Known && slices.ContainsFunc(c.Via, func(via string) bool { return has("xargs parallel", via) }) {
			d.Name, d.Known = "", true // all names of a list
		}
	}
	return list
}

// SendsStatements reports whether the command with index i is a client that sends any statements to a server.
func (s *Script) SendsStatements(i int) bool { return isClient(s.Commands[i].key) }

// A feed is the input of a client besides its words.
type feed struct {
	texts []string // known texts
	more  bool     // and what is not known
}

// reads adds the files that the command reads.
func (c *Command) reads(f feed) {
	all := c.fed()
	c.feed = &feed{append(slices.Clip(all.texts), f.texts...), all.more || f.more}
}

func (c *Command) fed() feed {
	if c.feed == nil {
		return feed{}
	}
	return *c.feed
}

// feedsClient records the standard input of a client of databases.
func (w *walker) feedsClient(c *Command, at *place) {
	if text, known := w.fedText(at); known {
		c.reads(feed{texts: []string{text}})
	} else if at.from != nil || slices.ContainsFunc(at.stdin, feeds) || w.elsewhere || w.s.Language != "" {
		c.reads(feed{more: true})
	}
}

// A clientCall is a command of a client, with its words as the client reads them.
type clientCall struct {
	options  []Option
	operands []Word
	open     bool // a computed word may be any number of options and operands
}

func (c *Command) clientCall() (call clientCall) {
	name := c.key
	switch name {
	case "pgcli":
		name = "psql"
	case "mycli":
		name = "mysql"
	case "mariadb-admin":
		name = "mysqladmin"
	}
	row := lookup(name)
	if row == nil {
		row = anyProgram
	}
	for s := (scanner{rows: []*program{row}, args: c.Args, late: true}); s.scan(); {
		switch s.kind {
		case option:
			call.options = append(call.options, Option{s.fullName(), s.value, s.valued})
		default:
			call.open = call.open || s.kind == open
			call.operands = append(call.operands, s.word)
		}
	}
	return call
}

// values returns the values of the options with one of the names.
func (call *clientCall) values(names string) (values []Word) {
	for _, o := range call.options {
		if has(names, o.Name) {
			values = append(values, o.Value)
		}
	}
	return values
}

// creates reads the operands of createdb: a name, and a comment.
func (call *clientCall) creates() []Database {
	if n := len(call.operands); call.open || n == 0 || n > 2 || !sureName(call.operands[0]) {
		return nil
	}
	return []Database{{Act: Creates, Name: call.operands[0].Text, Known: true}}
}

func (call *clientCall) drops() (list []Database) {
	for _, word := range call.operands {
		list = append(list, Database{Act: Drops, Name: word.Text, Known: sureName(word)})
	}
	if list == nil {
		list = []Database{{Act: Drops, Known: true}}
	}
	return list
}

// administers reads the commands of mysqladmin, whose names may be shortened.
func (call *clientCall) administers() (list []Database) {
	for i, word := range call.operands {
		text, after := foldCase(word.Text), call.operands[i+1:]
		switch {
		case len(text) > 1 && strings.HasPrefix("drop", text):
			one := clientCall{operands: after[:min(1, len(after))]}
			list = append(list, one.drops()...)
		case text == "create" && i == 0 && len(after) == 1 && sureName(after[0]) && len(call.values("f force")) == 0:
			list = append(list, Database{Act: Creates, Name: after[0].Text, Known: true})
		}
	}
	return list
}

// sureName reports whether a word is a name with no other value.
func sureName(w Word) bool { return w.Literal && !w.glob && w.Text != "" }

// sent reads the statements that a client sends.
func (s *Script) sent(c *Command, call *clientCall) (list []Database) {
	folds := family(c.key) == "postgres"
	add := addTo(&list)
	for _, word := range c.Args {
		for _, text := range statementTexts(word.code()) {
			readStatements(text, false, folds, add)
		}
		if word.c != nil && word.c.feed != nil {
			readStatements(*word.c.feed, false, folds, add)
		}
	}
	for _, text := range c.fed().texts {
		readStatements(text, false, folds, add)
	}
	if c.fed().more {
		for _, d := range s.anyStatements() {
			add(d)
		}
	}
	if d, ok := call.createsByStatement(c); ok {
		list = append(list, d)
	}
	return list
}

// reconnects reports whether a client may send its statements to another server than its options name: by
// \connect, by a file, or by an input that is not known.
func (call *clientCall) reconnects(c *Command) bool {
	texts := slices.Clone(c.fed().texts)
	for _, word := range c.Args {
		texts = append(texts, word.Text)
	}
	return c.fed().more || len(call.values("f file")) > 0 || slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, `\`) || strings.Contains(foldCase(text), "connect ")
	})
}

// maxDatabases is the maximum number of databases of one command. A command with more is judged as if it
// dropped everything on the server.
const maxDatabases = 32

// addTo returns a function that adds a database to a list.
func addTo(list *[]Database) func(Database) {
	return func(d Database) {
		if *list = append(*list, d); len(*list) > maxDatabases {
			*list = append((*list)[:maxDatabases-1], Database{Act: Drops, Known: true})
		}
	}
}

// anyStatements returns the statements in any text of the line, for clients whose input is not known.
func (s *Script) anyStatements() []Database {
	if !s.stated {
		s.stated = true
		for _, text := range append([]string{s.line}, s.ran...) {
			readStatements(text, true, false, addTo(&s.statements))
		}
	}
	return s.statements
}

// createsByStatement returns the database that a client of PostgreSQL or MySQL creates, if it sends this statement only
// and fails with it. psql does not fail with a statement that it reads from its input.
func (call *clientCall) createsByStatement(c *Command) (d Database, ok bool) {
	var texts []string
	options := "c command"
	switch c.key {
	case "psql":
	case "mysql", "mariadb":
		options = "e execute"
		texts = slices.Clone(c.fed().texts)
	default:
		return d, false
	}
	if call.open || c.fed().more || len(call.values("f file force init-command")) > 0 {
		return d, false
	}
	for _, word := range call.values(options) {
		if !word.Literal {
			return d, false
		}
		texts = append(texts, word.Text)
	}
	if len(texts) != 1 {
		return d, false
	}
	return created(texts[0], c.key == "psql")
}
