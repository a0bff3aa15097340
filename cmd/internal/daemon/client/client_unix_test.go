//go:build linux || darwin

package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// daemon starts a fake daemon that calls does for each connection, and returns its socket.
func daemon(t *testing.T, does func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gr") //nolint:usetesting // a socket path must be short; mode 0700
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			does(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return socket
}

// A request is valid HTTP for other implementations, for any values in it.
func TestRequest(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]*Question{
		"nothing":  {},
		"all":      {Version: "1.2", Agent: "codex", Event: "PreToolUse", ID: "i", Root: "/r", Policies: []string{"/a", "/b"}, Home: "/h", Firing: "f", Parent: "00-1-2-01", Payload: []byte("{}")},
		"odd ones": {Version: "1\r\nX: y", Agent: "a b%\x00\xff", Root: "/ü /\r\n\r\n", Policies: []string{"\t", "%41"}, Payload: bytes.Repeat([]byte{0, '\r', '\n'}, 99999)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(q.request())))
			if err != nil {
				t.Fatal(err)
			}
			got := &Question{}
			if got.Payload, err = io.ReadAll(r.Body); err != nil || r.Method != http.MethodPost || r.URL.Path != Path || !r.Close {
				t.Errorf("%s %s, close %v, %v", r.Method, r.URL, r.Close, err)
			}
			value := func(name string) string {
				text, err := url.PathUnescape(r.Header.Get(name))
				if err != nil {
					t.Error(err)
				}
				return text
			}
			got.Agent, got.Event, got.ID, got.Root, got.Home = value(HeaderAgent), value(HeaderEvent), value(HeaderID), value(HeaderRoot), value(HeaderHome)
			got.Firing, got.Parent, got.Version = value(HeaderFiring), value(HeaderParent), strings.TrimSuffix(value(HeaderVersion), "/"+Version)
			for _, file := range r.Header.Values(HeaderPolicy) {
				file, err := url.PathUnescape(file)
				if err != nil {
					t.Error(err)
				}
				got.Policies = append(got.Policies, file)
			}
			want := *q
			want.Payload = append([]byte{}, q.Payload...)
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("(-said +read)\n%s", diff)
			}
		})
	}
}

// A program waits for the beginning of a reply for a fixed time, and for the rest for its Budget,
// even if a daemon sends one byte at a time. If a program waited too long, this test would last
// an hour or forever.
func TestTimes(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nGrapnel-Exit: 0\r\nGrapnel-Stdout: 2\r\n\r\nhi"
	slowly := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			for i := range text {
				if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
					return
				}
				time.Sleep(150 * time.Millisecond)
			}
		}
	}
	for name, tt := range map[string]struct {
		does   func(net.Conn)
		budget time.Duration
		err    error
	}{
		"says nothing":       {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, time.Hour, errSlow},
		"one byte each time": {slowly(answer), time.Hour, errSlow},
		"at work for ever": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		}, time.Second, errSlow},
		"always at work": {slowly(strings.Repeat("HTTP/1.1 102 P\r\n\r\n", 20)), time.Second, errSlow},
		"slowly, once at work": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n")
			slowly(answer)(conn)
		}, time.Second, errSlow},
		"in time, once at work": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n")
			time.Sleep(Beginning + 100*time.Millisecond)
			_, _ = io.WriteString(conn, answer)
		}, time.Hour, nil},
		"in two parts": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, answer[:len(answer)-1])
			time.Sleep(20 * time.Millisecond)
			_, _ = io.WriteString(conn, answer[len(answer)-1:])
		}, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := daemon(t, tt.does)
			var got *Answer
			var err error
			await.Until(t, "the answer of a daemon that is in time", func() bool { // a busy machine may be late
				got, err = Ask(socket, &Question{Payload: []byte("x"), Budget: tt.budget})
				return tt.err != nil || err == nil
			})
			if !errors.Is(err, tt.err) || err == nil && string(got.Stdout) != "hi" {
				t.Errorf("Ask = %+v, %v, want %v", got, err, tt.err)
			}
		})
	}
}

