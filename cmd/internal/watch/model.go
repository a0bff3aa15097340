package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Options say how a Model shows things. The zero value is the default.
type Options struct {
	Slow     time.Duration  // from when a hook is slow; 0 = 100 ms
	Keep     int            // how many events are kept; 0 = 5,000
	KeepSize int            // how many bytes those take, about; 0 = 64 MiB
	Location *time.Location // of times; nil = local
	Home     string         // shown as ~; empty = nothing is
	Filter   string         // what is looked for to begin with, as ParseFilter reads it
}

// A Msg is something that a Model is told: one of the types below.
type Msg any

type (
	// Resize is how large the screen is.
	Resize struct{ Width, Height int }

	// Batch is what has come, oldest first.
	Batch struct {
		Items    []*Item
		Problems []string // what could not be read
	}

	// Clock is what time it is. Ages are shown by the last that was told.
	Clock time.Time

	// Keeper says who keeps Records now.
	Keeper struct {
		Daemon  bool
		PID     int
		Problem string
	}

	// Key is a key that was pressed: its name, such as up, enter, ctrl+c or f, and the
	// text that it types, if any.
	Key struct{ Name, Text string }
)

// The panes, in the order of the tab key.
type pane uint8

const (
	eventsPane pane = iota
	detailsPane
	sessionsPane
)

// A Model is what is known and what is shown of it. Update is not safe for concurrent use
// with itself or with View.
type Model struct {
	opts          Options
	slow          float64 // milliseconds
	width, height int
	now           time.Time
	keeper        *Keeper
	problems      int
	problem       string // the last of them

	items []*Item // oldest first
	seq   int     // how many have come
	size  int     // bytes of items
	gone  int     // how many fell out

	sessions []*session // those where something happened last come first
	total    session    // of all sessions
	focus    *sessionID // nil = all
	filter   Filter
	typed    string // the filter in force, as it was written

	shown  []*Item // of items: those that are wanted and not behind a pause
	at     int     // the selected one of shown
	top    int     // the first of shown on the screen
	follow bool
	paused bool
	last   int // seq of the last that is shown while paused
	behind int // how many wanted ones a pause keeps back

	pane       pane
	details    bool
	detailTop  int
	detailOf   int        // seq of the event that they are of
	sessionAt  *sessionID // the selected one; nil = all
	sessionTop int

	typing  bool // a filter
	draft   string
	draftOf string // the filter before
	wrong   string // what is wrong with it
	help    bool
	done    bool
}

// New returns a Model of nothing. A Filter in opts that cannot be read is shown as such.
func New(opts Options) *Model {
	opts.Slow = cmp.Or(opts.Slow, 100*time.Millisecond)
	opts.Keep = cmp.Or(opts.Keep, 5000)
	opts.KeepSize = cmp.Or(opts.KeepSize, 64<<20)
	opts.Location = cmp.Or(opts.Location, time.Local)
	m := &Model{opts: opts, slow: float64(opts.Slow) / float64(time.Millisecond), follow: true, width: 80, height: 24}
	m.setFilter(opts.Filter)
	return m
}

// Done reports whether the person has had enough.
func (m *Model) Done() bool { return m.done }

// Update takes in what happened.
func (m *Model) Update(msg Msg) {
	switch msg := msg.(type) {
	case Resize:
		m.width, m.height = msg.Width, msg.Height
	case Clock:
		m.now = time.Time(msg)
	case Keeper:
		m.keeper = &msg
	case Batch:
		m.add(msg)
	case Key:
		m.key(msg)
	}
	m.settle()
}

// add takes Items in, and lets the oldest go where there are too many.
func (m *Model) add(b Batch) {
	if n := len(b.Problems); n > 0 {
		m.problems += n
		m.problem = b.Problems[n-1]
	}
	for _, it := range b.Items {
		m.seq++
		it.seq = m.seq
		m.size += it.size
		m.items = append(m.items, it)
		m.count(it)
		switch {
		case !m.wants(it):
		case m.paused:
			m.behind++
		default:
			m.shown = append(m.shown, it)
		}
	}
	m.forget()
}

// forget lets the oldest Items go.
func (m *Model) forget() {
	n := max(0, len(m.items)-m.opts.Keep)
	for _, it := range m.items[:n] {
		m.size -= it.size
	}
	for ; n < len(m.items)-1 && m.size > m.opts.KeepSize; n++ {
		m.size -= m.items[n].size
	}
	if n == 0 {
		return
	}
	m.items = drop(m.items, n)
	m.gone += n
	old := 0
	for old < len(m.shown) && m.shown[old].seq < m.items[0].seq {
		old++
	}
	m.shown = drop(m.shown, old)
	m.at, m.top = m.at-old, m.top-old
	if m.paused { // of those that wait, some may be gone as well
		m.behind = 0
		for _, it := range m.items {
			if it.seq > m.last && m.wants(it) {
				m.behind++
			}
		}
	}
}

// drop removes the first of a list, and keeps no memory of them.
func drop(list []*Item, n int) []*Item {
	rest := copy(list, list[n:])
	clear(list[rest:])
	return list[:rest]
}

func (m *Model) wants(it *Item) bool {
	return (m.focus == nil || *m.focus == idOf(it)) && m.filter.Wants(it, m.slow)
}

// choose finds out anew what is shown. The selection stays, or goes to what is nearest.
func (m *Model) choose() {
	was := 0
	if it := m.selected(); it != nil {
		was = it.seq
	}
	m.shown, m.behind = m.shown[:0:0], 0
	for _, it := range m.items {
		switch {
		case !m.wants(it):
		case m.paused && it.seq > m.last:
			m.behind++
		default:
			m.shown = append(m.shown, it)
		}
	}
	m.at, _ = slices.BinarySearchFunc(m.shown, was, func(it *Item, seq int) int { return it.seq - seq })
}

