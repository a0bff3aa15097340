package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Words are indexed after the commits, because indexing in the same commit would make it several
// times longer. The index is updated when nothing is written for a moment, and never misses more
// than maxBehind rows. Rows that are not indexed yet are searched without it, so that search
// results are always complete.
const (
	indexBatch = 128      // rows, so that a Put waits a few milliseconds at most
	maxBehind  = 32 << 10 // rows; a text search reads them itself in at most a second
)

// index adds the words of a batch of rows to the index.
func (s *Store) index() {
	if s.base == nil {
		s.behind = 0 // until a new database is open
		return
	}
	n := 0
	err := s.base.transaction(func() (err error) {
		n, err = s.base.indexNext()
		return err
	})
	s.behind -= int64(n)
	switch {
	case broken(err):
		if err := s.mend(err); err != nil {
			s.opts.Note(err)
		}
	case err != nil || n < indexBatch:
		s.behind = 0 // any remaining rows are indexed after the next Put
	}
}

// forgetWords empties the index. SQLite prepares its statements again.
func (b *base) forgetWords() error {
	return b.transaction(func() error {
		if err := b.exec("DROP TABLE IF EXISTS words"); err != nil {
			return err
		}
		if err := b.exec(wordsTable); err != nil {
			return err
		}
		return b.exec("UPDATE indexed SET seq = 0")
	})
}

// wordsTable creates the index, as the first migration does.
const wordsTable = "CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2')"

// indexNext indexes the next batch and returns the number of rows that it read.
func (b *base) indexNext() (n int, err error) {
	var last int64
	if _, err := b.row("SELECT seq FROM indexed", nil, &last); err != nil {
		return 0, err
	}
	stmt, err := b.stmt("SELECT seq, line FROM line WHERE seq > ? ORDER BY seq LIMIT ?")
	if err != nil {
		return 0, err
	}
	rows, err := stmt.QueryContext(b.ctx, last, indexBatch)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var raw sql.RawBytes
		if err := rows.Scan(&last, &raw); err != nil {
			return 0, err
		}
		if err := b.run("INSERT INTO words(rowid, text) VALUES (?,?)", last, wordsOf(raw)); err != nil {
			return 0, err
		}
		n++
	}
	if err := rows.Err(); err != nil || n == 0 {
		return 0, err
	}
	return n, b.run("UPDATE indexed SET seq = ?", last)
}

// wordsOf returns the searchable text of a line.
func wordsOf(raw []byte) string {
	l, err := parse(raw)
	if err != nil {
		return ""
	}
	var b strings.Builder
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" {
				b.WriteString(text)
				b.WriteByte('\n')
			}
		}
	}
	add(string(l.Event), l.Tool, l.Agent, l.Error, l.Halt)
	for i := range l.Hooks {
		add(l.Hooks[i].Name, l.Hooks[i].Source, l.Hooks[i].Error)
	}
	for _, r := range l.Reasons {
		add(r.Text)
	}
	add(l.Unsupported...)
	addTexts(&b, l.event)
	return b.String()
}

// addTexts adds the strings and numbers of valid JSON, without the names of members.
func addTexts(b *strings.Builder, raw []byte) {
	for t := range rawjson.Tokens(raw) {
		switch c := t.Kind; {
		case c == '"':
			text, ok := rawjson.Unquote(raw[t.Begin:t.End])
			if !ok {
				continue
			}
			b.WriteString(text)
		case c == '-' || c >= '0' && c <= '9':
			b.Write(bytes.TrimPrefix(raw[t.Begin:t.End], []byte("-"))) // a sign is not a part of a word
		default:
			continue
		}
		b.WriteByte('\n')
	}
}

// matchOf converts a search of the user to the query language of the index, in which other
// characters have a special meaning.
func matchOf(text string) (string, error) {
	var terms []string
	for rest := text; rest != ""; {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		var term string
		begins := false
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			term, rest, _ = strings.Cut(quoted, `"`)
		} else {
			end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if end < 0 {
				end = len(rest)
			}
			term, rest = rest[:end], rest[end:]
			term, begins = strings.CutSuffix(term, "*")
		}
		// A word without letters or digits is not in the index and would match nothing.
		if !strings.ContainsFunc(term, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			continue
		}
		term = `"` + strings.ReplaceAll(strings.ReplaceAll(term, `"`, " "), "\x00", " ") + `"`
		if begins {
			term += "*"
		}
		terms = append(terms, term)
	}
	if len(terms) == 0 {
		return "", fmt.Errorf("no word to search for in %q", text)
	}
	return strings.Join(terms, " "), nil
}

// fresh searches the rows that are not indexed yet, and returns them as a JSON list. It uses a
// temporary index, so that the matches are the same.
func (v *view) fresh(match string) (string, error) {
	var from int64
	if _, err := v.row("SELECT seq FROM indexed", nil, &from); err != nil {
		return "", err
	}
	var db *sql.DB
	err := v.each("SELECT seq, line FROM line WHERE seq > ? ORDER BY seq", []any{from}, func(scan func(into ...any) error) error {
		var seq int64
		var raw sql.RawBytes
		if err := scan(&seq, &raw); err != nil {
			return err
		}
		if db == nil {
			var err error
			if db, err = memory(v.ctx); err != nil {
				return err
			}
		}
		_, err := db.ExecContext(v.ctx, "INSERT INTO words(rowid, text) VALUES (?,?)", seq, wordsOf(raw))
		return err
	})
	if db == nil {
		return "[]", err
	}
	defer db.Close()
	if err != nil {
		return "", err
	}
	var found string
	err = db.QueryRowContext(v.ctx, "SELECT json_group_array(rowid) FROM words WHERE words MATCH ?", match).Scan(&found)
	return found, err
}

// memory opens an empty database in memory, for a temporary index.
func memory(ctx context.Context) (*sql.DB, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have its own database
	_, err = db.ExecContext(ctx, "CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
