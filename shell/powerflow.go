package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A pipeline of PowerShell hands files from one command to the next:
//
//	Get-ChildItem src -Recurse | Where-Object Extension -eq .cs | Remove-Item
//
// A flow is the output of a command, as far as rm needs to know it.
type flow struct {
	items  []codePath
	known  bool
	chosen bool // by a condition that is not about names, such as the age
}

// maxFlows is the maximum number of variables with files that are remembered.
const maxFlows = 32

// handOn updates the output of the pipeline after a command.
func (l *foreignLine) handOn(words []foreignWord) {
	variable := ""
	if len(words) > 2 && strings.HasPrefix(words[0].text, "$") && words[1].text == "=" {
		variable, words = words[0].text, words[2:]
	}
	switch cmdlet := cmdletOf(words[0]); {
	case has("get-childitem gci ls dir", cmdlet):
		l.flow = l.children(words[1:])
	case has("get-item gi resolve-path rvpa", cmdlet):
		l.flow = flow{items: named(words[1:]), known: true}
	case l.piped && has("where-object where ?", cmdlet):
		l.flow = l.flow.where(words[1:])
	case l.piped && has("sort-object sort select-object select tee-object", cmdlet):
		l.flow.chosen = l.flow.chosen || slices.ContainsFunc(words, func(a foreignWord) bool { return has("-first -last -skip -index", foldCase(a.text)) })
	case cmdlet == "join-path" && len(words) == 3 && !words[2].computed:
		l.flow = l.value(words[1]).below(slashed(words[2].text))
	case len(words) == 1:
		l.flow = l.value(words[0])
	default:
		l.flow = flow{}
	}
	if variable != "" {
		l.setFlow(variable, l.flow)
	}
}

func cmdletOf(program foreignWord) string {
	name := foldCase(programName(program.text))
	return cmp.Or(get(powerAliases, name), name)
}

// setFlow records the files in a variable.
func (l *foreignLine) setFlow(variable string, f flow) {
	if l.flows == nil {
		l.flows = map[string]flow{}
	}
	if len(l.flows) < maxFlows {
		l.flows[foldCase(strings.TrimPrefix(variable, "$"))] = f
	}
}

// removing returns the words of Remove-Item with the files that it gets from a pipe or a variable. It leaves
// out files that a condition chose, such as their age: those are a few, as with rm of names.
func (l *foreignLine) removing(words []foreignWord) []foreignWord {
	if cmdletOf(words[0]) != "remove-item" {
		return words
	}
	list, operands := words[:1:1], 0
	add := func(f flow) {
		for _, p := range f.items {
			list = append(list, foreignWord{text: p.text, file: &p})
			if p.deep && p.only == nil {
				list = append(list, foreignWord{text: "-Recurse"})
			}
		}
	}
	value := false // of an option that takes no file
	for _, a := range words[1:] {
		if value {
			list, value = append(list, a), false
			continue
		}
		value = has("-filter -include -exclude -stream -credential -erroraction -ea", foldCase(a.text))
		if a.computed && !strings.HasPrefix(a.text, "-") {
			if f := l.value(a); f.chosen {
				return words[:1]
			} else if f.known {
				operands++
				add(f)
				continue
			}
		}
		if strings.IndexByte(a.text+"-", '-') != 0 {
			operands++
		}
		list = append(list, a)
	}
	if l.piped && operands == 0 || l.piped && l.flow.chosen {
		if l.flow.chosen {
			return words[:1]
		}
		add(l.flow)
	}
	return list
}

// below returns the entries of the directories of a flow with a name.
func (f flow) below(name string) flow {
	f.items = slices.Clone(f.items)
	for i := range f.items {
		if p := &f.items[i]; p.deep {
			p.only = []string{name}
		} else {
			p.text = path.Join(p.text, name)
		}
	}
	return f
}

// value returns the value of a word of one expression: $_, $_.FullName, a variable, or a command in
// parentheses.
func (l *foreignLine) value(a foreignWord) flow {
	switch name := foldCase(strings.TrimLeft(a.text, `"`)); {
	case a.flow.known:
		return a.flow
	case strings.HasPrefix(name, "$"):
		name, _, _ = strings.Cut(strings.Trim(name, `"{}$`), ".")
		if name == "_" || name == "psitem" {
			return l.pipe
		}
		return l.flows[name]
	}
	return flow{}
}