func (m *Model) selected() *Item {
	if m.at < 0 || m.at >= len(m.shown) {
		return nil
	}
	return m.shown[m.at]
}

// settle brings selections and scrolled lists back to where there is something.
func (m *Model) settle() {
	if m.follow {
		m.at = len(m.shown) - 1
	}
	m.at = within(m.at, 0, len(m.shown)-1)
	if it := m.selected(); it != nil && it.seq != m.detailOf {
		m.detailTop, m.detailOf = 0, it.seq
	}
	l := m.layout()
	m.top = scrolled(m.top, m.at, l.events, len(m.shown))
	m.sessionTop = scrolled(m.sessionTop, m.sessionIndex(), l.sessions, len(m.sessions)+1)
	if !m.details && m.pane == detailsPane || l.sessions == 0 && m.pane == sessionsPane {
		m.pane = eventsPane
	}
}

// scrolled is the first line of a list that is shown, so that one of them is.
func scrolled(top, at, room, all int) int {
	top = within(top, at-room+1, at)
	return within(top, 0, max(0, all-room))
}

func (m *Model) setFilter(text string) {
	f, err := ParseFilter(text)
	if err != nil {
		m.wrong, _, _ = strings.Cut(err.Error(), "\n")
		return
	}
	m.wrong, m.filter, m.typed = "", f, strings.TrimSpace(text)
	m.choose()
}

// key is what a pressed key does.
func (m *Model) key(k Key) {
	switch {
	case k.Name == "ctrl+c":
		m.done = true
	case m.typing:
		m.typeKey(k)
	case m.help:
		m.help = false
		m.done = k.Name == "q"
	default:
		m.command(k.Name)
	}
}

// maxTyped is how long a filter may get, in bytes.
const maxTyped = 1 << 10

// typeKey is a key while a filter is written. What is written counts at once.
func (m *Model) typeKey(k Key) {
	switch k.Name {
	case "enter":
		m.typing = m.wrong != ""
		return
	case "esc":
		m.typing, m.draft = false, m.draftOf
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.draft)
		m.draft = m.draft[:len(m.draft)-size]
	case "ctrl+u":
		m.draft = ""
	case "ctrl+w":
		m.draft = m.draft[:strings.LastIndexByte(strings.TrimRight(m.draft, " "), ' ')+1]
	default:
		if len(m.draft)+len(k.Text) <= maxTyped {
			m.draft += strings.ReplaceAll(clean(k.Text), "\n", " ")
		}
	}
	m.setFilter(m.draft)
}

func (m *Model) command(name string) {
	switch name {
	case "q":
		m.done = true
	case "?":
		m.help = true
	case "/":
		m.typing, m.draft, m.draftOf = true, m.typed, m.typed
		if m.draft != "" {
			m.draft += " "
		}
	case "space", " ":
		m.pause()
	case "f":
		m.paused, m.follow = false, true
		m.choose()
	case "s":
		switch it := m.selected(); {
		case m.focus != nil:
			m.focusOn(nil)
		case it != nil:
			id := idOf(it)
			m.focusOn(&id)
		}
	case "tab", "shift+tab":
		m.pane = m.nextPane(name == "tab")
	case "enter":
		m.enter()
	case "esc":
		m.back()
	default:
		m.move(name)
	}
}

// pause holds what is shown, or lets it go on.
func (m *Model) pause() {
	m.paused, m.last = !m.paused, m.seq
	m.choose()
}

func (m *Model) nextPane(forward bool) pane {
	order := []pane{eventsPane}
	if m.details {
		order = append(order, detailsPane)
	}
	if m.layout().sessions > 0 {
		order = append(order, sessionsPane)
	}
	step := 1
	if !forward {
		step = len(order) - 1
	}
	return order[(slices.Index(order, m.pane)+step)%len(order)]
}

// enter opens or closes what is known of an event, or looks at one session alone.
func (m *Model) enter() {
	if m.pane == sessionsPane {
		m.focusOn(m.sessionAt)
		m.pane = eventsPane
		return
	}
	m.details = !m.details
	m.follow = m.follow && !m.details // what is read stays
}

// back takes back what was done last: details, then a filter, then a focus.
func (m *Model) back() {
	switch {
	case m.pane != eventsPane:
		m.pane = eventsPane
	case m.details:
		m.details = false
	case m.typed != "":
		m.setFilter("")
	case m.focus != nil:
		m.focusOn(nil)
	}
}

func (m *Model) focusOn(id *sessionID) {
	m.focus, m.sessionAt = id, id
	m.choose()
}

// move goes through the list that has the cursor.
func (m *Model) move(name string) {
	l := m.layout()
	page := map[pane]int{eventsPane: l.events, detailsPane: l.details, sessionsPane: l.sessions}[m.pane]
	var by int
	switch name {
	case "up", "k":
		by = -1
	case "down", "j":
		by = 1
	case "pgup", "ctrl+b":
		by = -max(1, page-1)
	case "pgdown", "ctrl+f":
		by = max(1, page-1)
	case "home", "g":
		by = -1 << 30
	case "end", "G":
		by = 1 << 30
	default:
		return
	}
	switch m.pane {
	case detailsPane:
		m.detailTop = within(m.detailTop+by, 0, max(0, len(m.detailRows(m.width))-l.details))
	case sessionsPane:
		i := within(m.sessionIndex()+by, 0, len(m.sessions))
		if m.sessionAt = nil; i > 0 {
			m.sessionAt = &m.sessions[i-1].sessionID
		}
	case eventsPane:
		m.at = within(m.at+by, 0, len(m.shown)-1)
		m.follow = m.at == len(m.shown)-1 && by > 0 && !m.details
	}
}
