package watch

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// A layout has the number of lines of each pane without its title. 0 = the pane and its title are
// not shown.
type layout struct{ sessions, events, details int }

// Minimum widths in columns: wide for full names, middle for the kind of event, and small for more
// than the subject and the result.
const (
	wide   = 100
	middle = 60
	small  = 40
)

// layout divides the lines of the screen between the parts. The head and the foot have one line
// each.
func (m *Model) layout() (l layout) {
	room := m.height - 2
	if room >= 8 {
		l.sessions = within(1+len(m.sessions), 2, max(2, room/5))
		room -= 1 + l.sessions
	}
	if m.details && room >= 4 {
		l.details = room - 1 - max(2, (room-2)*2/5) // at least one event stays visible
		if room >= 8 {
			l.details = min(l.details, room-4)
		}
		room -= 1 + l.details
	}
	l.events = max(0, room-1)
	return l
}

// View returns the screen. It has exactly the height of the screen, and no line is wider than the
// screen.
func (m *Model) View() string {
	if m.width < 1 || m.height < 1 {
		return ""
	}
	l := m.layout()
	lines := []string{m.head()}
	if m.help {
		for _, r := range helpRows() {
			lines = append(lines, r.fit(m.width, false))
		}
	} else {
		if l.sessions > 0 {
			lines = append(lines, m.title("sessions", sessionsPane, nil))
			lines = append(lines, m.sessionLines(l.sessions)...)
		}
		lines = append(lines, m.title("events", eventsPane, m.state()))
		lines = append(lines, m.eventLines(l.events)...)
		if l.details > 0 {
			rows := m.detailRows(m.width)
			top := within(m.detailTop, 0, max(0, len(rows)-l.details))
			lines = append(lines, m.title("details", detailsPane, more(top, l.details, len(rows))))
			for i := range l.details {
				var r row
				if top+i < len(rows) {
					r = rows[top+i]
				}
				lines = append(lines, r.fit(m.width, false))
			}
		}
	}
	lines = lines[:min(len(lines), max(1, m.height-1))]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	if m.height > 1 {
		lines = append(lines, m.foot())
	}
	return strings.Join(lines, "\n")
}

// head returns the top line: counters, and the process that stores Records.
func (m *Model) head() string {
	name := "grapnel watch"
	if m.width < wide {
		name = "grapnel"
	}
	r := row{{name, bold}, {"  " + printable.Count(len(m.sessions), "session") + "  " + printable.Count(m.total.events, "event"), normal}}
	if m.width < small {
		r = line(normal, printable.Count(m.total.events, "event"))
	}
	if counts := m.total.counts(); len(counts) > 0 {
		r = append(append(r, span{"  ", normal}), counts...)
	}
	keeper, look := "", dim
	switch k := m.keeper; {
	case k == nil:
	case k.Problem != "":
		keeper, look = inLine(k.Problem), yellow
	case k.Daemon && k.PID > 0:
		keeper = "daemon " + strconv.Itoa(k.PID)
	case k.Daemon:
		keeper = "daemon"
	case m.width < wide:
		keeper = "no daemon"
	default:
		keeper = "no daemon: reading the spool"
	}
	if keeper = printable.Cut(keeper, m.width/3); m.width < small && look == dim { // there is room only for a problem
		keeper = ""
	}
	return append(r.within(m.width-printable.Columns(keeper)-2), span{"  " + keeper, look}).fit(m.width, false)
}

// title returns the line above a pane, with the state of the pane.
func (m *Model) title(name string, of pane, state row) string {
	look := dim
	if m.pane == of && (m.details || of == sessionsPane) {
		look = bold
	}
	r := append(row{{"── ", dim}, {name, look}, {" ", dim}}, state...)
	if len(state) > 0 {
		r = append(r, span{" ", dim})
	}
	return append(r, span{strings.Repeat("─", max(0, m.width-printable.Columns(r.plain()))), dim}).fit(m.width, false)
}

// more returns the visible range of a list, or nil if all of it is visible.
func more(top, room, all int) row {
	if all <= room {
		return nil
	}
	return line(dim, strconv.Itoa(top+1)+"-"+strconv.Itoa(min(top+room, all))+" of "+strconv.Itoa(all))
}

// state describes which events are shown.
func (m *Model) state() row {
	var parts row
	add := func(look style, text string) {
		if len(parts) > 0 {
			parts = append(parts, span{" · ", dim})
		}
		parts = append(parts, span{text, look})
	}
	switch {
	case m.paused && m.behind > 0:
		add(yellow, "PAUSED, "+strconv.Itoa(m.behind)+" new")
	case m.paused:
		add(yellow, "PAUSED")
	case m.follow:
		add(dim, "following")
	case m.at < len(m.shown)-1:
		add(yellow, "not following, "+strconv.Itoa(len(m.shown)-1-m.at)+" below")
	default:
		add(yellow, "not following")
	}
	if m.focus != nil {
		name := printable.Cut(inLine(m.focus.agent), 20)
		if m.focus.session != "" {
			name += " " + printable.Cut(inLine(m.focus.session), 12)
		}
		add(normal, "session "+name)
	}
	if !m.filter.Empty() {
		add(normal, "/"+printable.Cut(inLine(m.typed), 40))
	}
	if !m.filter.Empty() || m.focus != nil {
		add(dim, strconv.Itoa(len(m.shown))+" of "+strconv.Itoa(len(m.items)))
	}
	if m.gone > 0 {
		add(dim, printable.Count(m.gone, "older event")+" dropped")
	}
	if m.problems > 0 {
		add(yellow, strconv.Itoa(m.problems)+" unreadable: "+inLine(m.problem))
	}
	return parts
}

