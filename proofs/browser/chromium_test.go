//go:build e2e && linux

package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A driver is the program that drives Chromium. All tests share it, each with its own contexts.
type driver struct {
	cmd    *exec.Cmd
	home   string
	stderr bytes.Buffer
	read   chan struct{} // closed at the end of the replies

	mu    sync.Mutex // guards the rest
	in    io.WriteCloser
	next  int
	waits map[int]chan reply
}

type request struct {
	ID     int    `json:"id"`
	Page   string `json:"page"`
	On     string `json:"on,omitempty"`
	Method string `json:"method"`
	Args   []any  `json:"args"`
}

type reply struct {
	ID     int
	Result json.RawMessage
	Error  string
}

// shared starts the driver for the first test that needs it.
var shared = sync.OnceValues(startDriver)

// started is the shared driver, if a test needed it.
var started *driver

func startDriver() (*driver, error) {
	program, err := chromium()
	if err != nil {
		return nil, err
	}
	cache, err := npm.CacheDir()
	if err != nil {
		return nil, err
	}
	nodePath, err := npm.FindNode(cache, node)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "grapnel-chromium-")
	if err != nil {
		return nil, err
	}
	d := &driver{home: home, read: make(chan struct{}), waits: map[int]chan reply{}}
	d.cmd = exec.Command(nodePath, "driver.mjs", modules(prefix(cache)), program, strconv.FormatInt(await.Limit.Milliseconds(), 10))
	d.cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	d.cmd.Stderr = &d.stderr
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	started = d
	go d.listen(out)
	return d, nil
}

// listen passes on the replies.
func (d *driver) listen(out io.Reader) {
	defer close(d.read)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			r.Error = fmt.Sprintf("%v: %s", err, line)
		}
		d.mu.Lock()
		if wait := d.waits[r.ID]; wait != nil {
			wait <- r
		}
		delete(d.waits, r.ID)
		d.mu.Unlock()
	}
}

// ask sends a request and waits for its reply.
func (d *driver) ask(r request) (json.RawMessage, error) {
	wait := make(chan reply, 1)
	d.mu.Lock()
	d.next++
	r.ID = d.next
	d.waits[r.ID] = wait
	line, err := json.Marshal(r)
	if err == nil {
		_, err = d.in.Write(append(line, '\n'))
	}
	d.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &d.stderr)
	}
	select {
	case got := <-wait:
		if got.Error != "" {
			return nil, fmt.Errorf("%s %s %s: %s", r.Page, r.Method, r.On, got.Error)
		}
		return got.Result, nil
	case <-d.read:
		return nil, fmt.Errorf("the driver has ended: %s", &d.stderr)
	}
}

// closeChromium ends the driver and Chromium, if they run.
func closeChromium() error {
	if started == nil {
		return nil
	}
	_ = started.in.Close()
	<-started.read
	err := started.cmd.Wait()
	if removed := os.RemoveAll(started.home); err == nil {
		err = removed
	}
	return err
}

// A look is how a browser shows pages.
type look struct {
	width   int // 0 = 1280
	dark    bool
	zoomed  bool // to 200 %
	reduced bool // no motion
}

// A page is a tab of a browser. All its methods wait until they are possible.
type page struct {
	name string
	d    *driver
}

var pageNames = struct {
	sync.Mutex
	last int
}{}

// newPage opens a tab. It belongs to the browser of another tab, or to a new one. At the end of the
// test, the tab must have no errors.
func newPage(t testing.TB, l look, other *page) *page {
	t.Helper()
	d, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	pageNames.Lock()
	pageNames.last++
	p := &page{fmt.Sprintf("p%d", pageNames.last), d}
	pageNames.Unlock()
	options := map[string]any{"viewport": map[string]int{"width": 1280, "height": 800}, "colorScheme": "light"}
	if l.width > 0 {
		options["viewport"] = map[string]int{"width": l.width, "height": 800}
	}
	if l.dark {
		options["colorScheme"] = "dark"
	}
	if l.zoomed {
		options["deviceScaleFactor"] = 2
	}
	if l.reduced {
		options["reducedMotion"] = "reduce"
	}
	args := []any{options}
	if other != nil {
		args = append(args, other.name)
	}
	p.do(t, "", "open", args...)
	t.Cleanup(func() {
		var problems []string
		p.result(t, &problems, "", "problems")
		for _, problem := range slices.DeleteFunc(problems, expected) {
			t.Errorf("an error in the page: %s", problem)
		}
		if other == nil {
			p.do(t, "", "closeContext")
		}
	})
	return p
}

// expected reports whether the browser reports an answer that is part of the test: the page of a
// refused request, or a daemon that has stopped.
func expected(problem string) bool {
	return strings.Contains(problem, "Failed to load resource: ")
}

// result calls a method of the page, or of a locator, and decodes its result.
func (p *page) result(t testing.TB, into any, on, method string, args ...any) {
	t.Helper()
	if args == nil {
		args = []any{}
	}
	raw, err := p.d.ask(request{Page: p.name, On: on, Method: method, Args: args})
	if err == nil && into != nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *page) do(t testing.TB, on, method string, args ...any) {
	t.Helper()
	p.result(t, nil, on, method, args...)
}

// visit loads a page and returns the status.
func (p *page) visit(t testing.TB, address string) (status int) {
	t.Helper()
	p.result(t, &status, "", "goto", address)
	return status
}

func (p *page) click(t testing.TB, on string) { t.Helper(); p.do(t, on, "click") }

func (p *page) press(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		p.do(t, "", "press", key)
	}
}

// sees waits until the element is visible, and returns its text.
func (p *page) sees(t testing.TB, on string) (text string) {
	t.Helper()
	p.do(t, on, "waitFor", map[string]string{"state": "visible"})
	p.result(t, &text, on, "innerText")
	return text
}

// gone waits until no element is visible.
func (p *page) gone(t testing.TB, on string) {
	t.Helper()
	p.do(t, on, "waitFor", map[string]string{"state": "hidden"})
}

// count returns how many elements exist now.
func (p *page) count(t testing.TB, on string) (n int) {
	t.Helper()
	p.result(t, &n, on, "count")
	return n
}

// eval returns the value of an expression in the page.
func eval[T any](t testing.TB, p *page, expression string) (value T) {
	t.Helper()
	p.result(t, &value, "", "evaluate", expression)
	return value
}

// origin returns the address of a link without its path.
func origin(link string) string {
	base, _, _ := strings.Cut(link, "/login")
	return base
}

// shoot writes a picture of what the browser shows.
func (p *page) shoot(t testing.TB, file string, options map[string]any) {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"path": file}
	maps.Copy(all, options)
	p.do(t, "", "screenshot", all)
}
