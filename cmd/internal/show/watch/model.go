package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
)

// Options configure a Model. The zero value is the default.
type Options struct {
	Slow     time.Duration  // duration from which a hook is slow; 0 = 100 ms
	Keep     int            // maximum number of events; 0 = 5,000
	KeepSize int            // approximate maximum size of the events in bytes; 0 = 64 MiB
	Location *time.Location // of times; nil = local
	Home     string         // displayed as ~; empty = no replacement
	Filter   string         // the initial filter, in the syntax of recordview.ParseFilter
}

// An item is an Item with its sequence number.
type item struct {
	*recordview.Item

	seq int
}

// A Msg is a message to a Model: one of the types below.
type Msg any

type (
	// Resize is the size of the screen in columns and lines.
	Resize struct{ Width, Height int }

	// Batch has new Items, oldest first.
	Batch struct {
		Items    []*recordview.Item
		Problems []string // errors of unreadable Items
	}

	// Clock is the current time. The Model computes ages from the last Clock.
	Clock time.Time

	// Keeper describes which process stores Records now.
	Keeper struct {
		Daemon  bool
		PID     int
		Problem string
	}

	// Key is a pressed key: its name, such as up, enter, ctrl+c or f, and the text that it types,
	// if any.
	Key struct{ Name, Text string }
)

// The panes, in the order of the tab key.
type pane uint8

const (
	eventsPane pane = iota
	detailsPane
	sessionsPane
)

// A Model is the state of the view. Its methods are not safe for concurrent use.
type Model struct {
	opts          Options
	slow          float64 // milliseconds
	form          recordview.Form
	width, height int
	now           time.Time
	keeper        *Keeper
	problems      int
	problem       string // the last one

	items []*item // oldest first
	seq   int     // number of Items so far
	size  int     // bytes of items
	gone  int     // number of removed Items

	sessions []*session // most recent activity first
	total    session    // of all sessions
	focus    *sessionID // nil = all
	filter   recordview.Filter
	typed    string // the text of the active filter

	shown  []*item // Items that match the filter and are not held back by a pause
	at     int     // index of the selected Item in shown
	top    int     // index of the first Item of shown on the screen
	follow bool
	paused bool
	last   int // seq of the last Item that is shown during a pause
	behind int // number of matching Items that the pause holds back

	pane       pane
	details    bool
	detailTop  int
	detailOf   int        // seq of the event that the details show
	sessionAt  *sessionID // the selected session; nil = all
	sessionTop int

	typing  bool // the user edits the filter
	draft   string
	draftOf string // the filter before editing
	wrong   string // error of the edited filter
	help    bool
	done    bool
}

// New returns an empty Model. The view shows an error if the Filter in opts is invalid. Zero fields
// of opts have the defaults that Options names.
func New(opts Options) *Model {
	opts.Slow = cmp.Or(opts.Slow, 100*time.Millisecond)
	opts.Keep = cmp.Or(opts.Keep, 5000)
	opts.KeepSize = cmp.Or(opts.KeepSize, 64<<20)
	opts.Location = cmp.Or(opts.Location, time.Local)
	m := &Model{opts: opts, slow: float64(opts.Slow) / float64(time.Millisecond), form: recordview.Form{Slow: opts.Slow, Location: opts.Location, Home: opts.Home}, follow: true, width: 80, height: 24}
	m.setFilter(opts.Filter)
	return m
}

// Done reports whether the user has quit.
func (m *Model) Done() bool { return m.done }

// Update applies a message.
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

// add appends Items, and removes the oldest ones beyond the limits.
func (m *Model) add(b Batch) {
	if n := len(b.Problems); n > 0 {
		m.problems += n
		m.problem = b.Problems[n-1]
	}
	for _, it := range b.Items {
		m.seq++
		m.size += it.Size()
		it := &item{it, m.seq}
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

// forget removes the oldest Items beyond the limits.
func (m *Model) forget() {
	n := max(0, len(m.items)-m.opts.Keep)
	for _, it := range m.items[:n] {
		m.size -= it.Size()
	}
	for ; n < len(m.items)-1 && m.size > m.opts.KeepSize; n++ {
		m.size -= m.items[n].Size()
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
	if m.paused { // the pause may have held back some of the removed Items
		m.behind = 0
		for _, it := range m.items {
			if it.seq > m.last && m.wants(it) {
				m.behind++
			}
		}
	}
}

// drop removes the first n elements of a list and releases their memory.
func drop(list []*item, n int) []*item {
	rest := copy(list, list[n:])
	clear(list[rest:])
	return list[:rest]
}

func (m *Model) wants(it *item) bool {
	return (m.focus == nil || *m.focus == idOf(it)) && m.filter.Wants(it.Item, m.slow)
}

// choose recomputes the displayed Items. The selection stays, or moves to the nearest Item.
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
	m.at, _ = slices.BinarySearchFunc(m.shown, was, func(it *item, seq int) int { return it.seq - seq })
}

func (m *Model) selected() *item {
	if m.at < 0 || m.at >= len(m.shown) {
		return nil
	}
	return m.shown[m.at]
}

// settle moves the selections and scroll positions into the valid range.
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

// scrolled returns the index of the first visible line of a list, so that the selected line is
// visible.
func scrolled(top, at, room, all int) int {
	top = within(top, at-room+1, at)
	return within(top, 0, max(0, all-room))
}

func (m *Model) setFilter(text string) {
	f, err := recordview.ParseFilter(text)
	if err != nil {
		m.wrong, _, _ = strings.Cut(err.Error(), "\n")
		return
	}
	m.wrong, m.filter, m.typed = "", f, strings.TrimSpace(text)
	m.choose()
}

// key handles a pressed key.
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

// maxTyped is the maximum length of a filter in bytes.
const maxTyped = 1 << 10

// typeKey handles a key while the user edits the filter. Changes take effect at once.
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
			m.draft += strings.ReplaceAll(recordview.Clean(k.Text), "\n", " ")
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

// pause stops or continues the display of new Items.
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

// enter opens or closes the details of an event, or limits the view to one session.
func (m *Model) enter() {
	if m.pane == sessionsPane {
		m.focusOn(m.sessionAt)
		m.pane = eventsPane
		return
	}
	m.details = !m.details
	m.follow = m.follow && !m.details // the event that the user reads stays selected
}

// back undoes one step: it leaves another pane, closes the details, clears the filter, or clears
// the focus.
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

// move moves the cursor in the active list.
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
		m.detailTop = within(m.detailTop+by, 0, max(0, len(m.detailRows())-l.details))
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
