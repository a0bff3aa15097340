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
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/hooks"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/watch"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

const (
	perPage    = 50
	maxSearch  = 50_000      // Records that one page searches, so that it is fast at any size of the store
	sessionMax = 1000        // Records that the list of sessions covers
	maxBars    = 8           // hooks in a chart
	maxAbout   = 300         // bytes of a command, path or text in a list
	countDays  = 7           // of the statistics
	countTime  = time.Minute // for which statistics are valid, because counting takes long in a large store
)

// funcs are the functions of the templates.
var funcs = template.FuncMap{
	"links":  links,
	"line":   func(v any) string { return printable.Line(fmt.Sprint(v)) },
	"text":   func(v any) string { return printable.Text(fmt.Sprint(v)) },
	"number": func(n any) string { return printable.Number(asInt(n)) },
	"count":  func(n any, what string) string { return printable.Count(asInt(n), what) },
	"times": func(m map[grapnel.Decision]int, word string) (n int) {
		for d, times := range m {
			if d.String() == word {
				n = times
			}
		}
		return n
	},
	"asked": func(line []byte) string { // the call of a request
		var e spool.Entry
		if json.Unmarshal(line, &e) != nil {
			return ""
		}
		return watch.About(&e, maxAbout)
	},
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"clock": func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
	"ms": func(ms float64) string {
		return strconv.FormatFloat(ms, 'f', map[bool]int{true: 2}[ms < 10], 64) + " ms"
	},
	"bytes": func(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB" },
	"base":  func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] },
}

func asInt(n any) int {
	if n, ok := n.(int64); ok {
		return int(n)
	}
	return n.(int)
}

// A row is a Record in a list.
type row struct {
	*store.Row
	Word, About string
	By          []string // hooks that decided or failed
}

func newRow(r *store.Row) (out row) {
	by := func(text string) { // hooks of two sources may have the same name
		if !slices.Contains(out.By, text) {
			out.By = append(out.By, text)
		}
	}
	out = row{Row: r, Word: watch.Word(&r.Entry), About: printable.Line(watch.About(&r.Entry, maxAbout))}
	for i := range r.Hooks {
		switch h := &r.Hooks[i]; {
		case h.Error != "":
			by(h.Name + " failed")
		case h.Observed && h.Decision > grapnel.None:
			by(h.Name + " would " + h.Decision.String())
		case h.Decision > grapnel.None || h.Halt || len(h.Changed) > 0:
			by(h.Name)
		}
	}
	if len(out.By) == 0 && len(r.Reasons) > 0 {
		out.By = []string{r.Reasons[0].Text}
	}
	return out
}

// A list is a page of Records, newest first.
type list struct {
	Rows     []row
	Newest   int64  // number of the newest row when the page was made
	Older    string // query of the next page; empty = no older Records
	Searched int    // Records that were searched if the page is not full
	Live     bool   // new Records belong to this page
}

// list reads the Records of a query. words are the parameters of the page.
func (s *Site) list(ctx context.Context, q store.Query, words url.Values) (*list, error) {
	l := &list{Live: q.Before == 0}
	for r, err := range s.Source.Records(ctx, store.Query{Limit: 1, Lean: true}) {
		if err != nil && r.Line == nil {
			return l, err
		}
		l.Newest = r.Seq
	}
	end := l.Newest + 1
	if q.Before > 0 {
		end = min(end, q.Before)
	}
	q.Before, q.After, q.Limit = end, max(0, end-1-maxSearch), perPage
	for r, err := range s.Source.Records(ctx, q) {
		if err != nil && r.Line == nil {
			return l, err
		}
		l.Rows = append(l.Rows, newRow(&r))
	}
	next := q.After + 1
	if len(l.Rows) == perPage {
		next = l.Rows[perPage-1].Seq
	} else {
		l.Searched = int(end - 1 - q.After)
	}
	if next > 1 {
		older := url.Values{}
		for name, values := range words {
			older[name] = values
		}
		older.Set("before", strconv.FormatInt(next, 10))
		l.Older = "?" + older.Encode()
	}
	return l, nil
}

