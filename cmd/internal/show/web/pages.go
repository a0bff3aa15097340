package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/hooks"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

const (
	sessionMax = 1000        // Records that the list of sessions covers
	maxBars    = 8           // hooks in a chart
	countDays  = 7           // of the statistics
	countTime  = time.Minute // for which statistics are valid, because counting takes long in a large store
)

// funcs are the functions of the templates.
var funcs = template.FuncMap{
	"line": func(v any) string { return printable.Line(fmt.Sprint(v)) },
	"text": func(v any) string { return printable.Text(fmt.Sprint(v)) },
	"kind": func(k grapnel.Kind) string {
		if own, ok := strings.CutPrefix(string(k), records.Own); ok {
			return strings.ToLower(own)
		}
		return string(k)
	},
	"lines":  func(text string) []string { return strings.Split(text, "\n") },
	"number": printable.Number,
	"count":  printable.Count,
	"times":  func(m map[grapnel.Decision]int, d int) int { return m[grapnel.Decision(d)] },
	"asked": func(line []byte) string { // the call of a request
		var e spool.Entry
		_ = json.Unmarshal(line, &e) // otherwise the text is empty
		return recordview.About(&e, maxAbout)
	},
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"clock": func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
	"ms":    func(ms float64) string { return strconv.FormatFloat(ms, 'f', max(0, 2-int(ms)/10), 64) + " ms" },
	"mb":    func(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB" },
	"base":  func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] },
}

// events shows the Records that match a filter. New ones are added while the page is open.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	data := struct {
		*list
		Words                    url.Values
		Agents, Kinds, Decisions []string
		Spans                    [][2]string
		Filtered                 bool
	}{
		list: &list{}, Words: words, Agents: dialect.Names(), Decisions: []string{"block", "ask", "allow", "none"},
		Spans: [][2]string{{"15m", "15 minutes"}, {"1h", "hour"}, {"24h", "day"}, {"7d", "week"}},
	}
	for _, c := range grapnel.Contracts() {
		data.Kinds = append(data.Kinds, string(c.Kind))
	}
	q, err := query(words)
	for name := range words {
		data.Filtered = data.Filtered || name != "before" && words.Get(name) != ""
	}
	status := http.StatusBadRequest
	if err == nil {
		status = http.StatusOK
		data.list, err = s.list(r.Context(), q, words)
	}
	s.show(w, status, "events", &view{Title: "Events", Path: "/events", Data: &data}, err)
}

// A session is the Records of one session in a list.
type session struct {
	Agent, ID, Dir                 string
	First, Last                    time.Time
	Events, Blocked, Asked, Failed int
	Rows                           []row
	Strip                          template.HTML
}

func (x *session) add(r row) {
	x.Rows = append(x.Rows, r)
	x.First, x.Last = r.Time, cmp.Or(x.Last, r.Time)
	if r.Error != "" || slices.ContainsFunc(r.Hooks, func(h grapnel.HookRun) bool { return h.Error != "" }) {
		x.Failed++
	}
	switch {
	case r.Late:
		return
	case r.Decision == grapnel.Block || r.Halt != "":
		x.Blocked++
	case r.Decision == grapnel.Ask:
		x.Asked++
	}
	x.Events++
}

// sessions shows the sessions of the newest Records as time lines.
func (s *Site) sessions(w http.ResponseWriter, r *http.Request) {
	var data struct {
		Sessions []*session
		Max      int
		Older    string
	}
	data.Max = sessionMax
	words := r.URL.Query()
	q, err := query(words)
	seen, n := map[[2]string]*session{}, 0
	if err == nil {
		err = s.read(r.Context(), index.Query{Before: q.Before, Limit: sessionMax, Lean: true}, func(r *index.Row) {
			key := [2]string{r.Agent, r.Session}
			if seen[key] == nil {
				seen[key] = &session{Agent: r.Agent, ID: r.Session}
				data.Sessions = append(data.Sessions, seen[key])
			}
			seen[key].add(row{Row: r, Word: recordview.Word(&r.Entry)})
			if n++; n == sessionMax {
				data.Older = older(words, r.Seq)
			}
		})
	}
	for _, x := range data.Sessions {
		x.Strip = strip(x.Rows)
	}
	s.show(w, http.StatusOK, "sessions", &view{Title: "Sessions", Path: "/sessions", Data: &data}, err)
}

