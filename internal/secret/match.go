package secret

// The programs of the table are strings of these instructions. An expression of a rule
// becomes one ahead of time. It never takes back what it read, as an expression would:
// what is made of fixed words and runs of letters needs no second try.
const (
	opText     = 't' // length, bytes: as they stand
	opFold     = 'f' // length, bytes in lower case: in any letter case
	opSet      = 's' // set, least, most (two bytes each): so many bytes of a set
	opOneOf    = '|' // count, then the length and the program of each: the first that fits
	opRepeat   = '*' // least, most (one byte each), length, program: so many times
	opBegin    = '(' // here the secret begins
	opEnd      = ')' // and here it ends
	opBoundary = 'b' // between a letter, digit or _ and something else
	opInside   = 'B' // the opposite
	opLast     = '$' // the end of the text
)

// unbounded as the most of a set is no bound; anyTimes as that of a repeat is none.
const (
	unbounded = 0xffff
	anyTimes  = 0xff
)

// A set is which bytes belong to it.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// machine runs a program over a text.
type machine struct {
	text       string
	begin, end int // of the secret
	far        int // how far it has read
}

// start runs a program from a place, and reports whether it fits.
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

// run returns where the text that fits ends, or -1.
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
