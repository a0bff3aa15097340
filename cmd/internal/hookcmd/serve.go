package hookcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/local"
)

// Limits for events in progress. Above them, further lines stay in the pipe, cancel messages
// included, and the writer blocks.
const (
	maxEvents = 32
	maxBytes  = 64 << 20 // of all lines in progress; a single line may be as long as an event

	maxLine = dialect.MaxPayload + 64<<10 // a longer line has an event that is too large to read
)

// serve replies to events as they arrive, for the plugin of an agent whose hooks are functions in
// the agent's process. The lines are [dialect.Message]. Each event gets one reply, in any order,
// with the same content as from a separate grapnel-hook process: by the policy at that moment,
// with a Record, and with a drain for pending hooks.
//
// serve ends when its standard input ends, which happens when the agent ends, or on SIGTERM. It
// finishes the events in progress. A second SIGTERM cancels them too.
func serve(inv invocation, named *dialect.Dialect, stdin io.Reader, stdout, stderr io.Writer) int {
	// This process runs for long, unlike a process for a single event.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	// A terminal interrupts all its programs; the agent decides whether it ends. A reader that
	// has exited is an error of a write, and must not end this process.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &lineServer{inv: inv, named: named, stdout: stdout, cancels: map[string]context.CancelFunc{}, left: make(chan struct{}, 1), gone: make(chan struct{})}
	s.room.L = &s.mu
	hello := dialect.Hello()
	hello.Concurrency = maxEvents
	s.write(hello)

	lines := make(chan line)
	go read(stdin, lines) // it may block in a read until this process ends
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range s.left {
			if err := startDrain(inv); err != nil {
				fmt.Fprintf(stderr, "grapnel: error: cannot start async hooks now; they run after the next event: %v\n", err)
			}
		}
	}()
	for open := true; open; {
		select {
		case <-signals:
			open = false
		case <-s.gone:
			open = false
		case l, more := <-lines:
			if open = more; more {
				s.handle(ctx, l, stderr)
			}
		}
	}
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.wait.Wait()
	close(s.left)
	<-drained
	return 0
}

// A lineServer is the state of one call of serve.
type lineServer struct {
	inv   invocation
	named *dialect.Dialect
	left  chan struct{} // receives when observing hooks wait for a drain
	wait  sync.WaitGroup

	out    sync.Mutex
	stdout io.Writer
	deaf   bool
	gone   chan struct{} // closed when the reader has exited

	mu            sync.Mutex
	room          sync.Cond
	events, bytes int
	cancels       map[string]context.CancelFunc // by the ID of the event
}

// A line is one line of standard input, without its newline.
type line struct {
	text []byte
	cut  bool // the line was longer than maxLine
}

// read sends lines until the input ends.
func read(stdin io.Reader, lines chan<- line) {
	defer close(lines)
	r := bufio.NewReaderSize(stdin, 64<<10)
	var l line
	for {
		part, err := r.ReadSlice('\n')
		if room := maxLine - len(l.text); len(part) > room {
			part, l.cut = part[:room], true
		}
		l.text = append(l.text, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(l.text) > 0 {
			lines <- line{slices.Clip(l.text), l.cut}
		}
		if l = (line{}); err != nil {
			return
		}
	}
}

// handle parses a line and starts its processing.
func (s *lineServer) handle(ctx context.Context, l line, stderr io.Writer) {
	m, err := dialect.ReadMessage(l.text)
	switch {
	case m.Type == dialect.TypeCancel:
		s.mu.Lock()
		if cancel := s.cancels[m.ID]; cancel != nil {
			cancel()
		}
		s.mu.Unlock()
		return
	case m.Type == dialect.TypeEvent:
		err = nil // the event has the same error and gets a reply
	case err == nil:
		return // a message type of a newer plugin
	}
	if err != nil {
		fmt.Fprintf(stderr, "grapnel: error: cannot read a line: %v\n", err)
		return
	}
	in := dialect.Input{Payload: m.Event, Event: s.inv.event}
	if l.cut {
		in.Payload = in.Payload[:min(len(in.Payload), dialect.MaxPayload+1)]
	}
	ctx, done := s.begin(ctx, m.ID, len(l.text))
	s.wait.Go(func() {
		defer done()
		s.answer(ctx, m.ID, in)
	})
}

// begin waits until the event is within the limits, and reserves its part.
func (s *lineServer) begin(ctx context.Context, id string, size int) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.events > 0 && (s.events == maxEvents || s.bytes+size > maxBytes) {
		s.room.Wait()
	}
	s.events, s.bytes = s.events+1, s.bytes+size
	s.cancels[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events, s.bytes = s.events-1, s.bytes-size
		delete(s.cancels, id)
		s.room.Signal()
	}
}

func (s *lineServer) answer(ctx context.Context, id string, in dialect.Input) {
	defer func() {
		if r := recover(); r != nil { // even lastResort panicked
			stderr := fmt.Sprintf("grapnel: error: internal error: %v\n", r)
			s.write(dialect.Message{Type: dialect.TypeAnswer, ID: id, Reply: &dialect.WireReply{Stderr: stderr, Exit: exitFailure}})
		}
	}()
	inv := s.inv
	inv.watch = newWatchdog(&inv, s.named, false)
	inv.watch.read(in)
	result := inv.watch.run(ctx, func(ctx context.Context) worked {
		place, err := local.Locate(inv.root, inv.id)
		inv.watch.found(place)
		reply, pending := answer(ctx, inv, agents(nil).choose(s.named, in.Payload, place.Agent), in, place, err)
		return worked{reply, pending}
	})
	defer inv.watch.settle() // the Record is written after the context has ended
	reply, pending := result.reply, result.pending
	s.write(dialect.Message{
		Type: dialect.TypeAnswer, ID: id,
		Reply: &dialect.WireReply{Stdout: string(reply.Stdout), Stderr: string(reply.Stderr), Exit: reply.Exit},
	})
	if pending {
		select {
		case s.left <- struct{}{}:
		default: // a drain is about to start
		}
	}
}

// write writes a message as one line.
func (s *lineServer) write(m dialect.Message) {
	text, err := m.Write()
	s.out.Lock()
	defer s.out.Unlock()
	if err == nil && !s.deaf {
		_, err = s.stdout.Write(text)
	}
	if err != nil && !s.deaf {
		s.deaf = true
		close(s.gone)
	}
}
