//go:build e2e && linux

package browser

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

var recordsFlag = flag.Int("records", 5000, "Records in the store when the time of pages is measured")

const (
	clicks    = 50
	goal      = 50 * time.Millisecond
	clickMax  = 5 * goal // a busy machine must not fail the test
	pageGoal  = 100 * time.Millisecond
	pageTries = 5
)

// spread describes sorted durations.
func spread(d []time.Duration) string {
	at := func(part int) time.Duration { return d[(len(d)-1)*part/100].Round(100 * time.Microsecond) }
	return fmt.Sprintf("median %v, p95 %v, maximum %v", at(50), at(95), at(100))
}

// The hook program ends soon after the click. This test runs alone, because others make it slower.
func TestClickTime(t *testing.T) {
	w := newWorld(t, askPush)
	p, _ := w.inbox(t, look{})
	var times []time.Duration
	for i := range clicks {
		c, card := w.waits(t, fmt.Sprint("s", i), "git push origin main")
		p.sees(t, card)
		eval[any](t, p, `addEventListener("click", () => sessionStorage.setItem("clicked", Date.now()), {capture: true})`)
		ended := make(chan time.Time, 1)
		go func() {
			err := <-c.ended
			ended <- time.Now()
			c.ended <- err
		}()
		p.click(t, button(card, "Approve once"))
		end := await.Receive(t, "the end of the hook program", ended)
		c.reply(t, allowed)
		p.gone(t, card) // the next page is there
		times = append(times, end.Sub(time.UnixMilli(int64(eval[float64](t, p, `Number(sessionStorage.getItem("clicked"))`)))))
	}
	slices.Sort(times)
	t.Logf("from the click to the end of the hook program: %s (goal %v)", spread(times), goal)
	if median := times[len(times)/2]; median > clickMax {
		t.Errorf("the median from the click to the end of the hook program is %v, want %v at most", median, clickMax)
	}
}

// It prints how long each page takes, and how many bytes it has. A store of a million Records, with
// -records 1000000, takes some minutes to fill.
func TestPageTime(t *testing.T) {
	w := newWorld(t, busy, filled(t, *recordsFlag))
	p, base := w.browse(t, look{})
	all := pages(t, p, base)
	all["older"] = "/events?before=1000"
	all["agent"] = "/events?agent=gemini-cli"
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableCompression: true}} // the size is of what is transferred
	get := func(address string) (bytes int64, took time.Duration) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip, br, zstd")
		begin := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		bytes, err = io.Copy(io.Discard, resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		end := time.Now()
		return bytes, end.Sub(begin)
	}
	get(w.link(t)) // the overview counts the Records once a minute
	for _, path := range []string{"/static/page.js", "/static/style.css", "/static/icon.svg"} {
		bytes, _ := get(base + path)
		t.Logf("%-12s %6d bytes", path, bytes)
	}
	for name, path := range all {
		var bytes int64
		var times []time.Duration
		for range pageTries {
			n, took := get(base + path)
			bytes, times = n, append(times, took)
		}
		slices.Sort(times)
		over := ""
		if times[pageTries/2] > pageGoal {
			over = fmt.Sprintf(": OVER %v", pageGoal)
		}
		t.Logf("%-12s %6d bytes: %s%s", name, bytes, spread(times), over)
	}
}
