package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

const (
	perPage   = 50
	maxSearch = 50_000 // Records that one page searches, so that it is fast at any size of the log
	maxAbout  = 300    // bytes of a command, path or text in a list

	streamPause = 200 * time.Millisecond // between two writes to a stream: a busy agent must not overload the browser
	heartbeat   = 15 * time.Second       // between writes to an idle stream, to notice a client that has disconnected
)

// A row is a Record in a list.
type row struct {
	*index.Row
	Word, About string
	Host        string   // only among the Records of many machines
	By          []string // hooks that decided or failed
}

func (s *Site) newRow(r *index.Row) row {
	out := row{Row: r, Word: recordview.Word(&r.Entry), About: printable.Line(recordview.About(&r.Entry, maxAbout))}
	for i := range r.Hooks {
		switch h := &r.Hooks[i]; recordview.DidOf(h) {
		case recordview.Failed, recordview.FailedOpen:
			out.By = append(out.By, h.Name+" failed")
		case recordview.Would:
			out.By = append(out.By, h.Name+" would "+h.Decision.String())
		case recordview.Approved:
			out.By = append(out.By, h.Name+" allowed")
		case recordview.Decided, recordview.Changed:
			out.By = append(out.By, h.Name)
		case recordview.Nothing:
		}
	}
	if s.Inbox == nil {
		out.Host = r.Host
	}
	slices.Sort(out.By)
	out.By = slices.Compact(out.By)             // hooks of two sources may have the same name
	if len(out.By) == 0 && len(r.Reasons) > 0 { // of Grapnel itself, such as a grant
		out.About = printable.Line(wording.Shorten(r.Reasons[0].Text, maxAbout))
	}
	return out
}

// read calls add for each Record of a query.
func (s *Site) read(ctx context.Context, q index.Query, add func(r *index.Row)) error {
	for r, err := range s.Source.Records(ctx, q) {
		if err != nil && r.Line == nil { // otherwise only the event cannot be read
			return err
		}
		add(&r)
	}
	return nil
}

// A list is a page of Records, newest first.
type list struct {
	Rows     []row
	Newest   int64  // number of the newest row when the page was made
	Older    string // query of the next page; empty = no older Records
	Searched int    // Records that were searched if the page is not full
	Live     bool   // the page adds new Records
}

// list reads the Records of a query. words are the parameters of the page.
func (s *Site) list(ctx context.Context, q index.Query, words url.Values) (*list, error) {
	l := &list{Live: q.Before == 0}
	err := s.read(ctx, index.Query{Limit: 1, Lean: true}, func(r *index.Row) { l.Newest = r.Seq })
	if q.Before == 0 || q.Before > l.Newest {
		q.Before = l.Newest + 1
	}
	q.Limit = perPage
	if err == nil {
		q.After, err = s.Source.Back(ctx, q.Before, maxSearch)
	}
	next := q.After + 1
	if err == nil {
		err = s.read(ctx, q, func(r *index.Row) { l.Rows = append(l.Rows, s.newRow(r)) })
	}
	if len(l.Rows) == perPage {
		next = l.Rows[perPage-1].Seq
	} else {
		l.Searched = maxSearch
	}
	if next > 1 {
		l.Older = older(words, next)
	}
	return l, err
}

// older returns the query of the page with the Records before a row.
func older(words url.Values, before int64) string {
	next := url.Values{"before": {strconv.FormatInt(before, 10)}}
	for name, values := range words {
		if name != "before" {
			next[name] = values
		}
	}
	return "?" + next.Encode()
}

// query returns the query that the parameters of a page describe. Empty parameters are ignored.
func query(words url.Values) (q index.Query, err error) {
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
		err = index.ValidText(q.Text)
	}
	return q, err
}

// stream sends the list entries of new Records as server-sent events. It reads them like a page,
// and the subscription only wakes it, so a filter selects the same Records in both.
func (s *Site) stream(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query()
	q, err := query(words)
	if err == nil {
		q.After, err = strconv.ParseInt(cmp.Or(r.Header.Get("Last-Event-ID"), words.Get("after")), 10, 64)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.Oldest, q.Before, q.Limit = true, 0, perPage
	ctx, send := r.Context(), startStream(w)
	live := s.Source.Subscribe(ctx) // before the stored Records are read, so that none is missed
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var seen int64 // the last row that is stored for certain
	for {
		n, text := 0, ": new Records\n\n"
		err := s.read(ctx, q, func(r *index.Row) {
			var html strings.Builder
			if pages()["events"].ExecuteTemplate(&html, "row", s.newRow(r)) == nil {
				text += fmt.Sprintf("id: %d\ndata: %s\n\n", r.Seq, strings.Join(strings.Fields(html.String()), " "))
			}
			n, q.After = n+1, r.Seq
		})
		if err != nil || !send(text) || !s.wait(ctx, time.After(streamPause), nil, nil) {
			return
		}
		if n == perPage { // there may be more
			continue
		}
		q.After = max(q.After, seen)
		if !s.wait(ctx, beat.C, live, &seen) {
			return
		}
	}
}

// startStream begins a response of server-sent events. send reports whether the client is there.
func startStream(w http.ResponseWriter) (send func(text string) bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	return func(text string) bool {
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
}

// wait returns true when the time is due or Records were stored, and false when the stream ends. It
// sets seen to the last of these Records.
func (s *Site) wait(ctx context.Context, due <-chan time.Time, live <-chan index.Live, seen *int64) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.Stopping:
		return false
	case <-due:
		return true
	case now, more := <-live:
		for more {
			*seen = now.Seq
			select {
			case now, more = <-live: // one look at the log is enough for all
			default:
				return true
			}
		}
		return false
	}
}
