package shell

import (
	"cmp"
	"slices"
	"strings"
)

// A Database is what a command does with one database of a server, or with something that is as large: a
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

// An Act is what a command does with a database.
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

// Databases returns what the command with index i does with databases.
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
		list = s.states(c, &call)
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

// A feed is what a client reads besides its words.
type feed struct {
	texts []string // known texts
	more  bool     // and what is not known
}

// reads adds what the command reads.
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

// feedsClient records what a client of databases reads from its standard input.
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

// states reads the statements that a client sends.
func (s *Script) states(c *Command, call *clientCall) (list []Database) {
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
	if d, ok := call.states(c); ok {
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

// maxDatabases is the maximum number of databases of one command. What is beyond it is everything on the server.
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

// states returns the database that a client of PostgreSQL or MySQL creates, if it sends this statement only
// and fails with it. psql does not fail with a statement that it reads from its input.
func (call *clientCall) states(c *Command) (d Database, ok bool) {
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

// created returns the database of a text that is one CREATE DATABASE, without IF NOT EXISTS.
func created(text string, folds bool) (d Database, ok bool) {
	text = strings.TrimSuffix(strings.TrimSpace(text), ";")
	rest, ok := nextWord(text, "create")
	if !ok || strings.ContainsAny(text, ";\\#") || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return d, false
	}
	if rest, ok = nextWord(rest, "database"); !ok {
		return d, false
	}
	if _, exists := nextWord(rest, "if"); exists {
		return d, false
	}
	d, _ = databaseName(rest, folds)
	d.Act = Creates
	return d, d.Known && d.Name != ""
}

// statementTexts returns the texts of a word of a client that may be statements: DROP, --query=DROP, -Q"DROP".
func statementTexts(word string) []string {
	if !strings.HasPrefix(word, "-") {
		return []string{word}
	}
	_, value, _ := strings.Cut(word, "=")
	texts := []string{value}
	const most = 6 // letters of short options
	for i := 1; i < min(len(word), most) && letter(word[i]); i++ {
		texts = append(texts, word[i+1:])
	}
	return texts
}

// readStatements finds the statements of a text that drop or rename databases. raw means that the text is a
// line of a shell, in which quotes and programs that print come before a statement.
func readStatements(text string, raw, folds bool, add func(Database)) {
	for at := 0; at < len(text); {
		i := indexFold(text[at:], 'd', 'a')
		if i < 0 {
			return
		}
		at += i
		before, after := text[max(0, at-maxBefore):at], text[at:]
		at++
		if start := foldCase(after[:min(5, len(after))]); !strings.HasPrefix(start, "drop") && start != "alter" || !begins(before, raw) {
			continue
		}
		switch word, rest := cutWord(after); word {
		case "drop":
			dropped(rest, folds, add)
		case "alter":
			renamed(rest, folds, add)
		}
	}
}

// maxBefore is the number of bytes that are read before a word that may begin a statement.
const maxBefore = 256

// indexFold returns the index of the first of two letters, in either case, or -1.
func indexFold(text string, a, b byte) int {
	for i := range len(text) {
		if c := text[i] | 0x20; c == a || c == b {
			return i
		}
	}
	return -1
}

// large are the things in a server that are as large as a database.
const large = "schema keyspace warehouse user role owned measurement tablespace all"

// dropped reads the rest of a DROP.
func dropped(rest string, folds bool, add func(Database)) {
	kind, rest := cutWord(rest)
	switch {
	case has(large, kind):
		add(Database{Act: Drops, Known: true})
		return
	case kind != "database":
		return
	}
	if after, ok := nextWord(rest, "if"); ok {
		_, rest = cutWord(after) // exists
	}
	for {
		d, after := databaseName(rest, folds)
		d.Act = Drops
		add(d)
		after = skipBlank(after)
		if !strings.HasPrefix(after, ",") {
			return
		}
		rest = after[1:]
	}
}

// renamed reads the rest of an ALTER.
func renamed(rest string, folds bool, add func(Database)) {
	rest, ok := nextWord(rest, "database")
	if !ok {
		return
	}
	from, rest := databaseName(rest, folds)
	if rest, ok = nextWord(rest, "rename"); !ok {
		return
	}
	_, rest = cutWord(rest) // to
	to, _ := databaseName(rest, folds)
	from.Act, to.Act = Renames, Renames
	add(from)
	add(to)
}

// begins reports whether a statement may begin after a text.
func begins(before string, raw bool) bool {
	if before != "" && nameByte(before[len(before)-1]) {
		return false
	}
	blank := strings.TrimRight(before, " \t\r\n(")
	if blank == "" || strings.Contains(before[len(blank):], "\n") || strings.HasSuffix(blank, ";") || strings.HasSuffix(blank, "*/") {
		return true
	}
	if word, _ := lastWord(blank); word == "begin" {
		return true
	}
	if word, _ := lastWord(strings.TrimRight(blank, `'" `)); word == "execute" { // of dynamic statements
		return true
	}
	if !raw {
		return false
	}
	words := strings.Fields(strings.TrimRight(blank, "\"'`\\ \t"))
	for range 3 { // options, and a format of printf
		if len(words) == 0 {
			return true
		}
		last := words[len(words)-1]
		if has("echo printf <<<", strings.TrimLeft(last, "(`$")) || strings.HasSuffix(last, "<<<") {
			return true
		}
		if last = strings.Trim(last, `"'`); !strings.HasPrefix(last, "-") && !strings.HasPrefix(last, "%") {
			return false
		}
		words = words[:len(words)-1]
	}
	return false
}

// lastWord returns the word at the end of a text in lower case, and its index.
func lastWord(text string) (word string, at int) {
	at = len(text)
	for at > 0 && nameByte(text[at-1]) {
		at--
	}
	return foldCase(text[at:]), at
}

// cutWord returns the next word of a statement in lower case.
func cutWord(text string) (word, rest string) {
	text = skipBlank(text)
	n := 0
	for n < len(text) && nameByte(text[n]) {
		n++
	}
	return foldCase(text[:n]), text[n:]
}

// nextWord removes a word from the beginning of a statement.
func nextWord(text, word string) (rest string, ok bool) {
	got, rest := cutWord(text)
	return rest, got == word
}

// skipBlank removes blanks and comments from the beginning of a statement.
func skipBlank(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		switch {
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text, "*/")
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		default:
			return text
		}
	}
}

