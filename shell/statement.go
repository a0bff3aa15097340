package shell

import "strings"

// This file finds statements of SQL that create, drop or rename databases. It is not a parser of SQL: a statement
// is read only where one may begin.

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