// session shows the Records of one session. The index of sessions makes it fast.
func (s *Site) session(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	q, err := query(words)
	if err != nil || q.Session == "" {
		s.notFound(w, "No session is named.")
		return
	}
	var data struct {
		session
		Newest int64
		Older  string
	}
	q.Limit = perPage
	err = s.read(r.Context(), q, func(r *index.Row) {
		data.add(s.newRow(r))
		data.Dir = cmp.Or(data.Dir, recordview.NewItem(&r.Entry).Dir)
	})
	if len(data.Rows) == perPage {
		data.Older = older(words, data.Rows[perPage-1].Seq)
	}
	data.Agent, data.ID, data.Strip = q.Agent, q.Session, strip(data.Rows)
	s.show(w, http.StatusOK, "session", &view{Title: "Session " + printable.Line(q.Session), Path: "/sessions", Data: &data}, err)
}

// record shows one Record, its late results, its deliveries, and how its event is decided today.
func (s *Site) record(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	var data struct {
		*recordview.Item
		Word        string
		Late        []*index.Row
		Deliveries  []delivery.Job
		Explanation Explanation
		Unexplained string
	}
	err := s.read(ctx, index.Query{ID: id, Oldest: true}, func(r *index.Row) {
		if r.Late && data.Item != nil {
			data.Late = append(data.Late, r)
			return
		}
		data.Item, data.Word = recordview.NewItem(&r.Entry), recordview.Word(&r.Entry)
	})
	if data.Item == nil && err == nil {
		s.notFound(w, "No Record has this ID. Retention may have removed it.")
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	data.Deliveries, err = s.Source.Deliveries(ctx, queue.Query{Record: id, Limit: perPage})
	x, unexplained := s.Source.Explain(ctx, id)
	if data.Explanation = x; unexplained != nil {
		data.Unexplained = unexplained.Error()
	}
	s.show(w, http.StatusOK, "record", &view{Title: "Record " + data.ID, Path: "/events", Data: &data}, err)
}

// A summary is the statistics of the last days.
type summary struct {
	At     time.Time
	Totals stats.Totals // its Days begin with firstDay
}

// summary returns statistics that are at most countTime old.
func (s *Site) summary(ctx context.Context) (*summary, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	now := s.Now()
	if now.Sub(s.counted.At) < countTime {
		return s.counted, nil
	}
	sum := &summary{At: now}
	var err error
	if sum.Totals, err = s.Source.Totals(ctx, now.AddDate(0, 0, -countDays)); err == nil {
		first := firstDay(now)
		sum.Totals.Days = slices.DeleteFunc(sum.Totals.Days, func(d stats.Day) bool { return d.Begin.Before(first) })
		s.counted = sum
	}
	return sum, err
}

// firstDay returns the begin of the first day of the statistics.
func firstDay(now time.Time) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d-countDays+1, 0, 0, 0, 0, now.Location())
}

// overview shows the state of the machines, and charts of decisions and hooks.
func (s *Site) overview(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var data struct {
		*summary
		Machines          []Machine
		Many              bool
		Ill               int
		Dead, Would, Span int
		Decisions, Bars   template.HTML
		Slow, Failed      []stats.Hook
		Stopped           []row
	}
	var errs [4]error
	var targets []queue.Target
	var stopped *list
	data.Machines, errs[0] = s.Source.Machines(ctx)
	data.summary, errs[1] = s.summary(ctx)
	targets, errs[2] = s.Source.Targets(ctx)
	stopped, errs[3] = s.list(ctx, index.Query{Filter: spool.Filter{Decisions: []grapnel.Decision{grapnel.Ask, grapnel.Block}}}, nil)
	data.Many = s.Inbox == nil
	for i := range data.Machines {
		if len(data.Machines[i].Problems) > 0 {
			data.Ill++
		}
	}
	for _, t := range targets {
		data.Dead += t.Dead
	}
	data.Stopped = stopped.Rows[:min(5, len(stopped.Rows))]
	data.Span, data.Would = countDays, data.Totals.Would[grapnel.Block]+data.Totals.Would[grapnel.Ask]
	for i := range data.Totals.Hooks { // slowest first
		h := data.Totals.Hooks[i]
		if len(data.Slow) < maxBars && h.P95 >= 0.005 {
			data.Slow = append(data.Slow, h)
		}
		if len(data.Failed) < maxBars && h.Errors > 0 {
			data.Failed = append(data.Failed, h)
		}
	}
	data.Decisions, data.Bars = dayChart(data.Totals.Days, firstDay(data.At)), hookChart(data.Slow)
	s.show(w, http.StatusOK, "overview", &view{Title: "Overview", Path: "/", Data: &data}, errs[:]...)
}

