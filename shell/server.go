package shell

import (
	"cmp"
	"slices"
	"strings"
)

// This file finds out with which server a client of databases connects.

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
