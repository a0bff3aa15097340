package secret

// The programs of the table are strings of these instructions. The expression of each rule is
// compiled to one ahead of time. Unlike a regular expression, a program never backtracks:
// expressions of fixed words and character runs do not need it.
const (
	opText     = 't' // length, bytes: exactly these bytes
	opFold     = 'f' // length, bytes in lower case: these bytes in any letter case
	opSet      = 's' // set, least, most (two bytes each): a run of bytes of a set
	opOneOf    = '|' // count, then the length and the program of each alternative: the first that matches
	opRepeat   = '*' // least, most (one byte each), length, program: a repetition
	opBegin    = '(' // begin of the secret
	opEnd      = ')' // end of the secret
	opBoundary = 'b' // between a letter, digit or _ and something else
	opInside   = 'B' // not opBoundary
	opLast     = '$' // the end of the text
)

// The values of most for no limit: unbounded for a set, anyTimes for a repetition.
const (
	unbounded = 0xffff
	anyTimes  = 0xff
)

// A set is a set of bytes, as a bit map.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// machine runs a program over a text.
type machine struct {
	text       string
	begin, end int // of the secret
	far        int // the largest offset reached
}

// start runs a program at an offset and reports whether it matches.
func (m *machine) start(prog string, at int) bool {
	m.begin, m.end = -1, -1
	end := m.run(prog, at)
	if end < 0 {
		return false
	}
	if m.end < 0 {
		m.begin, m.end = at, end
	}
	return m.begin < m.end
}

// run returns the end of the match, or -1.
//
//nolint:gocognit // the loop of a byte-code machine: a case per instruction, and calls would slow it down
func (m *machine) run(prog string, at int) int {
	text := m.text
	for pc := 0; pc < len(prog); {
		switch prog[pc] {
		case opText, opFold:
			n := int(prog[pc+1])
			want := prog[pc+2 : pc+2+n]
			if len(text)-at < n {
				return m.fail(at)
			}
			if prog[pc] == opText && text[at:at+n] != want || prog[pc] == opFold && !hasFold(text[at:], want) {
				return m.fail(at)
			}
			at += n
			pc += 2 + n
		case opSet:
			s := &sets[prog[pc+1]]
			least := int(prog[pc+2])<<8 | int(prog[pc+3])
			most := int(prog[pc+4])<<8 | int(prog[pc+5])
			stop := len(text)
			if most != unbounded && most < stop-at {
				stop = at + most
			}
			from := at
			for at < stop && s.has(text[at]) {
				at++
			}
			if at-from < least {
				return m.fail(at)
			}
			pc += 6
		case opOneOf:
			count, end := int(prog[pc+1]), -1
			pc += 2
			for ; count > 0; count-- {
				size := int(prog[pc])
				if end < 0 {
					end = m.run(prog[pc+1:pc+1+size], at)
				}
				pc += 1 + size
			}
			if end < 0 {
				return end
			}
			at = end
		case opRepeat:
			least, most, size := int(prog[pc+1]), int(prog[pc+2]), int(prog[pc+3])
			inner := prog[pc+4 : pc+4+size]
			n := 0
			for ; n < most || most == anyTimes; n++ {
				end := m.run(inner, at)
				if end <= at {
					break
				}
				at = end
			}
			if n < least {
				return m.fail(at)
			}
			pc += 4 + size
		case opBegin:
			m.begin = at
			pc++
		case opEnd:
			m.end = at
			pc++
		case opBoundary, opInside:
			edge := (at > 0 && wordByte(text[at-1])) != (at < len(text) && wordByte(text[at]))
			if edge != (prog[pc] == opBoundary) {
				return m.fail(at)
			}
			pc++
		case opLast:
			if at < len(text) {
				return m.fail(at)
			}
			pc++
		}
	}
	m.far = max(m.far, at)
	return at
}

func (m *machine) fail(at int) int {
	m.far = max(m.far, at)
	return -1
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
