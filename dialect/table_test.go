package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// The tables of all dialects are only read by the tables' own code. A misspelled word in them
// would be a member that is never read or written.
func TestTablesAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		for _, err := range checkIn(d.In) {
			t.Errorf("%s: In: %s", d.Name, err)
		}
		for i := range d.Events {
			row := &d.Events[i]
			for _, err := range checkIn(d.In + " " + row.In) {
				t.Errorf("%s: %s: In: %s", d.Name, row.Native, err)
			}
			contract := row.Contract
			if contract == nil {
				contract = contractOf(row.Kind)
			}
			for _, err := range checkOut(row.Out, contract, d.Finish != nil) {
				t.Errorf("%s: %s: Out: %s", d.Name, row.Native, err)
			}
		}
		for _, err := range checkOut(d.Blind, contractOf(grapnel.ToolBefore), d.Finish != nil) {
			t.Errorf("%s: Blind: %s", d.Name, err)
		}
		for _, p := range each(d.Exits) {
			if _, err := strconv.Atoi(p.member); err != nil || p.arg != "" || p.word != "block" && p.word != "halt" {
				t.Errorf("%s: Exits: %+v, want CODE=block or CODE=halt", d.Name, p)
			}
		}
	}
}

// An error in a table is detected.
func TestTablesAreChecked(t *testing.T) {
	t.Parallel()
	contract := contractOf(grapnel.ToolBefore)
	for _, table := range []string{"a=session.di", "a", "=session.id", "a=session.id:x", "<a=session.id", "a..b=session.id", "a=session.id a=session.id"} {
		if checkIn(table) == nil {
			t.Errorf("In %q is found to be right", table)
		}
	}
	for _, table := range []string{
		"a=blok:x reason=reason", "a=block reason=reason", "a=block:x", "a=reason:x", "a=reason:allow", "a=context:x", "a=native", "a=native:x", "a=event b=message", "a.b=event c.d=message", "a.b=context a=message", "a=message a.b=context",
		"a=response", "halt", "exit=block:no stderr=reason", "a.stdout=context", "a=context a=context", "a.=message", "=message", "a=change b=tool.input",
	} {
		if checkOut(table, contract, false) == nil {
			t.Errorf("Out %q is found to be right", table)
		}
	}
}

func checkIn(table string) (errs []string) {
	var seen []pairing
	for _, p := range each(table) {
		switch {
		case p.member == "" || p.heard:
			errs = append(errs, fmt.Sprintf("%+v is not MEMBER=PLACE", p))
		case !hasPlace(p.word):
			errs = append(errs, "there is no place "+p.word)
		case !slices.Contains([]string{"", "text", "list", "ms"}, p.arg):
			errs = append(errs, p.word+":"+p.arg+" means nothing")
		}
		errs = append(errs, checkPath(p, seen, false)...)
		seen = append(seen, p)
	}
	return errs
}

func hasPlace(name string) (ok bool) {
	defer func() { ok = recover() == nil }()
	place(&grapnel.Event{}, name)
	return true
}

// checkPath checks that a member is not paired twice with one word, and that a written member
// is not both a value and an object with members.
func checkPath(p pairing, seen []pairing, written bool) (errs []string) {
	if slices.Contains(strings.Split(p.member, "."), "") && p.member != "" {
		errs = append(errs, fmt.Sprintf("%q has a part without a name", p.member))
	}
	for _, q := range seen {
		if p == q {
			errs = append(errs, fmt.Sprintf("%+v stands there twice", p))
		}
		if written && (strings.HasPrefix(p.member, q.member+".") && q.member != "" || strings.HasPrefix(q.member, p.member+".") && p.member != "") {
			errs = append(errs, fmt.Sprintf("%s and %s cannot both have a value", p.member, q.member))
		}
	}
	return errs
}

func checkOut(table string, contract *grapnel.Contract, finished bool) (errs []string) {
	var written, heard []pairing
	for _, p := range each(table) {
		bad := func(why string) { errs = append(errs, fmt.Sprintf("%+v %s", p, why)) }
		field := contract != nil && slices.ContainsFunc(contract.Changes, func(c grapnel.Change) bool { return c.Field == grapnel.Field(p.word) })
		switch p.word {
		case "block", "ask", "allow":
			if (p.member == "") != (p.arg == "") {
				bad("has a member and nothing to write there, or the reverse")
			}
		case "native":
			if p.member == "" || typeNamed(p.arg) == "" {
				bad("has no member, or no type")
			}
		case "change":
			if p.member == "" || p.arg == "" {
				bad("has no member, or nothing to write there")
			}
		case "halt":
			if p.member == "" {
				bad("has no member")
			}
		case "reason", "feedback", "context", "message", "event":
			if p.member == "" || p.arg != "" && (p.word != "reason" || p.arg != "block" && p.arg != "ask") {
				bad("has no member, or a case that it does not know")
			}
		default:
			if !field || p.member == "" || p.arg != "" {
				bad("is no word, or nothing that the event may change")
			}
		}
		name := p.member[strings.LastIndexByte(p.member, '.')+1:]
		if slices.Contains([]string{"stdout", "stderr", "exit"}, name) && name != p.member {
			bad("is JSON with the name of what a program has beside it")
		}
		if _, err := strconv.Atoi(p.arg); p.member == "exit" && err != nil {
			bad("is no exit code")
		}
		of := &written
		if p.heard {
			of = &heard
		}
		errs = append(errs, checkPath(p, *of, !p.heard)...)
		*of = append(*of, p)
	}
	has := func(is func(pairing) bool) bool { return slices.ContainsFunc(written, is) }
	for _, p := range written {
		parent := p.member[:max(strings.LastIndexByte(p.member, '.'), 0)]
		beside := has(func(q pairing) bool { return q.word != "event" && strings.HasPrefix(q.member, parent+".") })
		if p.word == "event" && (parent == "" || !beside) {
			errs = append(errs, p.member+": a name of the event stands beside what is told, in an object")
		}
		if p.word == "block" && p.member != "" && !finished && !has(func(q pairing) bool { return q.word == "reason" || q.word == "feedback" }) {
			errs = append(errs, "a block has no reason")
		}
	}
	return errs
}
