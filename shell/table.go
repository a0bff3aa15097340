package shell

import (
	"cmp"
	"sort"
	"strings"
)

// A program is one row of the table: how to read the words of one program, and what these words
// run. Lists are words separated by blanks. In a list of options a word of one character is a
// short option, a longer one a long option.
type program struct {
	name string // the program, or the program and its subcommand: "git push"

	style style
	runs  runs
	words uint8 // how many leading words of a pattern are the subcommand; 0: all of them
	skip  uint8 // operands before the command that the program runs

	args     string // options that take an argument
	attached string // options with an optional argument, which must be attached: -i.bak
	flags    string // names for the same option: "f=force D=delete+force"
	longs    string // other options without an argument

	alias   string // names for the same subcommand: "i=install"
	implied string // operands that mean an option: "+=force", by first character, and "/=force" also for files; see scanner.implied
	line    string // options with a shell line as argument; for runsFind, with a command
	none    string // options with which the program runs no command
	open    string // options with which it reads commands if it has no command argument; "*": always, "fed": if it has input
	does    string // words that run something in addition to its command: "option=kind", "1=kind" for the first operand, "*=kind" for all; see walker.does
	files   string // words that are files: "option=use", "1=use", "*=use" for operands, "$=use" for the last; see fileNone
}

type style uint16

const (
	flat     style = 1 << iota // no subcommands: every word of a pattern is an operand
	shortens                   // long options may be abbreviated
	dashed                     // long options begin with one dash
	early                      // options end at the first operand
	global                     // the program's options may follow the subcommand
	plus                       // a first word +x is an option (cargo +nightly)
	typed                      // operands may be written type/name (kubectl)
	assigns                    // NAME=value words may come before the command
	settled                    // no options after the first skipped operand
	mixed                      // an operand may be the command or a user (runuser)
	anyCase                    // the case of options does not matter (cmdlets)
)

type runs byte

const (
	runsNothing runs = iota
	runsCommand      // the words after its options
	runsLine         // those words, joined into a shell line
	runsShell        // a shell: -c, a script, or standard input
	runsEnv          // env: -S
	runsXargs
	runsParallel
	runsFind
	runsTrap
	runsAlias
	runsSource
	runsInput // commands on standard input
	runsCode  // a program in another language: -c, a file, or standard input
	runsTmux
	runsCrontab
	runsMake
	runsPowerShell
	runsCmd
	runsRemoveItem
	evaluates // evaluates its words as arithmetic, which may run commands
)

// find returns the index of a name in the table, and whether the table has it.
func find(name string) (int, bool) {
	return sort.Find(len(table), func(i int) int { return strings.Compare(name, table[i].name) })
}

// lookup returns the row of a program, or nil.
func lookup(name string) *program {
	i, ok := find(name)
	if !ok {
		same, known := sort.Find(len(sameAs), func(i int) int { return strings.Compare(name, sameAs[i].name) })
		if !known {
			return nil
		}
		if i, ok = find(sameAs[same].as); !ok {
			return nil
		}
	}
	return &table[i]
}

// rowOf is lookup, but also returns the row of python3 for python3.12.
func rowOf(name string) *program {
	row := lookup(name)
	if n := len(name); row == nil && n > 0 && name[n-1] >= '0' && name[n-1] <= '9' {
		row = lookup(strings.TrimRight(name, "0123456789.-"))
	}
	return row
}

// branches reports whether a program has rows for subcommands. They come directly after its own
// row, because a blank sorts before every other character of a name.
func (p *program) branches() bool {
	i, ok := find(p.name)
	return ok && i+1 < len(table) && len(table[i+1].name) > len(p.name) &&
		table[i+1].name[len(p.name)] == ' ' && table[i+1].name[:len(p.name)] == p.name
}

// Rows for programs and subcommands that are not in the table. anyProgram is for programs,
// anyShortens for subcommands of a program with the style shortens, anySubcommand for all other
// subcommands.
var (
	anyProgram    = &program{}
	anySubcommand = &program{}
	anyShortens   = &program{style: shortens}
)

// branch returns the row of a subcommand.
func (p *program) branch(word string) *program {
	if row := lookup(p.name + " " + p.canonical(word)); row != nil {
		return row
	}
	if p.style&shortens != 0 {
		return anyShortens
	}
	return anySubcommand
}

// canonical returns the first name of a subcommand that has several names.
func (p *program) canonical(word string) string {
	if p.style&typed != 0 {
		word, _, _ = strings.Cut(word, "/")
	}
	return cmp.Or(get(p.alias, word), word)
}

// takes reports whether an option takes an argument, and whether the table knows the option.
func (p *program) takes(name string) (arg, known bool) {
	switch {
	case has(p.args, name):
		return true, true
	case p.complete(name):
		return false, true
	case len(name) > 1 && p.style&shortens != 0 && lengthen(p.args, name) != "":
		return true, true
	}
	return false, false
}

// full returns the complete name of an option that may be abbreviated.
func (p *program) full(name string, short bool) string {
	if short || p.style&shortens == 0 || p.complete(name) {
		return name
	}
	for _, list := range [...]string{p.args, p.attached, p.open, p.none} {
		if long := lengthen(list, name); long != "" {
			return long
		}
	}
	return name
}

// complete reports whether the row lists an option by exactly this name, so that the name is not
// an abbreviation.
func (p *program) complete(name string) bool {
	return has(p.args, name) || has(p.attached, name) || has(p.longs, name) || get(p.flags, name) != "" || valueOf(p.flags, name)
}

// has reports whether a list contains a word.
func has(list, word string) bool {
	for list != "" {
		var w string
		if w, list, _ = strings.Cut(list, " "); w == word {
			return true
		}
	}
	return false
}

// get returns the value of key in a list of key=value.
func get(list, key string) string {
	for list != "" {
		var w string
		w, list, _ = strings.Cut(list, " ")
		if len(w) > len(key) && w[len(key)] == '=' && w[:len(key)] == key {
			return w[len(key)+1:]
		}
	}
	return ""
}

// valueOf reports whether name is one of the values in a list of key=a+b.
func valueOf(list, name string) bool {
	for list != "" {
		var w string
		w, list, _ = strings.Cut(list, " ")
		_, w, _ = strings.Cut(w, "=")
		for w != "" {
			var v string
			if v, w, _ = strings.Cut(w, "+"); v == name {
				return true
			}
		}
	}
	return false
}

// lengthen returns the first long option in a list that begins with name.
func lengthen(list, name string) string {
	for list != "" {
		var w string
		if w, list, _ = strings.Cut(list, " "); len(w) > 1 && strings.HasPrefix(w, name) {
			return w
		}
	}
	return ""
}
