package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnel-dev/grapnel/internal/forward"
)

// A Target stores the Records of one machine. It implements [forward.Target].
type Target struct {
	options Options
	machine string
	conn    *pgx.Conn
}

var _ forward.Target = (*Target)(nil)

// Open connects to a database for a machine.
func Open(ctx context.Context, o Options, machine string) (*Target, error) {
	conn, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Target{options: o, machine: machine, conn: conn}, nil
}

// Close ends the connection.
func (t *Target) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.conn.Close(ctx) // the server notices a connection that ends without a word, too
	return nil
}

// Warning returns an empty text.
func (t *Target) Warning() string { return "" }

// Rewind does nothing: the key of each row recognizes a line that is sent again.
func (t *Target) Rewind(context.Context) error { return nil }

// Position returns the stored position.
func (t *Target) Position(ctx context.Context) (p forward.Position, err error) {
	var seq *int64
	var digest []byte
	err = t.conn.QueryRow(ctx, "SELECT seq, digest FROM grapnel.position($1)", t.machine).Scan(&seq, &digest)
	if err != nil {
		return p, t.options.explain(err)
	}
	if seq != nil {
		p.Seq = *seq
	}
	copy(p.Digest[:], digest)
	return p, nil
}

// Send stores lines. Lines that the database cannot hold are stored without the parts that it
// refuses.
func (t *Target) Send(ctx context.Context, from forward.Position, lines []forward.Line, missed int64) error {
	err := t.store(ctx, from, lines, missed, 0)
	if err == nil || !refused(err) {
		return t.explain(err)
	}
	// Find the lines that the database refuses.
	for i := range lines {
		one := lines[i : i+1]
		if err = t.store(ctx, from, one, missed, 0); refused(err) {
			err = t.repair(ctx, from, one[0], missed)
		}
		if err != nil {
			return t.explain(err)
		}
		from, missed = forward.Position{Seq: one[0].Seq, Digest: one[0].Digest}, 0
	}
	return nil
}

func (t *Target) store(ctx context.Context, from forward.Position, lines []forward.Line, missed, repaired int64) error {
	seqs, parts, texts := make([]int64, len(lines)), make([]string, len(lines)), make([]string, len(lines))
	for i := range lines {
		l := &lines[i]
		seqs[i], parts[i], texts[i] = l.Seq, l.Part, string(l.Text)
	}
	var err error
	for range mostRaces {
		_, err = t.conn.Exec(ctx, "SELECT grapnel.store($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			t.machine, from.Seq, digestOf(from), seqs, parts, texts, lines[len(lines)-1].Digest[:], missed, repaired)
		if !raced(err) {
			break
		}
	}
	return err
}

// mostRaces is how often lines are sent while other machines begin the partition of a new day.
const mostRaces = 5

// raced reports whether the partition of a Record was made after the database had chosen record_other
// for it.
func raced(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && failed.Code == "23514" && failed.ConstraintName == ""
}

// digestOf returns the digest of a position; empty = the begin of the log.
func digestOf(p forward.Position) []byte {
	if p == (forward.Position{}) {
		return []byte{}
	}
	return p.Digest[:]
}

// explain adds the way out to an error of Send.
func (t *Target) explain(err error) error {
	var failed *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &failed):
	case failed.Code == "GR002":
		return forward.ErrMoved
	case failed.Code == "GR001":
		return fmt.Errorf("%s: a copy of a state directory has the same machine ID (remove its file \"machine\"), or the login has changed (UPDATE grapnel.machine SET login)", failed.Message)
	}
	return t.options.explain(err)
}

// refused reports whether the database cannot hold a line, and not whether it failed.
func refused(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && (strings.HasPrefix(failed.Code, "22") || strings.HasPrefix(failed.Code, "54") || failed.Code == "23502")
}

// repair stores a line without what jsonb refuses. If that is not enough, it stores only what names the
// Record.
func (t *Target) repair(ctx context.Context, from forward.Position, line forward.Line, missed int64) error {
	whole := line.Text
	line.Text = plain(whole)
	err := t.store(ctx, from, []forward.Line{line}, missed, 1)
	if refused(err) {
		line.Text = notice(whole, &line, err)
		err = t.store(ctx, from, []forward.Line{line}, missed, 1)
	}
	return err
}

// unstorable are escapes that JSON permits and jsonb refuses: the character NUL, and half of a pair of
// surrogates. A backslash before the escape would make it plain text, so the pattern includes pairs of
// them.
var unstorable = regexp.MustCompile(`(?i)\\u0000|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\ud[89a-f][0-9a-f]{2}|\\\\`)

// plain replaces what jsonb refuses in texts by the replacement character.
func plain(line []byte) []byte {
	line = unstorable.ReplaceAllFunc(line, func(escape []byte) []byte {
		if len(escape) == 2 || len(escape) == 12 {
			return escape
		}
		return []byte(`\ufffd`)
	})
	return bytes.ToValidUTF8(line, []byte("\ufffd"))
}

// maxID is the length of an ID that fits into an index in any case.
const maxID = 1000

// notice returns a Record that says why the Record is missing. Its time is the time of the Record, or the
// zero time of Unix if the database cannot hold that. A long ID is cut, and the digest of the line makes it unique.
func notice(text []byte, line *forward.Line, why error) []byte {
	var rec struct {
		Time time.Time `json:"time"`
		Late bool      `json:"late"`
	}
	if json.Unmarshal(text, &rec) != nil || rec.Time.Year() < 1 || rec.Time.Year() > 9999 {
		rec.Time = time.Unix(0, 0)
	}
	id := line.ID
	if len(id) > maxID {
		id = fmt.Sprintf("%s-%x", id[:maxID/2], line.Digest)
	}
	out, _ := json.Marshal(map[string]any{ // a map of texts cannot fail
		"id": id, "time": rec.Time.UTC(), "agent": "", "session": "", "event": "native.grapnel.refused", "hooks": []string{}, "ms": 0, "late": rec.Late,
		"error": "the database cannot hold this Record: " + why.Error() + ": see it on the machine with: grapnel log show " + line.ID[:min(len(line.ID), maxID/2)],
	})
	return plain(out)
}
