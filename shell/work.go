package shell

// The budget of one call of Parse, in steps of about 10 ns. It limits text that is read more than
// once: lines inside the line, bodies of functions and aliases, values of variables. The
// outermost line itself is always read to its end, so a plain command after an expensive one is
// still found. Text that is skipped for the budget is reported in Script.Unknown.
const (
	workBase    = 4 << 20
	workPerByte = 64
	maxWork     = 16 << 20

	stepsPerStmt = 32 // to walk one statement
	stepsPerByte = 4  // to parse one byte
	stepsPerFold = 8  // to resolve one byte of a document with computed pieces
	stepsPerWord = 64 // to examine one word of a command: for its program, its files and patterns
	stepsPerTrim = 4 << 10

	fewWords = 16 // a command with at most this many words is always recorded
)

// maxExpanding is the maximum nesting of functions and aliases that are expanded.
const maxExpanding = 16

// The maximum number of commands at which nested lines are still read, and at which parts of the
// line are read again. The rest of maxCommands is reserved for the outermost line.
const (
	maxInside = maxCommands / 2
	maxReread = maxCommands / 4
)

const tooMuchWork = "unparsable: too much to read again"

// budget returns the steps that a line of n bytes may cost.
func budget(n int) int { return min(workBase+n*workPerByte, maxWork) }

// spend adds steps to the work done. If the budget is used up, it returns false and the caller
// must skip the work.
func (w *walker) spend(steps int) bool {
	if w.work > w.budget {
		w.limited(tooMuchWork)
		return false
	}
	w.work += steps
	return true
}

// must spends steps on work that the outermost line always needs. It returns false only for a part
// of the line that is read again.
func (w *walker) must(steps int, at *place) bool {
	if at.depth > 0 || w.subst > 0 || w.expanding > 0 {
		return w.spend(steps)
	}
	w.work += steps
	return true
}

// again reports whether a part of the line may be read again.
func (w *walker) again() bool {
	if len(w.s.Commands) < maxReread && w.spend(stepsPerStmt) {
		return true
	}
	w.limited(tooMuchWork)
	return false
}

// limited adds the reason unknown for a limit that was reached. Such a reason is never one of the
// usual reasons.
func (w *walker) limited(reason string) {
	mild := w.mild
	w.mild = false
	w.unknown(reason)
	w.mild = mild
}

// spendWords spends one step for each byte of a value.
func (w *walker) spendWords(words []string) bool {
	n := len(words)
	for _, word := range words {
		n += len(word)
	}
	return w.spend(n)
}
