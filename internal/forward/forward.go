// Package forward copies the Records of a machine to a place outside of it, each once and in the
// order of the log:
//
//	f := &forward.Forwarder{Source: store, Dial: dial}
//	f.Run(ctx)
//
// The target stores the position after the last line together with the lines. So a Forwarder, a
// target and the network can fail at any moment: the next Forwarder continues where the target is.
// The log is the buffer. A target that is away costs nothing but lag.
package forward

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A Hash is the SHA-256 of a line.
type Hash = [sha256.Size]byte

// A Line is a line of the log.
type Line struct {
	Seq    int64  // row number in the log of this machine
	ID     string // of the firing
	Part   string // tells the lines of a firing apart; letters and digits
	Digest Hash
	Text   []byte // without a newline
}

// Key returns what identifies a line of a machine. If the log has several lines with one key, a target gets
// only the first.
func (l *Line) Key() string { return l.ID + "-" + l.Part }

// A Position is a place in the log: after the row Seq, which has this digest. The digest shows
// whether the log is still the same, and not for example a restored backup. The zero Position is the begin
// of the log.
type Position struct {
	Seq    int64
	Digest Hash
}

// A Source is a log. It is safe for concurrent use.
type Source interface {
	// Lines returns the first lines after a row, oldest first, at most n. They survive a power cut.
	Lines(ctx context.Context, after int64, n int) ([]Line, error)

	// Keys returns the keys of the lines shortly before a row, and of that row. A line after it can have one of
	// them, if an event was answered twice.
	Keys(ctx context.Context, upTo int64) ([]string, error)

	// DigestAt returns the digest of a row. It reports false if the log does not have the row.
	DigestAt(ctx context.Context, seq int64) (Hash, bool, error)

	// RemovedAfter returns the number of Records after a row that retention has removed.
	RemovedAfter(ctx context.Context, seq int64) (int64, error)
}

// A Target keeps the lines of one machine. Only one goroutine uses it. Its errors name the way out.
type Target interface {
	// Position returns the stored position. A negative Seq means that there are lines, but no position.
	Position(ctx context.Context) (Position, error)

	// Rewind is called if the lines of the log were sent in part before: the log no longer has the stored
	// position, so Send gets all lines again.
	Rewind(ctx context.Context) error

	// Send stores lines and the position after the last of them, all or nothing. They have different keys. After
	// Rewind, it leaves out lines whose key it has. It returns ErrMoved if the stored position is not from. missed is
	// the number of Records that were removed before they could be sent.
	Send(ctx context.Context, from Position, lines []Line, missed int64) error

	// Warning returns what the operator should know about the target; empty = nothing.
	Warning() string

	Close() error
}

// ErrMoved is the error of Send if another process has sent lines of the same machine.
var ErrMoved = errors.New("another process sends the Records of this machine, too")

// A State is what a Forwarder has done.
type State struct {
	At      Position // the target had all lines up to this one
	Sent    int64    // lines since the Forwarder began
	Missed  int64    // Records that were removed before they could be sent, since the Forwarder began
	Reached bool     // the target has answered since the Forwarder began
	Error   string   // of the last attempt; empty = it worked
	Warning string   // see Target
}

// A Forwarder sends the lines of a Source to a Target.
type Forwarder struct {
	Source Source
	Dial   func(context.Context) (Target, error)

	// Changed is called after each attempt that has changed the State. Nil = not called.
	Changed func(State)

	mu    sync.Mutex
	state State
}

// State returns what the Forwarder has done.
func (f *Forwarder) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

func (f *Forwarder) change(do func(*State)) {
	f.mu.Lock()
	before := f.state
	do(&f.state)
	after := f.state
	f.mu.Unlock()
	if f.Changed != nil && before != after {
		f.Changed(after)
	}
}

const (
	// A batch has at most this many lines. It ends after the line that reaches batchBytes.
	batchLines = 1000
	batchBytes = 2 << 20

	tryTime = 30 * time.Second // for a connection, and for a batch
	poll    = time.Second      // how often Run looks for new lines

	minPause, maxPause = time.Second, time.Minute // between attempts that fail
)

// Run sends existing and new lines until ctx is done. After an error it tries again, after a pause
// that grows to a minute.
func (f *Forwarder) Run(ctx context.Context) {
	for pause := minPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		begun := f.State().Sent
		_ = f.connect(ctx, func() bool { return wait(ctx, poll) }) // the error is in the State
		if f.State().Sent > begun {
			pause = minPause
		}
		// Machines that have lost the same server must not return in the same moment.
		wait(ctx, pause/2+rand.N(pause))
	}
}

// Once sends the existing lines.
func (f *Forwarder) Once(ctx context.Context) error {
	return f.connect(ctx, func() bool { return false })
}

// wait reports whether the time has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// mostMoves is how often the position may move in one connection. A process that was killed can
// have sent lines that the server stores only after the next process has read the position.
const mostMoves = 5