// A listing is a call of Get-ChildItem.
type listing struct {
	dirs, names []string
	recurse     bool
}

// children returns the files that Get-ChildItem lists.
func (l *foreignLine) children(args []foreignWord) flow {
	list, known := l.listing(args)
	f := flow{known: known}
	for _, dir := range list.dirs {
		parent, name := path.Split(dir)
		if !strings.ContainsAny(name, "*?[") || strings.Trim(name, "*") == "" {
			dir = cmp.Or(strings.TrimSuffix(strings.TrimSuffix(dir, "*"), "/"), ".")
			f.items = append(f.items, list.below(dir, list.names)...)
			continue
		}
		f.items = append(f.items, list.below(cmp.Or(strings.TrimSuffix(parent, "/"), "."), []string{name})...) // src\*.cs
	}
	return f
}

// below returns the files of a directory with some names; nil = all.
func (list *listing) below(dir string, names []string) []codePath {
	files := codePath{text: at(dir, "*"), glob: true}
	if list.recurse {
		files = codePath{text: dir, deep: true}
	}
	return restrict([]codePath{files}, names)
}

// listing reads the words after Get-ChildItem. It returns false if a directory is not known.
func (l *foreignLine) listing(args []foreignWord) (list listing, known bool) {
	positional := 0
	next := &list.dirs
	for i := 0; i < len(args); i++ {
		if text := foldCase(args[i].text); strings.HasPrefix(text, "-") && !args[i].quoted {
			switch name := text[1:]; {
			case name == "s" || strings.HasPrefix("recurse", name):
				list.recurse = true
			case name == "fi" || strings.HasPrefix("filter", name) && len(name) > 2 || strings.HasPrefix("include", name):
				next = &list.names
			case has("exclude depth attributes erroraction ea ev errorvariable", name):
				i++
			}
			continue
		}
		word := l.powerWord(args[i])
		place, temporary := temporaryPath(args[i])
		if !word.Literal && !temporary {
			return listing{}, false
		}
		if next == &list.dirs {
			if positional++; positional > 1 {
				next = &list.names
			}
		}
		for piece := range strings.SplitSeq(cmp.Or(place, word.Text), ",") {
			if piece = strings.TrimSpace(piece); piece != "" {
				*next = append(*next, strings.TrimSuffix(piece, "/"))
			}
		}
		next = &list.dirs
	}
	if list.dirs == nil {
		list.dirs = []string{"."}
	}
	return list, true
}

// named returns the files that are named by words.
func named(args []foreignWord) (list []codePath) {
	for _, a := range args {
		for piece := range strings.SplitSeq(a.text, ",") {
			if piece = slashed(strings.TrimSpace(piece)); piece != "" && piece[0] != '-' && !a.computed {
				list = append(list, codePath{text: piece, glob: strings.ContainsAny(piece, "*?")})
			}
		}
	}
	return list
}

// where restricts a flow by a condition: about a name, about the kind of a file, or about something else.
func (f flow) where(words []foreignWord) flow {
	pieces := make([]string, 0, len(words))
	for _, a := range words {
		pieces = append(pieces, a.text)
	}
	text := strings.Join(pieces, " ")
	low := foldCase(text)
	var names []string
	switch {
	case strings.Contains(low, "-not") || strings.Contains(low, "-ne ") || strings.Contains(low, "notlike") || strings.Contains(low, "notin") || strings.Contains(low, "notmatch"):
		return f // all others
	case strings.Contains(low, "extension"), strings.Contains(low, "name"):
		for _, piece := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n{}(),'\"", r) }) {
			switch {
			case strings.ContainsAny(piece[:1], "$-@.") && (len(piece) < 2 || piece[0] != '.'), strings.EqualFold(piece, "name"), strings.EqualFold(piece, "extension"), strings.EqualFold(piece, "fullname"):
			case strings.Contains(low, "extension"):
				names = append(names, "*"+piece)
			case strings.Contains(low, "-match"):
				names = append(names, "*"+strings.Trim(piece, `^$\.*`)+"*")
			default:
				names = append(names, piece)
			}
		}
	case strings.Contains(low, "psiscontainer"), strings.Contains(low, "exists"):
		return f
	default:
		f.chosen = true
		return f
	}
	f.items = restrict(slices.Clone(f.items), names)
	return f
}