// databaseName reads a name. folds means that capital letters in a name without quotes are not significant.
func databaseName(text string, folds bool) (d Database, rest string) {
	text = skipBlank(text)
	if text != "" && strings.IndexByte("\"`[", text[0]) >= 0 {
		end := text[0]
		if end == '[' {
			end = ']'
		}
		name, rest, closed := strings.Cut(text[1:], string(end))
		d.Name, d.Known = name, closed && name != "" && !strings.HasPrefix(rest, string(end)) && !computedName(name)
		return d, rest
	}
	n := strings.IndexAny(text, " \t\r\n;,()\"'`\\")
	if n < 0 {
		n = len(text)
	}
	d.Name, d.Known = text[:n], !computedName(text[:n])
	if n < len(text) && n == 0 && text[0] != ';' { // a quote, a substitution
		d.Known = false
	}
	if folds {
		d.Name = strings.ToLower(d.Name)
	}
	return d, text[n:]
}

// computedName reports whether a name has a placeholder of a shell, a client or a program.
func computedName(name string) bool {
	return strings.ContainsAny(name, "$`{}%:?"+string(hole))
}

// anyServer is the name of variables that are not known, in Command.env.
const anyServer = "?"

// steersServer reports whether a variable changes with which server a client connects.
func steersServer(name string) bool {
	return has(anyServer+" PGHOST PGHOSTADDR PGPORT PGSERVICE PGSERVICEFILE PGSYSCONFDIR MYSQL_HOST MYSQL_TCP_PORT MYSQL_UNIX_PORT MYSQL_HOME MYSQL_GROUP_SUFFIX "+
		"MYSQL_TEST_LOGIN_FILE HOME PATH KUBECONFIG DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG COMPOSE_FILE COMPOSE_PROJECT_NAME", name)
}

// passesFailure reports whether a wrapper fails if its command does, by the name of its row.
func passesFailure(row string) bool {
	switch row {
	case "sudo", "doas", "env", "time", "timeout", "command", "nice", "docker exec", "docker container exec", "docker compose exec", "docker-compose exec", "kubectl exec", "ssh":
		return true
	}
	return false
}

// server returns the connection of a client, see Database, and whether its wrappers wait for it.
func (s *Script) server(c *Command, call *clientCall) (server string, here bool, dir string, waits bool) {
	var parts []string
	known, waits := true, true
	add := func(name string, value Word) {
		known = known && value.Literal && !value.glob
		parts = append(parts, name+"="+value.Text)
	}
	root := c
	for at := c.parent; at >= 0; at = root.parent {
		root = &s.Commands[at]
		if root.keepsEnvironment() {
			continue
		}
		words, ok, stays := root.wrapperWords()
		known, waits, here = known && ok, waits && stays, true
		for _, word := range words {
			add("by", word)
		}
	}
	for _, text := range root.env.list(steersServer) {
		parts, known = append(parts, text), known && strings.Contains(text, "=")
	}
	switch family(c.key) {
	case "postgres":
		placed := call.postgresServer(add)
		known = known && placed
	case "mysql":
		for _, o := range call.options {
			if has("host port socket protocol defaults-file defaults-extra-file defaults-group-suffix login-path no-defaults", o.Name) {
				add(o.Name, o.literalValue())
			}
		}
	default:
		known = false
	}
	if !known || call.open || here && root.Lost && !slices.ContainsFunc(c.Via, isAway) {
		return "", here, root.Dir, waits
	}
	slices.Sort(parts)
	return strings.Join(append(slices.Compact(parts), "."), "\n"), here, root.Dir, waits
}

