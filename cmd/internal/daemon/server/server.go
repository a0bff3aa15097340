package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
)

// How long a connection is waited for.
const (
	headTime = 5 * time.Second // for the head of the first request
	idleTime = time.Minute     // for the next one
	tellTime = 5 * time.Second // until it has taken what is written
)

// maxHead is the size in bytes of the largest head that a [Server] reads by itself.
const maxHead = 16 << 10

// A Server serves what openapi.yaml describes. The questions of programs, which come in the
// very words of package client, it reads and answers by itself, since an agent waits for them
// and net/http would take as long as the policy does. All other requests are for net/http.
type Server struct {
	opts Options
	rest *http.Server

	mu     sync.Mutex
	conns  map[*exchange]struct{}
	closed bool
	l      net.Listener
	wait   sync.WaitGroup

	next chan *exchange // to goroutines that wait for one
	idle atomic.Int32   // of these
}

// NewServer makes a Server. rest, whose Handler it sets, is for all that is not asked by
// package client.
func NewServer(opts Options, rest *http.Server) *Server {
	rest.Handler = Handler(opts)
	return &Server{opts: opts, rest: rest, conns: map[*exchange]struct{}{}, next: make(chan *exchange)}
}

// Serve serves connections until Shutdown or Close, and then returns [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	s.l = l
	s.mu.Unlock()
	others := &handed{addr: l.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.rest.Serve(others) }()
	err := s.accept(l, others)
	close(s.next)
	s.wait.Wait()
	_ = others.Close()
	if restErr := <-served; !errors.Is(restErr, http.ErrServerClosed) && !errors.Is(restErr, net.ErrClosed) {
		err = errors.Join(err, restErr)
	}
	return err
}

// accept takes connections until it is told to end.
func (s *Server) accept(l net.Listener, others *handed) error {
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			switch {
			case closed:
				return http.ErrServerClosed
			case errors.Is(err, net.ErrClosed):
				return err
			}
			pause = min(max(5*time.Millisecond, 2*pause), time.Second) // mostly there are too many open files
			time.Sleep(pause)
			continue
		}
		pause = 0
		x := &exchange{Server: s, conn: conn}
		if !s.begin(x) {
			_ = conn.Close()
			continue
		}
		select {
		case s.next <- x:
		default:
			go s.work(x, others)
		}
	}
}

// maxIdle is how many goroutines wait for connections. Their stacks have grown already,
// which takes a twentieth of the time of an answer.
const maxIdle = 32

// work serves one connection after the other.
func (s *Server) work(x *exchange, others *handed) {
	for ok := true; ok; {
		x.serve(others)
		if s.idle.Add(1) > maxIdle {
			s.idle.Add(-1)
			return
		}
		x, ok = <-s.next
		s.idle.Add(-1)
	}
}

// begin counts a connection in, unless the server ends.
func (s *Server) begin(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[x] = struct{}{}
	s.wait.Add(1)
	return true
}

func (s *Server) end(x *exchange) {
	s.mu.Lock()
	delete(s.conns, x)
	s.mu.Unlock()
	s.wait.Done()
}

// Shutdown takes no more connections, and waits until those that are being answered have
// been, as long as ctx lasts. What goes on then is cut off: Serve returns soon after.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stop((*exchange).wake)
	done := make(chan struct{})
	go func() {
		s.wait.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, context.Cause(ctx), s.stop(func(x *exchange) { _ = x.conn.Close() }))
	}
	if failed := s.rest.Shutdown(ctx); failed != nil {
		err = errors.Join(err, failed, s.rest.Close())
	}
	return err
}

// Close closes all connections.
func (s *Server) Close() error {
	return errors.Join(s.stop(func(x *exchange) { _ = x.conn.Close() }), s.rest.Close())
}

// stop has no new connection begin, and does something with those that there are.
func (s *Server) stop(do func(*exchange)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.conns {
		do(x)
	}
	if s.closed || s.l == nil {
		s.closed = true
		return nil
	}
	s.closed = true
	return s.l.Close()
}

// handed is a listener for connections that are handed over.
type handed struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handed) Addr() net.Addr { return h.addr }