// machines shows the machines whose Records are in the database.
func (s *Site) machines(w http.ResponseWriter, r *http.Request) {
	var data struct {
		Machines []Machine
		Ill      int
	}
	var err error
	data.Machines, err = s.Source.Machines(r.Context())
	for i := range data.Machines {
		if len(data.Machines[i].Problems) > 0 {
			data.Ill++
		}
	}
	s.show(w, http.StatusOK, "machines", &view{Title: "Machines", Path: "/machines", Data: &data}, err)
}

// policy shows the policies in force, and how often their hooks matched.
func (s *Site) policy(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var data struct {
		Policies
		Groups []group
		Dirs   []string // directories of agents in the newest Records
		Dir    string
		Days   int
	}
	var errs [3]error
	errs[0] = s.read(ctx, index.Query{Limit: perPage}, func(r *index.Row) {
		if dir := recordview.NewItem(&r.Entry).Dir; dir != "" && !slices.Contains(data.Dirs, dir) {
			data.Dirs = append(data.Dirs, dir)
		}
	})
	if dir := r.URL.Query().Get("dir"); slices.Contains(data.Dirs, dir) { // no other directory is read
		data.Dir = dir
	}
	var sum *summary
	data.Policies, errs[1] = s.Source.Policies(ctx, data.Dir)
	sum, errs[2] = s.summary(ctx)
	hooks.Count(data.Hooks, &sum.Totals)
	data.Days, data.Groups = countDays, groups(data.Hooks)
	s.show(w, http.StatusOK, "policy", &view{Title: "Policy", Path: "/policy", Data: &data}, errs[:]...)
}

// A group is the hooks of one source.
type group struct {
	Source string
	Scope  grapnel.Scope
	Hooks  []hooks.Hook
}

// groups returns hooks by source, in the order of their first hook.
func groups(list []hooks.Hook) (all []group) {
	for i := range list {
		h := &list[i]
		at := slices.IndexFunc(all, func(g group) bool { return g.Source == h.Source })
		if at < 0 {
			at = len(all)
			all = append(all, group{Source: h.Source, Scope: h.Scope})
		}
		all[at].Hooks = append(all[at].Hooks, *h)
	}
	return all
}

// deliveries shows the targets of webhooks, and the deliveries with a state.
func (s *Site) deliveries(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	data := struct {
		Targets         []queue.Target
		Jobs            []delivery.Job
		State           delivery.State
		States          []delivery.State
		Target, Retried string
		Max             int
	}{
		States: []delivery.State{delivery.Dead, delivery.Waiting, delivery.Delivered}, Max: 2 * perPage,
		State: delivery.State(words.Get("state")), Target: words.Get("target"), Retried: words.Get("retried"),
	}
	if !slices.Contains(data.States, data.State) {
		data.State = delivery.Dead
	}
	var errs [2]error
	data.Targets, errs[0] = s.Source.Targets(r.Context())
	data.Jobs, errs[1] = s.Source.Deliveries(r.Context(), queue.Query{State: data.State, Target: data.Target, Limit: data.Max})
	s.show(w, http.StatusOK, "deliveries", &view{Title: "Deliveries", Path: "/deliveries", Data: &data}, errs[:]...)
}

// retry makes dead deliveries wait again.
func (s *Site) retry(w http.ResponseWriter, r *http.Request) {
	n, err := 0, r.ParseForm()
	if err == nil {
		n, err = s.Source.Retry(r.Context(), r.PostForm["id"]...)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/deliveries?retried="+strconv.Itoa(n), http.StatusSeeOther)
}

// notFound shows that a page does not exist.
func (s *Site) notFound(w http.ResponseWriter, what string) {
	s.show(w, http.StatusNotFound, "message", &view{Title: "Not found", Error: what, Hint: "“Events” lists the Records that are stored."})
}

// fail shows an error.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	s.Log.Warn("cannot show a page", "path", r.URL.Path, "error", err)
	s.show(w, status, "message", &view{Title: "Error", Hint: "“grapnel daemon logs” may show the cause."}, err)
}
