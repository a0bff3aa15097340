package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions in this file find the parts of JSON without decoding it. Except for ValidMembers,
// they do not validate: for valid JSON the results are exact, and for any other input they stop at
// the first place where they cannot continue, and never panic. They do not allocate, except for
// the names of members. The parts share the memory of the input.

// SkipSpace returns the index of the first byte at or after i that is not white space.
func SkipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// SkipString returns the index after the string whose opening quote is at i, or -1 if the string
// has no end.
func SkipString(raw []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for raw[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// SkipValue returns the index after the value that begins at i, or -1 if no value begins there or
// the value has no end. It does not recurse, so deep nesting uses no stack.
func SkipValue(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			if i = SkipString(raw, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return -1
			}
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue // the first value may still follow
		default:
			i = skipWord(raw, i)
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// skipWord returns the index after the number or literal that begins at i.
func skipWord(raw []byte, i int) int {
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '{', '}', '[', ']', ',', ':', '"', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

// IsObject reports whether raw, apart from white space, begins like an object.
func IsObject(raw []byte) bool {
	i := SkipSpace(raw, 0)
	return i < len(raw) && raw[i] == '{'
}

// A Token is raw[Begin:End]. Kind is the token's first byte, or ':' for the name of a member.
type Token struct {
	Kind       byte
	Begin, End int
}

// Tokens yields the brackets, strings, numbers and literals of a JSON value at any depth, in their
// order. It ends before a string that has no end.
func Tokens(raw []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for i := 0; i < len(raw); {
			t := Token{raw[i], i, i + 1}
			switch t.Kind {
			case ',', ':', ' ', '\t', '\n', '\r':
				i++
				continue
			case '{', '}', '[', ']':
			case '"':
				if t.End = SkipString(raw, i); t.End < 0 {
					return
				}
				if next := SkipSpace(raw, t.End); next < len(raw) && raw[next] == ':' {
					t.Kind = ':'
				}
			default:
				t.End = skipWord(raw, i)
			}
			if !yield(t) {
				return
			}
			i = t.End
		}
	}
}

// Inside walks the object or array whose opening bracket is at i. It calls visit with the name of
// each member as written, quotes included, or nil in an array, and with the index at which the
// value begins. visit returns the index after the value, or -1 to stop. A visit that calls Inside
// for nested values makes one pass over all of them.
//
// Inside returns the index after the closing bracket. It returns -1 if visit stopped it or if the
// object or array is malformed outside of its values. The members before that place were visited.
func Inside(raw []byte, i int, visit func(name []byte, begin int) (end int)) (end int) {
	object, shut := raw[i] == '{', raw[i]+2 // in ASCII, the closing bracket is two after the opening one
	if i = SkipSpace(raw, i+1); i < len(raw) && raw[i] == shut {
		return i + 1
	}
	for i < len(raw) {
		var name []byte
		if object {
			if name, i = nameAt(raw, i); name == nil {
				return -1
			}
		}
		if i == len(raw) {
			return -1
		}
		if end = visit(name, i); end < 0 {
			return -1
		}
		switch i = SkipSpace(raw, end); {
		case i == len(raw):
		case raw[i] == shut:
			return i + 1
		case raw[i] != ',':
			return -1
		default:
			i = SkipSpace(raw, i+1)
		}
	}
	return -1
}

// nameAt returns the name of a member that begins at i, and the index of its value; nil = malformed.
func nameAt(raw []byte, i int) (name []byte, value int) {
	if raw[i] != '"' {
		return nil, i
	}
	end := SkipString(raw, i)
	if end < 0 {
		return nil, i
	}
	colon := SkipSpace(raw, end)
	if colon == len(raw) || raw[colon] != ':' {
		return nil, i
	}
	return raw[i:end:end], SkipSpace(raw, colon+1)
}

// A Member is a member of an object, or an element of an array, which has no name.
type Member struct {
	Name   string
	Quoted []byte // the name as written, quotes included
	Value  json.RawMessage
}

// Members calls yield with the members of an object or the elements of an array, in their order,
// duplicates too. It reports whether raw is an object or array up to its end. Other values have no
// members, and of a malformed object or array yield gets those before the error.
func Members(raw []byte, yield func(Member)) (complete bool) {
	return eachMember(raw, SkipValue, yield)
}

// ValidMembers is like [Members], and reports whether raw is a valid object or array by the rules
// of json.Valid, which include the nesting limit. It needs one pass for both: most of a large
// payload is the content of a file, and json.Valid alone takes longer than all other work on it.
func ValidMembers(raw []byte, yield func(Member)) (valid bool) {
	return eachMember(raw, func(raw []byte, i int) int { return validValue(raw, i, maxNesting-1) }, yield)
}

// eachMember does the work of Members. skip returns the index after the value that begins at i, or
// -1 if it is malformed.
func eachMember(raw []byte, skip func(raw []byte, i int) int, yield func(Member)) (complete bool) {
	i := SkipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' && raw[i] != '[' {
		return false
	}
	end := Inside(raw, i, func(name []byte, begin int) int {
		m, ok := Member{Quoted: name}, true
		if name != nil {
			m.Name, ok = Unquote(name)
		}
		end := skip(raw, begin)
		if !ok || end < 0 {
			return -1
		}
		m.Value = raw[begin:end:end]
		yield(m)
		return end
	})
	return end >= 0 && SkipSpace(raw, end) == len(raw)
}

// maxNesting is the nesting limit of encoding/json.
const maxNesting = 10_000

// validValue returns the index after the valid value that begins at i, or -1. levels is how many
// objects and arrays may be open inside of each other.
func validValue(raw []byte, i, levels int) int {
	switch raw[i] {
	case '{', '[':
		if levels == 0 {
			return -1
		}
		return Inside(raw, i, func(name []byte, begin int) int {
			if name != nil && validString(name, 0) < 0 {
				return -1
			}
			return validValue(raw, begin, levels-1)
		})
	case '"':
		return validString(raw, i)
	case 't':
		return validWord(raw, i, "true")
	case 'f':
		return validWord(raw, i, "false")
	case 'n':
		return validWord(raw, i, "null")
	}
	return validNumber(raw, i)
}

func validWord(raw []byte, i int, word string) int {
	if !bytes.HasPrefix(raw[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

func validNumber(raw []byte, i int) int {
	digits := func(i int) int { // returns the index after one or more digits, or -1
		begin := i
		for i < len(raw) && raw[i] >= '0' && raw[i] <= '9' {
			i++
		}
		if i == begin {
			return -1
		}
		return i
	}
	if raw[i] == '-' {
		i++
	}
	begin := i
	if i = digits(i); i < 0 || raw[begin] == '0' && i > begin+1 {
		return -1
	}
	if i < len(raw) && raw[i] == '.' {
		if i = digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(raw) && (raw[i] == 'e' || raw[i] == 'E') {
		if i++; i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		return digits(i)
	}
	return i
}

// validString returns the index after the valid string whose opening quote is at i, or -1.
func validString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			size := validEscape(raw[i+1:])
			if size == 0 {
				return -1
			}
			i += size
		}
	}
	return -1
}

// validEscape returns the length of the escape after a backslash; 0 = invalid.
func validEscape(raw []byte) int {
	switch {
	case len(raw) == 0:
		return 0
	case raw[0] != 'u':
		return min(1, int(unescapeByte(raw[0])))
	case len(raw) > 4 && isHex(raw[1]) && isHex(raw[2]) && isHex(raw[3]) && isHex(raw[4]):
		return 5
	}
	return 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