// If a daemon reads nothing, a program stops writing after the time for the beginning of a reply.
func TestDaemonReadsNothing(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	socket := daemon(t, func(net.Conn) { <-end })
	defer close(end)
	if _, err := Ask(socket, &Question{Payload: make([]byte, 32<<20), Budget: time.Hour}); err == nil {
		t.Error("who has answered?")
	}
}

func TestReadHead(t *testing.T) {
	t.Parallel()
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nGrapnel-Exit: 2\r\nGrapnel-Stdout: 3"
	for name, tt := range map[string]struct {
		text  string
		whole bool
	}{
		"good":               {good, true},
		"other spelling":     {strings.ToLower(good[:8]) + good[8:], false},
		"names in any case":  {good[:17] + strings.ToLower(good[17:]), true},
		"nothing beside":     {"HTTP/1.1 200" + good[15:], true},
		"no status":          {"HTTP/1.1 ", false},
		"half a status":      {"HTTP/1.1 20", false},
		"a longer status":    {"HTTP/1.1 2000 OK" + good[15:], false},
		"older":              {"HTTP/1.0" + good[8:], false},
		"newer":              {"HTTP/2 200" + good[15:], false},
		"no content":         {"HTTP/1.1 204 No" + good[15:], false},
		"moved":              {"HTTP/1.1 301 Mo" + good[15:], false},
		"broken":             {"HTTP/1.1 500 In" + good[15:], false},
		"no length":          {strings.Replace(good, "Content-Length", "X", 1), false},
		"no exit code":       {strings.Replace(good, "Grapnel-Exit", "X", 1), false},
		"no parts":           {strings.Replace(good, "Grapnel-Stdout", "X", 1), false},
		"too long":           {strings.Replace(good, ": 5", ": "+strconv.Itoa(maxAnswer+1), 1), false},
		"as long as may be":  {strings.Replace(good, ": 5", ": "+strconv.Itoa(maxAnswer), 1), true},
		"longer than all":    {strings.Replace(good, ": 5", ": 99999999999999999999", 1), false},
		"less than nothing":  {strings.Replace(good, ": 5", ": -5", 1), false},
		"no number":          {strings.Replace(good, ": 5", ": five", 1), false},
		"two numbers":        {strings.Replace(good, ": 5", ": 5, 5", 1), false},
		"no exit code so":    {strings.Replace(good, ": 2", ": 256", 1), false},
		"less than 0":        {strings.Replace(good, ": 2", ": -1", 1), false},
		"a part beyond all":  {strings.Replace(good, ": 3", ": 6", 1), false},
		"a part of nothing":  {strings.Replace(good, ": 3", ": -1", 1), false},
		"in pieces":          {strings.Replace(good, "Content-Length: 5", "Transfer-Encoding: chunked", 1), false},
		"a line without end": {good + "\r\nX", true},
	} {
		h, ok := readHead(tt.text)
		if got := ok && h.whole(); got != tt.whole {
			t.Errorf("%s: %q is whole: %v (%+v), want %v", name, tt.text, got, h, tt.whole)
		}
	}
}

// Any text is read without a panic. The values that a program uses are within their limits, and
// net/http reads the same values.
func FuzzReadHead(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nGrapnel-Exit: 2\r\nGrapnel-Stdout: 3\r\nGrapnel-Drain: 1", "HTTP/1.1 102 Processing", "HTTP/1.1 409 Conflict\r\n", "HTTP/1.1 +20",
		"HTTP/1.1 200\r\nGrapnel-Exit:0\r\nGrapnel-Stdout:0\r\nContent-Length: 0", "", "\r\n\r\n", "HTTP/1.1 200 \r\n:\r\n: 1\r\nContent-Length: 67108865",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, ok := readHead(text)
		if !ok || !h.whole() {
			return
		}
		if h.stdout < 0 || h.stdout > h.length || h.length > maxAnswer || h.exit < 0 || h.exit > 255 {
			t.Errorf("%q: %+v", text, h)
		}
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text+"\r\n\r\n")), nil)
		if err != nil {
			return // other implementations are stricter; this one talks only to a trusted daemon
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != h.status || resp.ContentLength >= 0 && len(resp.Header.Values("Content-Length")) == 1 && resp.ContentLength != int64(h.length) {
			t.Errorf("%q: %+v, others read %d, %d bytes", text, h, resp.StatusCode, resp.ContentLength)
		}
	})
}