// keepsEnvironment reports whether a wrapper cannot change the connection of its command.
func (c *Command) keepsEnvironment() bool {
	if !has("sh bash dash zsh", c.key) {
		return has("time timeout command nice", c.key)
	}
	return !slices.ContainsFunc(c.Args, func(w Word) bool { // a login shell reads files
		return !w.Literal || len(w.Text) > 1 && (w.Text[0] == '-' || w.Text[0] == '+') && w.Text != "-c" && w.Text != "-e" && w.Text != "-ec"
	})
}

// literalValue returns the value of an option; a missing one is an empty text.
func (o Option) literalValue() Word {
	if !o.Valued {
		return Word{Literal: true}
	}
	return o.Value
}

// wrapperWords returns the words of a wrapper before its command. ok = they are known, and stays = it waits
// for the command.
func (c *Command) wrapperWords() (words []Word, ok, stays bool) {
	row := rowOf(c.key)
	if row == nil || c.computed {
		return nil, false, false
	}
	rows := row.path(c.Args)
	last := rows[len(rows)-1]
	if !passesFailure(last.name) {
		return nil, false, false
	}
	words = append(words, Word{Text: c.Name, Literal: true})
	skip, stays := len(rows)-1+int(last.skip), true
	for s := (scanner{rows: rows, args: c.Args}); s.scan(); {
		switch {
		case s.kind == option:
			name := s.fullName()
			stays = stays && !has("d detach f fork b background", name)
			if !has("i interactive t tty T no-TTY it", name) {
				value := Option{Value: s.value, Valued: s.valued}.literalValue()
				value.Text = "-" + name + "=" + value.Text
				words = append(words, value)
			}
		case s.kind == open:
			return nil, false, stays
		case last.style&assigns != 0 && strings.IndexByte(s.certain(), '=') > 0, s.operands <= skip:
			words = append(words, s.word)
		default:
			return words, true, stays
		}
	}
	return words, true, stays
}

// postgresServer adds the words of a connection with PostgreSQL. It reports whether they are known.
func (call *clientCall) postgresServer(add func(name string, value Word)) (known bool) {
	var base []Word
	for _, o := range call.options {
		switch o.Name {
		case "host", "port", "maintenance-db":
			add(map[string]string{"host": "PGHOST", "port": "PGPORT"}[o.Name], o.literalValue())
		case "dbname":
			base = append(base, o.Value)
		}
	}
	if len(base) == 0 && len(call.operands) > 0 {
		base = call.operands[:1]
	}
	for _, word := range base {
		text := word.Text
		switch {
		case !word.Literal:
			return false
		case strings.Contains(text, "://"):
			if !urlServer(text, add) {
				return false
			}
		case strings.Contains(text, "="):
			for part := range strings.FieldsSeq(text) {
				name, value, _ := strings.Cut(part, "=")
				if strings.ContainsAny(part, `'\`) {
					return false
				}
				if !has("dbname user password", name) {
					add(cmp.Or(map[string]string{"host": "PGHOST", "port": "PGPORT"}[name], name), Word{Text: value, Literal: true})
				}
			}
		}
	}
	return true
}

// urlServer adds the host and the port of postgres://user:password@host:port/name. It reports whether the
// address has no other parts.
func urlServer(address string, add func(name string, value Word)) bool {
	_, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "/")
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if strings.ContainsAny(address, "?#%") || strings.ContainsAny(rest, "[],") {
		return false
	}
	host, port, ok := strings.Cut(rest, ":")
	if add("PGHOST", Word{Text: host, Literal: true}); ok {
		add("PGPORT", Word{Text: port, Literal: true})
	}
	return true
}

// Steers reports whether the line changes with which servers later clients connect: it sets variables, reads
// a file into the shell, or forwards a port.
func (s *Script) Steers() bool {
	if s.steers {
		return true
	}
	return slices.ContainsFunc(s.Commands, func(c Command) bool {
		word := func(texts string) bool {
			return slices.ContainsFunc(c.Args, func(w Word) bool { return has(texts, w.Text) })
		}
		switch c.key {
		case "kubectx", "kubens", "socat", "cloud-sql-proxy", "cloud_sql_proxy":
			return true
		case "gcloud", "aws", "az", "doctl":
			return word("get-credentials update-kubeconfig kubeconfig")
		case "ssh", "autossh":
			return slices.ContainsFunc(c.Args, func(w Word) bool {
				return len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-' && strings.ContainsAny(w.Text, "LRD")
			})
		case "docker", "podman":
			return word("context")
		case "kubectl", "oc":
			return word("port-forward config")
		case "fly", "flyctl", "turso":
			return word("proxy")
		}
		return false
	})
}