// query returns the query that the parameters of a page describe. Empty parameters are ignored.
func query(words url.Values) (q store.Query, err error) {
	for name, values := range words {
		words[name] = slices.DeleteFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" })
	}
	if q.Filter, err = server.FilterOf(words); err != nil {
		return q, err
	}
	q.Would, q.Text = words.Get("would") != "", words.Get("text")
	if before := words.Get("before"); before != "" {
		if q.Before, err = strconv.ParseInt(before, 10, 64); err != nil || q.Before < 1 {
			return q, errors.New("before: want the number of a row")
		}
	}
	if q.Text != "" {
		err = store.ValidText(q.Text)
	}
	return q, err
}

// events shows the Records that match a filter. New ones are added while the page is open.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	q, err := query(words)
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
	for name := range words {
		data.Filtered = data.Filtered || name != "before" && words.Get(name) != ""
	}
	v := &view{Title: "Events", Path: "/events", Data: &data}
	status := http.StatusOK
	if err == nil {
		data.list, err = s.list(r.Context(), q, words)
	} else {
		status = http.StatusBadRequest
	}
	if err != nil {
		v.Error = err.Error()
	}
	s.show(w, status, "events", v)
}

// streamPause is the time between two writes to a stream, so that a busy agent does not overload
// the browser.
const streamPause = 200 * time.Millisecond

// stream sends the list entries of new Records as server-sent events.
func (s *Site) stream(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	q, err := query(words)
	after := cmp.Or(r.Header.Get("Last-Event-ID"), words.Get("after"))
	if err == nil {
		q.After, err = strconv.ParseInt(after, 10, 64)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.Oldest, q.Before, q.Limit = true, 0, perPage
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	live := s.Source.Subscribe(r.Context()) // before the stored Records are read, so that none is missed
	beat := time.NewTicker(15 * time.Second)
	defer beat.Stop()
	for text := ": new Records\n\n"; ; text = "" {
		if text, err = s.news(r.Context(), &q, text); err != nil {
			return
		}
		_, err = w.Write([]byte(text))
		if err = errors.Join(err, control.Flush()); err != nil {
			return
		}
		if !s.wait(r.Context(), time.After(streamPause), nil) || !s.wait(r.Context(), beat.C, live) {
			return
		}
		drain(live)
	}
}

// wait returns true when the time is due or a Record was stored, and false when the stream ends.
func (s *Site) wait(ctx context.Context, due <-chan time.Time, live <-chan store.Live) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.Stopping:
		return false
	case <-due:
		return true
	case _, more := <-live:
		return more
	}
}

// drain receives the signals that are waiting.
func drain(live <-chan store.Live) {
	for {
		select {
		case _, more := <-live:
			if !more {
				return
			}
		default:
			return
		}
	}
}

// news appends the Records after the last one to a stream, or a comment if there are none.
func (s *Site) news(ctx context.Context, q *store.Query, text string) (string, error) {
	var b strings.Builder
	b.WriteString(cmp.Or(text, ": still here\n\n"))
	for r, err := range s.Source.Records(ctx, *q) {
		if err != nil && r.Line == nil {
			return "", err
		}
		q.After = r.Seq
		var html strings.Builder
		if err := pages()["events"].ExecuteTemplate(&html, "row", newRow(&r)); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "id: %d\ndata: %s\n\n", r.Seq, strings.Join(strings.Fields(html.String()), " "))
	}
	return b.String(), nil
}

// A session is the Records of one session in a list.
type session struct {
	Agent, ID, Dir                 string
	First, Last                    time.Time
	Events, Blocked, Asked, Failed int
	rows                           []row
	Strip                          template.HTML
}

func (x *session) add(r *row) {
	x.rows = append(x.rows, *r)
	x.First, x.Last = r.Time, cmp.Or(x.Last, r.Time)
	if r.Late {
		return
	}
	x.Events++
	switch {
	case r.Decision == grapnel.Block || r.Halt != "":
		x.Blocked++
	case r.Decision == grapnel.Ask:
		x.Asked++
	}
	if r.Error != "" || slices.ContainsFunc(r.Hooks, func(h grapnel.HookRun) bool { return h.Error != "" }) {
		x.Failed++
	}
}

