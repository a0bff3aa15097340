package secret

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// This test generates the table from the two files of rules:
//
//	go test ./internal/policy/secret -update

var update = flag.Bool("update", false, "rewrite table.go")

const tableFile = "table.go"

var ruleFiles = []string{filepath.Join("..", "..", "..", "packs", "secrets.toml"), "records.toml"}

// A written rule is a rule in one of the files.
type written struct {
	ID, Description, Regex string
	Entropy                float64
	Keywords, Tags         []string
	loose                  bool
}

func readRules(t testing.TB) []written {
	t.Helper()
	var all []written
	for i, name := range ruleFiles {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Title string
			Rules []written
		}
		dec := toml.NewDecoder(bytes.NewReader(data))
		if err := dec.DisallowUnknownFields().Decode(&file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range file.Rules {
			r.loose = i > 0
			all = append(all, r)
		}
	}
	return all
}

// maker compiles expressions to programs.
type maker struct {
	sets []set
	err  error
}

func (m *maker) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

func (m *maker) set(runes []rune) byte {
	var s set
	for i := 0; i+1 < len(runes); i += 2 {
		for r := runes[i]; r <= min(runes[i+1], 127); r++ {
			s[r>>6] |= 1 << (r & 63)
		}
		if runes[i+1] == 0x10ffff { // all others: then every byte of their encoding
			s[2], s[3] = ^uint64(0), ^uint64(0)
		}
	}
	for i := range m.sets {
		if m.sets[i] == s {
			return byte(i)
		}
	}
	m.sets = append(m.sets, s)
	return byte(len(m.sets) - 1)
}

func (m *maker) prog(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return ""
	case syntax.OpLiteral:
		text, op := string(re.Rune), byte(opText)
		if re.Flags&syntax.FoldCase != 0 {
			text, op = strings.ToLower(text), opFold
		}
		return string([]byte{op, byte(len(text))}) + text
	case syntax.OpCharClass, syntax.OpAnyCharNotNL:
		return m.run(re, 1, 1)
	case syntax.OpQuest:
		return m.repeat(re.Sub[0], 0, 1)
	case syntax.OpStar:
		return m.repeat(re.Sub[0], 0, -1)
	case syntax.OpPlus:
		return m.repeat(re.Sub[0], 1, -1)
	case syntax.OpRepeat:
		return m.repeat(re.Sub[0], re.Min, re.Max)
	case syntax.OpCapture:
		return string(rune(opBegin)) + m.prog(re.Sub[0]) + string(rune(opEnd))
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(m.prog(sub))
		}
		return b.String()
	case syntax.OpAlternate:
		out := string([]byte{opOneOf, byte(len(re.Sub))})
		for _, sub := range re.Sub {
			out += m.sized(m.prog(sub))
		}
		return out
	case syntax.OpWordBoundary:
		return string(rune(opBoundary))
	case syntax.OpNoWordBoundary:
		return string(rune(opInside))
	case syntax.OpEndText:
		return string(rune(opLast))
	}
	m.fail("%s (%v) has no instruction", re, re.Op)
	return ""
}

func (m *maker) sized(prog string) string {
	if len(prog) > 255 {
		m.fail("a part of the expression is too long")
	}
	return string([]byte{byte(len(prog))}) + prog
}

func (m *maker) repeat(re *syntax.Regexp, least, most int) string {
	if re.Op == syntax.OpCharClass || re.Op == syntax.OpLiteral && len(re.Rune) == 1 {
		return m.run(re, least, most)
	}
	if most < 0 {
		most = anyTimes
	}
	return string([]byte{opRepeat, byte(least), byte(most)}) + m.sized(m.prog(re))
}

func (m *maker) run(re *syntax.Regexp, least, most int) string {
	runes := re.Rune
	if re.Op == syntax.OpLiteral {
		runes = []rune{re.Rune[0], re.Rune[0]}
		if re.Flags&syntax.FoldCase != 0 {
			lower, upper := []rune(strings.ToLower(string(re.Rune))), []rune(strings.ToUpper(string(re.Rune)))
			runes = []rune{upper[0], upper[0], lower[0], lower[0]}
		}
	}
	if most < 0 {
		most = unbounded
	}
	if most > unbounded || least > most {
		m.fail("%d to %d is too much", least, most)
	}
	return string([]byte{opSet, m.set(runes), byte(least >> 8), byte(least), byte(most >> 8), byte(most)})
}

// back returns the minimum and maximum number of bytes between the start of a match and the word,
// from a tag.
func (w written) back(t testing.TB) [2]uint8 {
	for _, tag := range w.Tags {
		of, ok := strings.CutPrefix(tag, "back:")
		switch {
		case !ok:
		case of == "option":
			return [2]uint8{0, toOption}
		default:
			least, most, two := strings.Cut(of, "-")
			if !two {
				most = least
			}
			a, err1 := strconv.Atoi(least)
			b, err2 := strconv.Atoi(most)
			if err1 != nil || err2 != nil || b >= toOption {
				t.Fatalf("%s: tag %q", w.ID, tag)
			}
			return [2]uint8{uint8(a), uint8(b)}
		}
	}
	return [2]uint8{}
}