// connect sends lines through one connection, until an error, or until all are sent and more
// returns false.
func (f *Forwarder) connect(ctx context.Context, more func() bool) (err error) {
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if err != nil {
			f.change(func(s *State) { s.Error = err.Error() })
		}
	}()
	target, err := within(ctx, f.Dial)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	for range mostMoves {
		if err = f.run(ctx, &sender{source: f.Source, target: target}, more); !errors.Is(err, ErrMoved) {
			break
		}
	}
	return err
}

// within calls do with a context of tryTime.
func within[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return do(ctx)
}

// run sends lines from the position of the target on.
func (f *Forwarder) run(ctx context.Context, s *sender, more func() bool) error {
	if _, err := within(ctx, s.begin); err != nil {
		return err
	}
	f.change(func(st *State) { st.At, st.Reached, st.Error, st.Warning = s.done, true, "", s.target.Warning() })
	for {
		sent, err := within(ctx, s.batch)
		if err != nil {
			return err
		}
		f.change(func(st *State) { st.At, st.Sent, st.Missed = s.done, st.Sent+int64(sent.lines), st.Missed+sent.missed })
		if sent.end && !more() {
			return nil
		}
	}
}

// A sender sends lines through one connection.
type sender struct {
	source Source
	target Target
	at     Position // stored at the target
	done   Position // no line up to this one needs to be sent; after at, they have keys of earlier lines
	keys   recent   // of the lines up to done
	ahead  []Line   // that were read already; nil = none
}

// begin finds the row after which lines are sent.
func (s *sender) begin(ctx context.Context) (_ struct{}, err error) {
	if s.at, err = s.target.Position(ctx); err != nil || s.at == (Position{}) {
		return struct{}{}, err
	}
	known, err := s.known(ctx)
	if err != nil {
		return struct{}{}, err
	}
	if !known {
		return struct{}{}, s.target.Rewind(ctx)
	}
	s.done = s.at
	keys, err := s.source.Keys(ctx, s.at.Seq)
	for _, key := range keys {
		s.keys.add(key)
	}
	return struct{}{}, err
}

// known reports whether the log has the stored position, or had it before retention removed that row: then the lines
// after it are the next ones.
func (s *sender) known(ctx context.Context) (bool, error) {
	digest, found, err := s.source.DigestAt(ctx, s.at.Seq)
	if err != nil || found || s.at.Seq <= 0 {
		return found && digest == s.at.Digest, err
	}
	removed, err := s.source.RemovedAfter(ctx, s.at.Seq-1)
	return removed > 0, err
}

// sent is the result of a batch.
type sent struct {
	lines  int
	missed int64
	end    bool // of the log
}

// batch sends the next lines. Meanwhile it reads the lines after them.
func (s *sender) batch(ctx context.Context) (sent, error) {
	read := s.ahead
	s.ahead = nil
	var err error
	if read == nil {
		read, err = s.read(ctx, s.done.Seq)
	}
	if err != nil || len(read) == 0 {
		return sent{end: true}, err
	}
	last := Position{read[len(read)-1].Seq, read[len(read)-1].Digest}
	lines := s.first(read)
	if len(lines) == 0 {
		s.done = last
		return sent{}, nil
	}
	var missed int64
	if read[0].Seq != s.done.Seq+1 && s.at.Seq >= 0 && s.done.Seq >= s.at.Seq { // after a rewind, the target may have what was removed
		if missed, err = s.source.RemovedAfter(ctx, s.done.Seq); err != nil {
			return sent{}, err
		}
	}
	var reading sync.WaitGroup
	if len(read) > 1 {
		reading.Go(func() { s.ahead, _ = s.read(ctx, last.Seq) }) // the next batch reads again after an error
	}
	err = s.target.Send(ctx, s.at, lines, missed)
	reading.Wait()
	if err != nil {
		return sent{}, err
	}
	s.at = Position{lines[len(lines)-1].Seq, lines[len(lines)-1].Digest}
	s.done = last
	return sent{lines: len(lines), missed: missed}, nil
}

// first returns the lines that are the first ones with their keys.
func (s *sender) first(lines []Line) (first []Line) {
	for i := range lines {
		if s.keys.add(lines[i].Key()) {
			first = append(first, lines[i])
		}
	}
	return first
}

// read reads the lines of a batch.
func (s *sender) read(ctx context.Context, after int64) ([]Line, error) {
	lines, err := s.source.Lines(ctx, after, batchLines)
	bytes := 0
	for i := range lines {
		if bytes += len(lines[i].Text); bytes >= batchBytes {
			return lines[:i+1], err
		}
	}
	return lines, err
}

// recent has the newest keys, at least maxRecent: two answers to an event are not far apart.
type recent struct{ newer, older map[string]bool }

const maxRecent = 1 << 14

// add adds a key. It reports false if the key is known.
func (r *recent) add(key string) bool {
	if r.newer[key] || r.older[key] {
		return false
	}
	if r.newer == nil || len(r.newer) == maxRecent {
		r.newer, r.older = map[string]bool{}, r.newer
	}
	r.newer[key] = true
	return true
}