// sessions shows the sessions of the newest Records as time lines.
func (s *Site) sessions(w http.ResponseWriter, r *http.Request) {
	q, err := query(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var data struct {
		Sessions []*session
		Max      int
		Older    int64
	}
	data.Max = sessionMax
	seen, n := map[[2]string]*session{}, 0
	for rec, err := range s.Source.Records(r.Context(), store.Query{Before: q.Before, Limit: sessionMax, Lean: true}) {
		if err != nil && rec.Line == nil {
			s.fail(w, r, err)
			return
		}
		key := [2]string{rec.Agent, rec.Session}
		x := seen[key]
		if x == nil {
			x = &session{Agent: rec.Agent, ID: rec.Session}
			seen[key] = x
			data.Sessions = append(data.Sessions, x)
		}
		x.add(&row{Row: &rec, Word: watch.Word(&rec.Entry)})
		if n++; n == sessionMax {
			data.Older = rec.Seq
		}
	}
	for _, x := range data.Sessions {
		x.Strip = strip(x.rows)
	}
	s.show(w, http.StatusOK, "sessions", &view{Title: "Sessions", Path: "/sessions", Data: &data})
}

// session shows the Records of one session.
func (s *Site) session(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	q, err := query(words)
	if err != nil || q.Session == "" {
		s.notFound(w, "No session is named.")
		return
	}
	data := struct {
		*list
		session
	}{list: &list{}}
	end := q.Before
	q.Limit = perPage
	for rec, err := range s.Source.Records(r.Context(), q) { // the index of sessions makes it fast
		if err != nil && rec.Line == nil {
			s.fail(w, r, err)
			return
		}
		next := newRow(&rec)
		data.Rows = append(data.Rows, next)
		data.session.add(&next)
		data.Dir = cmp.Or(data.Dir, watch.NewItem(&rec.Entry).Dir)
		end = rec.Seq
	}
	if len(data.Rows) == perPage {
		words.Set("before", strconv.FormatInt(end, 10))
		data.Older = "?" + words.Encode()
	}
	data.Agent, data.ID, data.Strip = q.Agent, q.Session, strip(data.Rows)
	s.show(w, http.StatusOK, "session", &view{Title: "Session " + printable.Line(q.Session), Path: "/sessions", Data: &data})
}

// record shows one Record, its late results, its deliveries, and how its event is decided today.
func (s *Site) record(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	var data struct {
		*watch.Item
		Word, Verb  string
		Late        []store.Row
		Deliveries  []delivery.Job
		Explanation *Explanation
		Unexplained string
	}
	for rec, err := range s.Source.Records(ctx, store.Query{ID: id, Oldest: true}) {
		switch {
		case err != nil && rec.Line == nil:
			s.fail(w, r, err)
			return
		case rec.Late && data.Item != nil:
			data.Late = append(data.Late, rec)
		default:
			data.Item, data.Word = watch.NewItem(&rec.Entry), watch.Word(&rec.Entry)
		}
	}
	if data.Item == nil {
		s.notFound(w, "No Record has this ID. Retention may have removed it.")
		return
	}
	v := &view{Title: "Record " + data.ID, Path: "/events", Data: &data}
	var err error
	if data.Deliveries, err = s.Source.Deliveries(ctx, store.DeliveryQuery{Record: id, Limit: perPage}); err != nil {
		v.Error = err.Error()
	}
	if x, err := s.Source.Explain(ctx, id); err == nil {
		data.Explanation = &x
	} else {
		data.Unexplained = err.Error()
	}
	s.show(w, http.StatusOK, "record", v)
}

func (s *Site) notFound(w http.ResponseWriter, what string) {
	s.show(w, http.StatusNotFound, "message", &view{Title: "Not found", Error: what, Hint: "“Events” lists the Records that are stored."})
}

// A summary is the statistics of the last days.
type summary struct {
	At       time.Time
	Totals   stats.Totals
	Days     []store.Day
	Complete bool // Days covers all Records
}

// summary returns statistics that are at most countTime old.
func (s *Site) summary(ctx context.Context) (*summary, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	now := s.Now()
	if now.Sub(s.counted.At) < countTime {
		return s.counted, nil
	}
	y, m, d := now.Date()
	counter, err := s.Source.Count(ctx, now.AddDate(0, 0, -countDays))
	if err != nil {
		return &summary{At: now}, err
	}
	sum := &summary{At: now, Totals: counter.Totals()}
	if sum.Days, sum.Complete, err = s.Source.Days(ctx, time.Date(y, m, d-countDays+1, 0, 0, 0, 0, now.Location())); err == nil {
		s.counted = sum
	}
	return sum, err
}

// overview shows the state of the machines, and charts of decisions and hooks.
func (s *Site) overview(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var data struct {
		*summary
		Machines          []Machine
		Dead, Would, Span int
		Decisions, Bars   template.HTML
		Slow, Failed      []stats.Hook
		Stopped           []row
	}
	var errs [4]error
	data.Span = countDays
	data.Machines, errs[0] = s.Source.Machines(ctx)
	data.summary, errs[1] = s.summary(ctx)
	targets, err := s.Source.Targets(ctx)
	errs[2] = err
	for _, t := range targets {
		data.Dead += t.Dead
	}
	stopped, err := s.list(ctx, store.Query{Filter: spool.Filter{Decisions: []grapnel.Decision{grapnel.Ask, grapnel.Block}}}, nil)
	errs[3] = err
	data.Stopped = stopped.Rows[:min(5, len(stopped.Rows))]
	data.Would = data.Totals.Would[grapnel.Block] + data.Totals.Would[grapnel.Ask]
	for i := range data.Totals.Hooks { // slowest first
		h := data.Totals.Hooks[i]
		if len(data.Slow) < maxBars && h.P95 >= 0.005 {
			data.Slow = append(data.Slow, h)
		}
		if len(data.Failed) < maxBars && h.Errors > 0 {
			data.Failed = append(data.Failed, h)
		}
	}
	data.Decisions, data.Bars = dayChart(data.Days, data.At), hookChart(data.Slow)
	v := &view{Title: "Overview", Path: "/", Data: &data}
	if err := errors.Join(errs[:]...); err != nil {
		v.Error = err.Error()
	}
	s.show(w, http.StatusOK, "overview", v)
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
	data.Days = countDays
	for rec := range s.Source.Records(ctx, store.Query{Limit: perPage}) {
		if dir := watch.NewItem(&rec.Entry).Dir; dir != "" && !slices.Contains(data.Dirs, dir) {
			data.Dirs = append(data.Dirs, dir)
		}
	}
	if dir := r.URL.Query().Get("dir"); slices.Contains(data.Dirs, dir) { // no other directory is read
		data.Dir = dir
	}
	policies, err := s.Source.Policies(ctx, data.Dir)
	sum, err2 := s.summary(ctx)
	data.Policies = policies
	hooks.Count(data.Hooks, &sum.Totals)
	data.Groups = groups(data.Hooks)
	v := &view{Title: "Policy", Path: "/policy", Data: &data}
	if err := errors.Join(err, err2); err != nil {
		v.Error = err.Error()
	}
	s.show(w, http.StatusOK, "policy", v)
}

// A group is the hooks of one source.
type group struct {
	Source, Scope string
	Hooks         []hooks.Hook
}

// groups returns hooks by source, in the order of their first hook.
func groups(list []hooks.Hook) (all []group) {
	for i := range list {
		h := &list[i]
		at := slices.IndexFunc(all, func(g group) bool { return g.Source == h.Source })
		if at < 0 {
			at = len(all)
			all = append(all, group{Source: h.Source, Scope: h.Scope.String()})
		}
		all[at].Hooks = append(all[at].Hooks, *h)
	}
	return all
}

// deliveries shows the targets of webhooks, and the deliveries with a state.
func (s *Site) deliveries(w http.ResponseWriter, r *http.Request) {
	var data struct {
		Targets []store.Target
		Jobs    []delivery.Job
		State   delivery.State
		Target  string
		States  []delivery.State
		Retried string
		Max     int
	}
	words := r.URL.Query()
	data.States, data.Max = []delivery.State{delivery.Dead, delivery.Waiting, delivery.Delivered}, 2*perPage
	data.State, data.Target, data.Retried = delivery.State(words.Get("state")), words.Get("target"), words.Get("retried")
	if !slices.Contains(data.States, data.State) {
		data.State = delivery.Dead
	}
	var err, err2 error
	data.Targets, err = s.Source.Targets(r.Context())
	data.Jobs, err2 = s.Source.Deliveries(r.Context(), store.DeliveryQuery{State: data.State, Target: data.Target, Limit: data.Max})
	v := &view{Title: "Deliveries", Path: "/deliveries", Data: &data}
	if err := errors.Join(err, err2); err != nil {
		v.Error = err.Error()
	}
	s.show(w, http.StatusOK, "deliveries", v)
}

// retry makes dead deliveries wait again.
func (s *Site) retry(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n, err := s.Source.Retry(r.Context(), r.PostForm["id"]...)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/deliveries?retried="+strconv.Itoa(n), http.StatusSeeOther)
}