// foot returns the bottom line: the keys, or the filter that the user edits.
func (m *Model) foot() string {
	if m.typing {
		r := row{{"/", bold}, {clean(m.draft), normal}, {" ", marked}}
		if m.wrong != "" {
			return append(r, span{"  " + inLine(m.wrong), yellow}).fit(m.width, false)
		}
		return append(r, span{"  words, key:value of " + strings.Join(keyNames, " ") + "; enter: apply, esc: cancel", dim}).fit(m.width, false)
	}
	if m.wrong != "" {
		return line(yellow, inLine(m.wrong)).fit(m.width, false)
	}
	if m.help {
		return line(dim, "any key: back  q: quit").fit(m.width, false)
	}
	keys := []string{"↑↓ select", "enter details", "/ filter", "space pause", "f follow", "s session", "tab pane", "? help", "q quit"}
	if m.paused {
		keys[3] = "space continue"
	}
	if m.focus != nil {
		keys[5] = "s all sessions"
	}
	for printable.Columns(strings.Join(keys, "  ")) > m.width && len(keys) > 2 {
		keys = slices.Delete(keys, len(keys)-3, len(keys)-2) // help and quit stay
	}
	return line(dim, strings.Join(keys, "  ")).fit(m.width, false)
}

func helpRows() []row {
	rows := []row{nil}
	for _, h := range [][2]string{
		{"↑ ↓  k j", "previous and next event; also page up and down"},
		{"g  G", "oldest and newest event"},
		{"enter", "all details of an event; in the session list: only this session"},
		{"tab", "switch between events, details and sessions"},
		{"space", "pause the list; new events are counted"},
		{"f", "follow: go to the newest event and keep following"},
		{"s", "only the session of this event; again: all sessions"},
		{"/", "filter: words, and key:value"},
		{"", "  " + strings.Join(keyNames, ": ") + ":"},
		{"", "  decision: " + strings.Join(decisionNames, " ")},
		{"", "  is: " + strings.Join(isNames, " ")},
		{"", "  -key:value and -word exclude; \"words in quotes\" are one phrase"},
		{"esc", "back: leave the pane, details, filter or session"},
		{"q", "quit"},
		{"", ""},
		{"FAILED", "a hook could not answer; FAILED OPEN: the action continued anyway"},
		{"late", "result of a hook that ran after the reply"},
	} {
		rows = append(rows, row{{"  " + left(h[0], 10), bold}, {h[1], normal}})
	}
	return rows
}

// listed returns a line of a list. The line with the cursor is marked by style and by a character.
func (m *Model) listed(r row, selected, active bool) string {
	if !selected {
		return append(line(normal, " "), r...).fit(m.width, false)
	}
	look := bold
	if active {
		look = marked
	}
	return line(look, ">"+r.plain()).fit(m.width, true)
}

// agentName returns an agent's name, or a short form of it if narrow is set.
func agentName(name string, narrow bool) string {
	if d, ok := dialect.FindAgent(name); ok && narrow {
		for _, alias := range d.Aliases {
			if len(alias) < len(name) && strings.HasPrefix(name, alias) {
				return alias
			}
		}
	}
	return inLine(name)
}

func (m *Model) agentWidth() int {
	if m.width < wide {
		return 8
	}
	return 11
}

func (m *Model) sessionLines(n int) []string {
	lines := make([]string, 0, n)
	agents := m.agentWidth()
	for i := m.sessionTop; len(lines) < n; i++ {
		var r row
		switch {
		case i == 0:
			r = line(normal, "all sessions")
			if len(m.sessions) == 0 {
				r = line(dim, "no events yet")
			}
		case i <= len(m.sessions):
			s := m.sessions[i-1]
			var ago string
			if !m.now.IsZero() {
				ago = age(m.now.Sub(s.at))
			}
			counts := s.counts()
			dirs := max(10, (m.width-agents)/4)
			r = row{{left(agentName(s.agent, m.width < wide), agents), normal}, {" " + left(printable.CutLeft(m.dirName(s.dir), dirs), dirs), normal}, {" " + right(strconv.Itoa(s.events), 5) + " ev  ", dim}}
			if r = append(r, counts...); len(counts) > 0 {
				r = append(r, span{"  ", normal})
			}
			r = append(append(r, span{s.lastly(), dim}).within(m.width-1-5), span{right(ago, 5), normal})
			if m.focus != nil && *m.focus != s.sessionID {
				r = line(dim, r.plain())
			}
		default:
			lines = append(lines, "")
			continue
		}
		selected := i == m.sessionIndex()
		if m.pane != sessionsPane {
			selected = selected && m.focus != nil
		}
		lines = append(lines, m.listed(r, selected, m.pane == sessionsPane))
	}
	return lines
}

