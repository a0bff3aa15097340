package watch

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
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
			lines = append(lines, r.Cut(m.width).Painted())
		}
	} else {
		if l.sessions > 0 {
			lines = append(lines, m.title("sessions", sessionsPane, nil))
			lines = append(lines, m.sessionLines(l.sessions)...)
		}
		lines = append(lines, m.title("events", eventsPane, m.state()))
		lines = append(lines, m.eventLines(l.events)...)
		if l.details > 0 {
			rows := m.detailRows()
			top := within(m.detailTop, 0, max(0, len(rows)-l.details))
			lines = append(lines, m.title("details", detailsPane, more(top, l.details, len(rows))))
			for i := range l.details {
				var r typeset.Row
				if top+i < len(rows) {
					r = rows[top+i]
				}
				lines = append(lines, r.Cut(m.width).Painted())
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
	r := typeset.Row{typeset.Bold.Span(name), typeset.Normal.Span("  " + printable.Count(len(m.sessions), "session") + "  " + printable.Count(m.total.events, "event"))}
	if m.width < small {
		r = typeset.Normal.Row(printable.Count(m.total.events, "event"))
	}
	if counts := m.total.counts(); len(counts) > 0 {
		r = append(append(r, typeset.Normal.Span("  ")), counts...)
	}
	keeper, look := "", typeset.Dim
	switch k := m.keeper; {
	case k == nil:
	case k.Problem != "":
		keeper, look = recordview.Line(k.Problem), typeset.Yellow
	case k.Daemon && k.PID > 0:
		keeper = "daemon " + strconv.Itoa(k.PID)
	case k.Daemon:
		keeper = "daemon"
	case m.width < wide:
		keeper = "no daemon"
	default:
		keeper = "no daemon: reading the log"
	}
	if keeper = printable.Cut(keeper, m.width/3); m.width < small && look == typeset.Dim { // there is room only for a problem
		keeper = ""
	}
	return append(r.Fill(m.width-printable.Columns(keeper)-2), look.Span("  "+keeper)).Cut(m.width).Painted()
}

// title returns the line above a pane, with the state of the pane.
func (m *Model) title(name string, of pane, state typeset.Row) string {
	look := typeset.Dim
	if m.pane == of && (m.details || of == sessionsPane) {
		look = typeset.Bold
	}
	r := append(typeset.Row{typeset.Dim.Span("── "), look.Span(name), typeset.Dim.Span(" ")}, state...)
	if len(state) > 0 {
		r = append(r, typeset.Dim.Span(" "))
	}
	return append(r, typeset.Dim.Span(strings.Repeat("─", max(0, m.width-r.Columns())))).Cut(m.width).Painted()
}

// more returns the visible range of a list, or nil if all of it is visible.
func more(top, room, all int) typeset.Row {
	if all <= room {
		return nil
	}
	return typeset.Dim.Row(strconv.Itoa(top+1) + "-" + strconv.Itoa(min(top+room, all)) + " of " + strconv.Itoa(all))
}

// state describes which events are shown.
func (m *Model) state() typeset.Row {
	var parts typeset.Row
	add := func(look typeset.Style, text string) {
		if len(parts) > 0 {
			parts = append(parts, typeset.Dim.Span(" · "))
		}
		parts = append(parts, look.Span(text))
	}
	switch {
	case m.paused && m.behind > 0:
		add(typeset.Yellow, "PAUSED, "+strconv.Itoa(m.behind)+" new")
	case m.paused:
		add(typeset.Yellow, "PAUSED")
	case m.follow:
		add(typeset.Dim, "following")
	case m.at < len(m.shown)-1:
		add(typeset.Yellow, "not following, "+strconv.Itoa(len(m.shown)-1-m.at)+" below")
	default:
		add(typeset.Yellow, "not following")
	}
	if m.focus != nil {
		name := printable.Cut(recordview.Line(m.focus.agent), 20)
		if m.focus.session != "" {
			name += " " + printable.Cut(recordview.Line(m.focus.session), 12)
		}
		add(typeset.Normal, "session "+name)
	}
	if !m.filter.Empty() {
		add(typeset.Normal, "/"+printable.Cut(recordview.Line(m.typed), 40))
	}
	if !m.filter.Empty() || m.focus != nil {
		add(typeset.Dim, strconv.Itoa(len(m.shown))+" of "+strconv.Itoa(len(m.items)))
	}
	if m.gone > 0 {
		add(typeset.Dim, printable.Count(m.gone, "older event")+" dropped")
	}
	if m.problems > 0 {
		add(typeset.Yellow, strconv.Itoa(m.problems)+" unreadable: "+recordview.Line(m.problem))
	}
	return parts
}

// foot returns the bottom line: the keys, or the filter that the user edits.
func (m *Model) foot() string {
	if m.typing {
		r := typeset.Row{typeset.Bold.Span("/"), typeset.Normal.Span(recordview.Clean(m.draft)), typeset.Marked.Span(" ")}
		if m.wrong != "" {
			return append(r, typeset.Yellow.Span("  "+recordview.Line(m.wrong))).Cut(m.width).Painted()
		}
		return append(r, typeset.Dim.Span("  words, key:value of "+strings.Join(recordview.KeyNames, " ")+"; enter: apply, esc: cancel")).Cut(m.width).Painted()
	}
	if m.wrong != "" {
		return typeset.Yellow.Row(recordview.Line(m.wrong)).Cut(m.width).Painted()
	}
	if m.help {
		return typeset.Dim.Row("any key: back  q: quit").Cut(m.width).Painted()
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
	return typeset.Dim.Row(strings.Join(keys, "  ")).Cut(m.width).Painted()
}

// detailRows returns the details of the selected event.
func (m *Model) detailRows() []typeset.Row {
	it := m.selected()
	if it == nil {
		return []typeset.Row{typeset.Dim.Row("no event is selected")}
	}
	form := m.form
	form.Width = m.width
	return form.Item(it.Item)
}

func helpRows() []typeset.Row {
	rows := []typeset.Row{nil}
	for _, h := range [][2]string{
		{"↑ ↓  k j", "previous and next event; also page up and down"},
		{"g  G", "oldest and newest event"},
		{"enter", "all details of an event; in the session list: only this session"},
		{"tab", "switch between events, details and sessions"},
		{"space", "pause the list; new events are counted"},
		{"f", "follow: go to the newest event and keep following"},
		{"s", "only the session of this event; again: all sessions"},
		{"/", "filter: words, and key:value"},
		{"", "  " + strings.Join(recordview.KeyNames, ": ") + ":"},
		{"", "  decision: " + strings.Join(recordview.DecisionNames, " ")},
		{"", "  is: " + strings.Join(recordview.IsNames, " ")},
		{"", "  -key:value and -word exclude; \"words in quotes\" are one phrase"},
		{"esc", "back: leave the pane, details, filter or session"},
		{"q", "quit"},
		{"", ""},
		{"FAILED", "a hook could not answer; FAILED OPEN: the action continued anyway"},
		{"late", "result of a hook that ran after the reply"},
	} {
		rows = append(rows, typeset.Row{typeset.Bold.Span("  " + typeset.Left(h[0], 10)), typeset.Normal.Span(h[1])})
	}
	return rows
}

// listed returns a line of a list. The line with the cursor is marked by style and by a character.
func (m *Model) listed(r typeset.Row, selected, active bool) string {
	if !selected {
		return append(typeset.Normal.Row(" "), r...).Cut(m.width).Painted()
	}
	look := typeset.Bold
	if active {
		look = typeset.Marked
	}
	return look.Row(">" + r.Plain()).Fill(m.width).Painted()
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
	return recordview.Line(name)
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
		var r typeset.Row
		switch {
		case i == 0:
			r = typeset.Normal.Row("all sessions")
			if len(m.sessions) == 0 {
				r = typeset.Dim.Row("no events yet")
			}
		case i <= len(m.sessions):
			s := m.sessions[i-1]
			var ago string
			if !m.now.IsZero() {
				ago = age(m.now.Sub(s.at))
			}
			counts := s.counts()
			dirs := max(10, (m.width-agents)/4)
			r = typeset.Row{typeset.Normal.Span(typeset.Left(agentName(s.agent, m.width < wide), agents)), typeset.Normal.Span(" " + typeset.Left(printable.CutLeft(m.form.Dir(s.dir), dirs), dirs)), typeset.Dim.Span(" " + typeset.Right(strconv.Itoa(s.events), 5) + " ev  ")}
			if r = append(r, counts...); len(counts) > 0 {
				r = append(r, typeset.Normal.Span("  "))
			}
			r = append(append(r, typeset.Dim.Span(s.lastly())).Fill(m.width-1-5), typeset.Normal.Span(typeset.Right(ago, 5)))
			if m.focus != nil && *m.focus != s.sessionID {
				r = typeset.Dim.Row(r.Plain())
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
func what(it *recordview.Item) string {
	text := string(it.Event)
	if it.Tool != "" {
		text += " " + it.Tool
	}
	return recordview.Line(text + " " + wording.Shorten(it.About, 200))
}

func (m *Model) eventLines(n int) []string {
	lines := make([]string, 0, n)
	for i := m.top; len(lines) < n; i++ {
		switch {
		case i < len(m.shown):
			lines = append(lines, m.listed(m.eventRow(m.shown[i]), i == m.at, m.pane == eventsPane))
		case i == 0 && len(m.items) > 0:
			lines = append(lines, typeset.Dim.Row(" no events match").Cut(m.width).Painted())
		case i == 0:
			lines = append(lines, typeset.Dim.Row(" waiting for events; --since 1h shows earlier events").Cut(m.width).Painted())
		default:
			lines = append(lines, "")
		}
	}
	return lines
}

// eventRow returns an event on one line: time, agent, event, result, tool, subject, hooks and
// duration.
func (m *Model) eventRow(it *item) typeset.Row {
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
	var r typeset.Row
	if m.width >= small {
		r = typeset.Row{typeset.Dim.Span(when + " ")}
	}
	if m.focus == nil && m.width >= small {
		r = append(r, typeset.Normal.Span(typeset.Left(agentName(it.Agent, narrow), agents)+" "))
	}
	word := recordview.Word(&it.Entry)
	name := recordview.Line(string(it.Event))
	if rest, ok := strings.CutPrefix(name, grapnel.NativePrefix+recordview.Line(it.Agent)+"."); ok {
		name = rest // the line already shows the agent
	}
	if m.width >= middle {
		r = append(r, typeset.Normal.Span(typeset.Left(name, events)+" "))
	}
	r = append(r, recordview.Style(word).Span(typeset.Left(word, 6)+" "))

	ms, msLook := recordview.Took(it.MS), typeset.Dim
	if it.Late {
		ms = ""
	}
	if it.MS >= m.slow {
		msLook = typeset.Yellow
	}
	if m.width < small {
		about := strings.TrimSpace(recordview.Line(it.About))
		if about == "" {
			about = strings.TrimSpace(name + " " + recordview.Line(it.Tool))
		}
		return append(r, typeset.Normal.Span(about))
	}
	var hookRow typeset.Row
	for i, p := range it.Parts(m.slow) {
		if i > 0 {
			hookRow = append(hookRow, typeset.Dim.Span(", "))
		}
		hookRow = append(hookRow, p)
	}
	room := max(0, m.width-1-r.Columns()-6)
	failed, _ := it.Failures()
	if room < 24 && it.Tool+it.About != "" && failed == 0 { // the subject is more useful than the hooks
		hookRow = nil
	}
	needed := hookRow.Columns()
	if needed > 0 {
		needed = min(needed, max(hooks, room-printable.Columns(recordview.Line(it.Tool+" "+it.About))-1))
		room -= needed + 1
	}
	tool := recordview.Line(it.Tool)
	if tool != "" && it.About != "" {
		tool += " "
	}
	tool = printable.Cut(tool, max(0, room))
	about := typeset.Left(recordview.Line(it.About), max(0, room-printable.Columns(tool)))
	r = append(r, typeset.Dim.Span(tool), typeset.Normal.Span(about))
	if needed > 0 {
		r = append(r, typeset.Normal.Span(" "))
		r = append(r, hookRow.Fill(needed)...)
	}
	return append(r, msLook.Span(typeset.Right(ms, 6)))
}
