//go:build e2e && linux

package machines

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	backend "github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/internal/forward"
)

const one = "0123456789abcdef0123456789abcdef" // a machine

// line returns a line of a log.
func line(seq int64, id string) forward.Line {
	text := fmt.Appendf(nil, `{"id":%q}`, id)
	return forward.Line{Seq: seq, ID: id, Part: "none", Text: text, Digest: sha256.Sum256(text)}
}

// decided returns a line with a decision. more makes texts different.
func decided(seq int64, id, decision, more string) forward.Line {
	text := fmt.Appendf(nil, `{"id":%q,"decision":%q,"error":%q}`, id, decision, more)
	return forward.Line{Seq: seq, ID: id, Part: decision, Text: text, Digest: sha256.Sum256(text)}
}

func at(l forward.Line) forward.Position { return forward.Position{Seq: l.Seq, Digest: l.Digest} }

func openStream(t *testing.T, n *stream) *backend.Target {
	t.Helper()
	target, err := backend.Open(t.Context(), backend.Options{URL: n.url()}, one)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return target
}

// bodies returns the messages of a stream with these subjects; none = all.
func bodies(t *testing.T, n *stream, subjects ...string) (all []string) {
	t.Helper()
	js := n.client(t)
	consumer, err := js.OrderedConsumer(t.Context(), backend.DefaultStream, jetstream.OrderedConsumerConfig{FilterSubjects: subjects})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.FetchNoWait(1000)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		all = append(all, string(m.Data()))
	}
	return all
}

// TestStream: lines are stored once, with and without batches, after a rewind, and beside another process.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, batches := range []bool{true, false} {
		n := startNATS(t, "")
		if created, err := backend.Setup(t.Context(), backend.Options{URL: n.url()}, 0); err != nil || !created {
			t.Fatalf("Setup: %v, %v", created, err)
		}
		if created, err := backend.Setup(t.Context(), backend.Options{URL: n.url()}, 30); err != nil || created {
			t.Fatalf("Setup again: %v, %v", created, err)
		}
		editStream(t, n, func(c *jetstream.StreamConfig) {
			if c.MaxAge != 30*24*time.Hour || c.Storage != jetstream.FileStorage {
				t.Errorf("the stream is %+v", c)
			}
			c.AllowAtomicPublish = batches
		})
		target, other := openStream(t, n), openStream(t, n)
		for _, o := range []*backend.Target{target, other} {
			if p, err := o.Position(t.Context()); err != nil || p != (forward.Position{}) {
				t.Fatalf("of a new machine: %v, %v", p, err)
			}
		}
		first := []forward.Line{line(1, "a"), line(2, "b\r\nGrapnel-Seq: 9"), line(3, "c")}
		if err := target.Send(t.Context(), forward.Position{}, first, 7); err != nil {
			t.Fatal(err)
		}
		if err := other.Send(t.Context(), forward.Position{}, first, 0); !errors.Is(err, forward.ErrMoved) {
			t.Errorf("the same lines from another process: %v, want ErrMoved", err)
		}
		if p, err := other.Position(t.Context()); err != nil || p != at(first[2]) {
			t.Errorf("the position is %v, %v, want %v", p, err, at(first[2]))
		}
		if err := other.Rewind(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := append(slices.Clone(first), line(4, "d"))
		if err := other.Send(t.Context(), at(first[2]), second, 0); err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, n); len(got) != 4 || got[3] != `{"id":"d"}` {
			t.Errorf("messages %q, want four", got)
		}
		if p, err := target.Position(t.Context()); err != nil || p != at(second[3]) {
			t.Errorf("the position is %v, %v, want %v", p, err, at(second[3]))
		}
		n.kill()
		if err := target.Send(t.Context(), at(second[3]), []forward.Line{line(5, "e")}, 0); err == nil {
			t.Error("a server that was killed stores lines")
		}
	}
}