// lastly returns the latest event of a session.
func (s *session) lastly() string {
	if s.last == nil {
		return ""
	}
	return what(s.last)
}

// what returns a short description of the event of an Item.
func what(it *Item) string {
	text := string(it.Event)
	if it.Tool != "" {
		text += " " + it.Tool
	}
	return inLine(text + " " + wording.Shorten(it.About, 200))
}

// dirName returns a directory with ~ for the home directory.
func (m *Model) dirName(dir string) string {
	if dir == "" {
		return "-"
	}
	if rest, ok := strings.CutPrefix(dir, m.opts.Home); ok && m.opts.Home != "" && (rest == "" || rest[0] == '/' || rest[0] == '\\') {
		dir = "~" + rest
	}
	return inLine(dir)
}

// wordLook maps results of Word to styles.
var wordLook = map[string]style{"block": red, "halt": red, "ask": yellow, "allow": green, "change": cyan, "none": dim, "late": dim}

func (m *Model) eventLines(n int) []string {
	lines := make([]string, 0, n)
	for i := m.top; len(lines) < n; i++ {
		switch {
		case i < len(m.shown):
			lines = append(lines, m.listed(m.eventRow(m.shown[i]), i == m.at, m.pane == eventsPane))
		case i == 0 && len(m.items) > 0:
			lines = append(lines, line(dim, " no events match").fit(m.width, false))
		case i == 0:
			lines = append(lines, line(dim, " waiting for events; --since 1h shows earlier events").fit(m.width, false))
		default:
			lines = append(lines, "")
		}
	}
	return lines
}

// eventRow returns an event on one line: time, agent, event, result, tool, subject, hooks and
// duration.
func (m *Model) eventRow(it *Item) row {
	narrow := m.width < wide
	agents, events, hooks := m.agentWidth(), 17, 30
	if narrow {
		events, hooks = 11, 16
	}
	at := it.Time.In(m.opts.Location)
	when := at.Format("15:04:05")
	if !m.now.IsZero() && m.now.Sub(at) > 24*time.Hour {
		when = at.Format("Jan _2  ")
	}
	var r row
	if m.width >= small {
		r = row{{when + " ", dim}}
	}
	if m.focus == nil && m.width >= small {
		r = append(r, span{left(agentName(it.Agent, narrow), agents) + " ", normal})
	}
	word := Word(&it.Entry)
	name := inLine(string(it.Event))
	if rest, ok := strings.CutPrefix(name, grapnel.NativePrefix+inLine(it.Agent)+"."); ok {
		name = rest // the line already shows the agent
	}
	if m.width >= middle {
		r = append(r, span{left(name, events) + " ", normal})
	}
	r = append(r, span{left(word, 6) + " ", wordLook[word]})

	ms, msLook := took(it.MS), dim
	if it.Late {
		ms = ""
	}
	if it.MS >= m.slow {
		msLook = yellow
	}
	if m.width < small {
		about := strings.TrimSpace(inLine(it.About))
		if about == "" {
			about = strings.TrimSpace(name + " " + inLine(it.Tool))
		}
		return append(r, span{about, normal})
	}
	var hookRow row
	for i, p := range it.parts(m.slow) {
		if i > 0 {
			hookRow = append(hookRow, span{", ", dim})
		}
		hookRow = append(hookRow, span(p))
	}
	room := max(0, m.width-1-printable.Columns(r.plain())-6)
	failed, _ := it.failures()
	if room < 24 && it.Tool+it.About != "" && failed == 0 { // the subject is more useful than the hooks
		hookRow = nil
	}
	needed := printable.Columns(hookRow.plain())
	if needed > 0 {
		needed = min(needed, max(hooks, room-printable.Columns(inLine(it.Tool+" "+it.About))-1))
		room -= needed + 1
	}
	tool := inLine(it.Tool)
	if tool != "" && it.About != "" {
		tool += " "
	}
	tool = printable.Cut(tool, max(0, room))
	about := left(inLine(it.About), max(0, room-printable.Columns(tool)))
	r = append(r, span{tool, dim}, span{about, normal})
	if needed > 0 {
		r = append(r, span{" ", normal})
		r = append(r, hookRow.within(needed)...)
	}
	return append(r, span{right(ms, 6), msLook})
}

// within truncates or pads a row to exactly width columns.
func (r row) within(width int) row {
	out := make(row, 0, len(r)+2)
	for _, s := range r {
		text := printable.Cut(s.text, width)
		width -= printable.Columns(text)
		out = append(out, span{text, s.look})
		if width <= 0 {
			return out
		}
	}
	return append(out, span{strings.Repeat(" ", width), normal})
}