// take hands a connection over, of which something was read.
func (h *handed) take(conn net.Conn, read []byte) {
	_ = conn.SetReadDeadline(time.Time{})
	select {
	case h.conns <- &reread{Conn: conn, read: bytes.Clone(read)}:
	case <-h.closed:
		_ = conn.Close()
	}
}

// reread is a connection that begins with what was read of it.
type reread struct {
	net.Conn
	read []byte
}

func (r *reread) Read(into []byte) (int, error) {
	if len(r.read) > 0 {
		n := copy(into, r.read)
		r.read = r.read[n:]
		return n, nil
	}
	return r.Conn.Read(into)
}

// CloseWrite lets net/http end a connection so that what it wrote last arrives.
func (r *reread) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// An exchange is the work on one connection.
type exchange struct {
	*Server
	conn net.Conn
	buf  []byte // what was read and not used

	mu      sync.Mutex
	working bool // on an answer
	ended   bool // it is to end with that
}

// wake ends it, once what is being answered has been.
func (x *exchange) wake() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended = true; !x.working {
		_ = x.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// goOn begins or ends the work on an answer, and reports whether there is to be more.
func (x *exchange) goOn(working bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.working = working
	return !x.ended
}

var buffers = sync.Pool{New: func() any { return new([maxHead]byte) }}

// serve answers what comes over the connection, or hands it over.
func (x *exchange) serve(others *handed) {
	space := buffers.Get().(*[maxHead]byte)
	defer buffers.Put(space)
	defer x.end(x)
	x.buf = space[:0]
	if !x.wait(headTime) {
		_ = x.conn.Close()
		return
	}
	for {
		head, ours, err := x.head()
		switch {
		case err != nil:
			_ = x.conn.Close()
			return
		case !ours:
			others.take(x.conn, x.buf)
			return
		}
		q, more, err := x.question(head)
		if err != nil || !x.goOn(true) {
			_ = x.conn.Close()
			return
		}
		err = x.answer(q, more)
		if !x.goOn(false) || err != nil || !more || !x.wait(idleTime) {
			_ = x.conn.Close()
			return
		}
	}
}

// wait lets the next steps of reading take some time, unless the server ends.
func (x *exchange) wait(d time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.ended && x.conn.SetReadDeadline(time.Now().Add(d)) == nil
}

// request is how a question begins.
const request = "POST " + client.Path + " HTTP/1.1\r\n"

// asked is the head of a question.
type asked struct {
	client.Question
	length int
	close  bool
}

// head reads the head of a request. It is not ours if it is anything but what package
// thin writes.
func (x *exchange) head() (head *asked, ours bool, err error) {
	for {
		if n := min(len(x.buf), len(request)); string(x.buf[:n]) != request[:n] {
			return nil, false, nil
		}
		if at := bytes.Index(x.buf, []byte("\r\n\r\n")); at >= 0 {
			head, ours = readHead(string(x.buf[len(request) : at+2]))
			if ours {
				x.buf = x.buf[:copy(x.buf, x.buf[at+4:])]
			}
			return head, ours, nil
		}
		if len(x.buf) == cap(x.buf) {
			return nil, false, nil
		}
		n, err := x.conn.Read(x.buf[len(x.buf):cap(x.buf)])
		if x.buf = x.buf[:len(x.buf)+n]; n == 0 {
			return nil, false, errors.Join(err, io.ErrNoProgress)
		}
	}
}

// readHead reads lines of a head, as package client writes them. Of what others could read in
// another way, such as a line that ends without a CR or a value that is there twice, nothing
// is ours: two readers of one request must not see two requests.
func readHead(lines string) (*asked, bool) {
	h := &asked{length: -1}
	for lines != "" {
		line, rest, _ := strings.Cut(lines, "\r\n")
		lines = rest
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, false
		}
		into := (*string)(nil)
		switch name {
		case "Host", "User-Agent", "Accept", "Accept-Encoding": // of others who ask so
		case "Content-Type":
			ok = value == client.ContentType
		case "Connection":
			h.close = true
			ok = value == "close"
		case "Content-Length":
			first := h.length < 0
			n, err := strconv.ParseUint(value, 10, 31)
			h.length = int(n)
			ok = err == nil && first && h.length <= maxQuestion
		case client.HeaderVersion:
			into = &h.Version
		case client.HeaderAgent:
			into = &h.Agent
		case client.HeaderEvent:
			into = &h.Event
		case client.HeaderID:
			into = &h.ID
		case client.HeaderRoot:
			into = &h.Root
		case client.HeaderHome:
			into = &h.Home
		case client.HeaderPolicy:
			h.Policies = append(h.Policies, "")
			into = &h.Policies[len(h.Policies)-1]
		case client.HeaderFiring:
			into = &h.Firing
		case client.HeaderParent:
			into = &h.Parent
		default:
			ok = false
		}
		if into != nil {
			first := *into == ""
			var err error
			*into, err = url.PathUnescape(value)
			ok = first && err == nil
		}
		if !ok {
			return nil, false
		}
	}
	return h, h.length >= 0
}

