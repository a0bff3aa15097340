package index

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// ValidText returns an error if the Text of a Query is invalid.
func ValidText(text string) error {
	_, err := matchOf(text)
	return err
}

// matching returns the lines that match the text of the Query, with the same result as in the index.
func (v *view) matching(ctx context.Context, lines []spool.Line) ([]spool.Line, error) {
	match, err := matchOf(v.q.Text)
	if err != nil {
		return nil, err
	}
	db, err := memory(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot search the log: %w", err)
	}
	defer db.Close()
	for i := range lines {
		text, err := wordsOf(&lines[i], v.State)
		if err == nil {
			_, err = db.ExecContext(ctx, "INSERT INTO words(rowid, text) VALUES (?,?)", i, text)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot search the log: %w", err)
		}
	}
	var list string
	var found []int
	if err := db.QueryRowContext(ctx, "SELECT json_group_array(rowid) FROM words WHERE words MATCH ?", match).Scan(&list); err != nil {
		return nil, fmt.Errorf("cannot search the log: %w", err)
	}
	if err := json.Unmarshal([]byte(list), &found); err != nil {
		return nil, fmt.Errorf("cannot search the log: %w", err)
	}
	slices.Sort(found)
	out := make([]spool.Line, len(found))
	for i, n := range found {
		out[i] = lines[n]
	}
	return out, nil
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

// wordsOf returns the searchable text of a line.
func wordsOf(line *spool.Line, dir string) (string, error) {
	e := &line.Entry
	event := line.Input()
	if e.InputAt != "" {
		whole, err := line.Whole(dir)
		if err != nil {
			return "", err
		}
		inlined, err := spool.Parse(journal.Line{Text: whole})
		if err != nil {
			return "", err
		}
		event = inlined.Input()
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
	add(string(e.Event), e.Tool, e.Agent, e.Error, e.Halt)
	for i := range e.Hooks {
		add(e.Hooks[i].Name, e.Hooks[i].Source, e.Hooks[i].Error)
	}
	for _, r := range e.Reasons {
		add(r.Text)
	}
	add(e.Unsupported...)
	addTexts(&b, event)
	return b.String(), nil
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