func (w written) check(t testing.TB) string {
	name := "none"
	for _, tag := range w.Tags {
		if of, ok := strings.CutPrefix(tag, "check:"); ok {
			name = of
		} else if !strings.HasPrefix(tag, "back:") {
			t.Errorf("%s: tag %q", w.ID, tag)
		}
	}
	if !slices.Contains(checkNames, name) {
		t.Fatalf("%s: there is no check %q", w.ID, name)
	}
	parts := strings.Split(name, "-")
	for i := range parts {
		parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
	}
	return "check" + strings.Join(parts, "")
}

var checkNames = []string{
	"none", "random", "mixed", "cases", "digits", "crc", "jwt", "address", "basic", "password", "option", "token",
	"letters-digits", "literal", "assigned", "assigned-random", "flag",
}

func makeTable(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintln(&b, "// Code generated by go test ./internal/policy/secret -update; DO NOT EDIT.\n\npackage secret")
	m := &maker{}
	rules := readRules(t)
	fmt.Fprintf(&b, "\n// precise is how many rules come before those for Records.\nconst precise = %d\n", slices.IndexFunc(rules, func(r written) bool { return r.loose }))
	fmt.Fprintf(&b, "\n// table holds the rules. What says more of a secret stands before what says less.\nvar table = [...]rule{\n")
	for _, r := range rules {
		re, err := syntax.Parse(r.Regex, syntax.Perl)
		if err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		prog := m.prog(re)
		if m.err != nil {
			t.Fatalf("%s: %v", r.ID, m.err)
		}
		fmt.Fprintf(&b, "\t{id: %q, prog: %q", r.ID, prog)
		if r.Entropy > 0 {
			fmt.Fprintf(&b, ", entropy: %d", int(r.Entropy*10+0.5))
		}
		if c := r.check(t); c != "checkNone" {
			fmt.Fprintf(&b, ", check: %s", c)
		}
		if back := r.back(t); back != [2]uint8{} {
			fmt.Fprintf(&b, ", back: [2]uint8{%d, %d}", back[0], back[1])
		}
		if r.loose {
			fmt.Fprint(&b, ", loose: true")
		}
		fmt.Fprintln(&b, "},")
	}
	fmt.Fprintln(&b, "}\n\nvar sets = [...]set{")
	for _, s := range m.sets {
		fmt.Fprintf(&b, "\t{%#x, %#x, %#x, %#x},\n", s[0], s[1], s[2], s[3])
	}
	fmt.Fprintln(&b, "}")
	list := []word{{}} // index 0 is not used
	var first [len(heads)]uint16
	for i, r := range slices.Backward(rules) { // so that chains contain the rules in order
		for _, k := range r.Keywords {
			k = strings.ToLower(k)
			if len(k) < 3 {
				t.Fatalf("%s: keyword %q is shorter than three bytes", r.ID, k)
			}
			at := place(uint32(k[0]|0x20) | uint32(k[1]|0x20)<<8 | uint32(k[2]|0x20)<<16)
			list = append(list, word{k, uint8(i), first[at]})
			first[at] = uint16(len(list) - 1)
		}
	}
	fmt.Fprintln(&b, "\nvar wordTable = [...]word{\n\t{},")
	for _, w := range list[1:] {
		fmt.Fprintf(&b, "\t{%q, %d, %d},\n", w.text, w.rule, w.next)
	}
	fmt.Fprintln(&b, "}\n\nvar heads = [2048]uint16{")
	for at, n := range first {
		if n > 0 {
			fmt.Fprintf(&b, "\t%d: %d,\n", at, n)
		}
	}
	fmt.Fprintln(&b, "}")
	out, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) > 255 {
		t.Fatalf("%d rules are more than the table can number", len(rules))
	}
	return out
}

// The table has the same content as the files of rules.
func TestTable(t *testing.T) {
	want := makeTable(t)
	if *update {
		if err := os.WriteFile(tableFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not made from the rules as they are now: go test ./internal/policy/secret -update", tableFile)
	}
}

// Other programs can read the files: IDs are unique and expressions are valid RE2.
func TestRuleFiles(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range readRules(t) {
		if seen[r.ID] {
			t.Errorf("the rule %s stands twice", r.ID)
		}
		seen[r.ID] = true
		if _, err := regexp.Compile(r.Regex); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
		if r.Description == "" && !r.loose {
			t.Errorf("%s has no description", r.ID)
		}
	}
	if len(seen) < 120 {
		t.Errorf("only %d rules", len(seen))
	}
}