// TestStreamDecisions: a firing has a message for each of its decisions, in one batch and in several, and also if
// lines are sent again.
func TestStreamDecisions(t *testing.T) {
	t.Parallel()
	hostile := "a\r\nGrapnel-Seq: 9 %/" + strings.Repeat("ä", 8<<10)
	lines := []forward.Line{decided(1, "a", "none", ""), decided(2, "a", "block", ""), decided(3, hostile, "none", ""), decided(4, hostile, "block", ""), decided(5, "a-none", "block", "")}
	again := []forward.Line{lines[0], decided(2, "a", "block", "again"), lines[2], decided(4, hostile, "block", "again"), lines[4], decided(6, "a", "ask", ""), decided(7, "b", "none", "")}
	for size := 1; size <= len(lines); size++ {
		for _, batches := range []bool{true, false} {
			n := startNATS(t, "")
			if _, err := backend.Setup(t.Context(), backend.Options{URL: n.url()}, 0); err != nil {
				t.Fatal(err)
			}
			editStream(t, n, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = batches })
			target, from := openStream(t, n), forward.Position{}
			send := func(list []forward.Line) {
				for batch := range slices.Chunk(list, size) {
					if err := target.Send(t.Context(), from, batch, 0); err != nil {
						t.Fatal(err)
					}
					from = at(batch[len(batch)-1])
				}
			}
			send(lines)
			target = openStream(t, n)
			if p, err := target.Position(t.Context()); err != nil || p != from {
				t.Errorf("the position is %v, %v, want %v", p, err, from)
			}
			if err := target.Rewind(t.Context()); err != nil {
				t.Fatal(err)
			}
			send(again)
			var want []string
			for _, l := range append(slices.Clone(lines), again[5:]...) {
				want = append(want, string(l.Text))
			}
			if diff := cmp.Diff(want, bodies(t, n)); diff != "" {
				t.Errorf("batches of %d (-want +got):\n%s", size, diff)
			}
			n.kill()
		}
	}
}

func editStream(t *testing.T, n *stream, edit func(*jetstream.StreamConfig)) {
	t.Helper()
	js := n.client(t)
	s, err := js.Stream(t.Context(), backend.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	edit(&config)
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// TestStreamWarning: an operator learns that a power cut of the server can lose Records.
func TestStreamWarning(t *testing.T) {
	t.Parallel()
	n := startNATS(t, "")
	if _, err := backend.Setup(t.Context(), backend.Options{URL: n.url()}, 0); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{n.url(): "a power cut of the server can lose Records", n.url() + "?synced=yes": ""} {
		target, err := backend.Open(t.Context(), backend.Options{URL: url}, one)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Warning(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		_ = target.Close()
	}
}

// TestStreamMistakes: each mistake has an error with a way out. No ID of a machine changes the
// subject.
func TestStreamMistakes(t *testing.T) {
	t.Parallel()
	n := startNATS(t, "accounts { A { jetstream: enabled, users: [{user: a, password: hunter2, permissions: {publish: [\"grapnel.records."+one+"\", \"$JS.API.>\"]}}] } }\nno_auth_user: a\n")
	plain := startNATS(t, "authorization { token: hunter2 }")
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		url, credentials, machine, want string
	}{
		"no URL":              {"nats://%zz", "", one, "it is not a URL"},
		"a stream with a dot": {n.url() + "/a.b", "", one, `"a.b" is no name of a stream`},
		"a machine with *":    {n.url(), "", "*", `"*" is no ID of a machine`},
		"two subjects":        {n.url(), "", one + ".x", "is no ID of a machine"},
		"no server":           {"nats://127.0.0.1:1", "", one, "cannot reach the server at nats://127.0.0.1:1"},
		"no stream":           {n.url() + "/OTHER", "", one, "grapnel forward setup " + n.url() + "/OTHER"},
		"no credentials":      {plain.url(), "", one, "check the credentials file"},
		"no file":             {n.url(), missing, one, missing},
		"no TLS":              {strings.Replace(n.url(), "127.0.0.1", "0.0.0.0", 1), "", one, "add ?tls=no to the address"},
	} {
		target, err := backend.Open(t.Context(), backend.Options{URL: c.url, Credentials: c.credentials}, c.machine)
		if err == nil {
			_ = target.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q and no password", name, err, c.want)
		}
	}
	if _, err := backend.Setup(context.Background(), backend.Options{URL: plain.url()}, 0); err == nil {
		t.Error("Setup without credentials")
	}
	// The server permits the subject of one machine only.
	if _, err := backend.Setup(t.Context(), backend.Options{URL: n.url()}, 0); err != nil {
		t.Fatal(err)
	}
	if err := openStream(t, n).Send(t.Context(), forward.Position{}, []forward.Line{line(1, "a")}, 0); err != nil {
		t.Error(err)
	}
	other, err := backend.Open(t.Context(), backend.Options{URL: n.url()}, strings.Repeat("f", 32))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Send(t.Context(), forward.Position{}, []forward.Line{line(1, "forged")}, 0); err == nil || !strings.Contains(err.Error(), "that it permits grapnel.records.ID") {
		t.Errorf("a Record for another machine: %v", err)
	}
}