// question reads what is asked about, and reports whether there may be another question.
func (x *exchange) question(h *asked) (q *client.Question, more bool, err error) {
	h.Payload = make([]byte, h.length)
	n := copy(h.Payload, x.buf)
	x.buf = x.buf[:copy(x.buf, x.buf[n:])]
	if n < len(h.Payload) {
		if !x.wait(bodyTime) {
			return nil, false, net.ErrClosed
		}
		if _, err := io.ReadFull(x.conn, h.Payload[n:]); err != nil {
			return nil, false, err
		}
	}
	return &h.Question, !h.close, nil
}

// answer answers a question.
func (x *exchange) answer(q *client.Question, more bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var watched sync.WaitGroup
	slow := false
	answer, err := x.opts.reply(ctx, q, func() {
		slow = true
		_ = x.tell([]byte("HTTP/1.1 102 Processing\r\n\r\n"))
		_ = x.conn.SetReadDeadline(time.Time{})
		watched.Go(func() { x.watch(cancel) })
	})
	if slow {
		_ = x.conn.SetReadDeadline(time.Unix(1, 0))
		watched.Wait()
	}
	if fault.On {
		fault.At("relay: before the reply")
	}
	b := make([]byte, 0, 512)
	if err != nil {
		b = appendDeclined(b, err.Error(), more)
	} else {
		b = appendAnswer(b, answer, more)
	}
	err = x.tell(b)
	if fault.On {
		fault.At("relay: after the reply")
	}
	return err
}

// tell writes. Who asks and does not read is left after a while.
func (x *exchange) tell(b []byte) error {
	if err := x.conn.SetWriteDeadline(time.Now().Add(tellTime)); err != nil {
		return err
	}
	_, err := x.conn.Write(b)
	return err
}

// watch calls gone when the other side goes, and ends when reading may not go on.
func (x *exchange) watch(gone func()) {
	n, err := x.conn.Read(x.buf[len(x.buf):cap(x.buf)])
	x.buf = x.buf[:len(x.buf)+n]
	if err != nil && !isTimeout(err) {
		gone()
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

func appendAnswer(b []byte, a *client.Answer, more bool) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\nContent-Type: "+client.ContentType+"\r\n"+client.HeaderExit+": "...)
	b = strconv.AppendInt(b, int64(a.Exit), 10)
	b = append(b, "\r\n"+client.HeaderStdout+": "...)
	b = strconv.AppendInt(b, int64(len(a.Stdout)), 10)
	if a.Drain {
		b = append(b, "\r\n"+client.HeaderDrain+": 1"...)
	}
	b = appendLength(b, len(a.Stdout)+len(a.Stderr), more)
	return append(append(b, a.Stdout...), a.Stderr...)
}

func appendDeclined(b []byte, why string, more bool) []byte {
	b = append(b, "HTTP/1.1 409 Conflict\r\nContent-Type: text/plain; charset=utf-8"...)
	return append(appendLength(b, len(why)+1, more), why+"\n"...)
}

// appendLength ends a head.
func appendLength(b []byte, length int, more bool) []byte {
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	if !more {
		b = append(b, "\r\nConnection: close"...)
	}
	return append(b, "\r\n\r\n"...)
}
