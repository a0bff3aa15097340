package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range bytes.Lines(b.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, m)
	}
	return all
}

func TestLoggerIsAHandler(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{"no trace": t.Context(), "trace": WithParent(t.Context(), sampled, "")} {
		var b bytes.Buffer
		slogtest.Run(t, func(t *testing.T) slog.Handler {
			b.Reset()
			log, err := NewLogger(&b, "json", "debug")
			if err != nil {
				t.Fatal(err)
			}
			return within{log.Handler(), ctx}
		}, func(t *testing.T) map[string]any {
			line := lines(t, &b)[0]
			if got, want := line["trace_id"] == parentTrace && line["span_id"] == parentSpan, name == "trace"; got != want {
				t.Errorf("%s: has the ids of the trace: %t, want %t: %v", name, got, want, line)
			}
			delete(line, "trace_id")
			delete(line, "span_id")
			return line
		})
	}
}

// within is a handler that adds a context to every call.
type within struct {
	slog.Handler
	ctx context.Context
}

func (w within) Handle(_ context.Context, r slog.Record) error { return w.Handler.Handle(w.ctx, r) }
func (w within) WithAttrs(a []slog.Attr) slog.Handler          { return within{w.Handler.WithAttrs(a), w.ctx} }

func (w within) WithGroup(name string) slog.Handler { return within{w.Handler.WithGroup(name), w.ctx} }

type stringer struct{ s string }

func (s stringer) String() string { return s.s }

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value { return slog.StringValue(v.s) }

// A secret in any part of a log call is not in the log.
func TestNoSecretsInLog(t *testing.T) {
	t.Parallel()
	const word = "hunter2hunter2"
	const key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	address := &url.URL{Scheme: "https", Host: "x", Path: "/", RawQuery: "token=" + word}
	write := func(log *slog.Logger) {
		log.Info("password="+word+" and "+key, "n", 1)
		log.Info("plain", "password", word, "api_key", word, "authorization", "Bearer "+word+word, "note", "see "+key)
		log.Info("kinds", "error", fmt.Errorf("status 401: %w", errors.New("token="+word)), "bytes", []byte("secret="+word), "stringer", stringer{key}, "valuer", valuer{key}, "url", address)
		log.Info("deep", slog.Group("http", slog.Group("header", "authorization", "Bearer "+word+word)), "struct", struct{ Password string }{word}, "map", map[string]any{"token": word})
		log.With("password", word).WithGroup("g").With("token", key).Info("with", "x", 1)
	}
	c := newCollector(t, nil)
	e, end := exporting(t, c, nil)
	var out []string
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		log, err := NewLogger(&b, format, "", e.LogHandler(slog.LevelInfo))
		if err != nil {
			t.Fatal(err)
		}
		write(log)
		out = append(out, b.String())
		if n := strings.Count(b.String(), "\n"); n != 5 {
			t.Errorf("%s: %d lines, want 5:\n%s", format, n, &b)
		}
	}
	end()
	for _, text := range append(out, string(bytes.Join(c.bodies, nil))) {
		if strings.Contains(text, word) || strings.Contains(text, key) {
			t.Errorf("a secret is in it:\n%s", text)
		}
		if !strings.Contains(text, "plain") || !strings.Contains(text, "***") {
			t.Errorf("too much is gone:\n%s", text)
		}
	}
	if len(c.logs) != 10 {
		t.Errorf("%d lines were sent, want 10", len(c.logs))
	}
}

func TestLoggerLeavesTheRest(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, err := NewLogger(&b, "json", "warn")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not seen")
	log.Warn("seen\n", "n", 3, "d", time.Second, "ok", true, "list", []string{"a", "b"}, "nil", nil, "tokens", 12, "session", "s1", "err", errors.New("no such file"))
	got := lines(t, &b)
	if len(got) != 1 {
		t.Fatalf("%d lines: %v", len(got), got)
	}
	delete(got[0], "time")
	want := map[string]any{
		"level": "WARN", "msg": "seen\n", "n": 3.0, "d": 1e9, "ok": true, "list": []any{"a", "b"}, "nil": nil, "tokens": 12.0, "session": "s1", "err": "no such file",
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Reset()
	if log, err = NewLogger(&b, "", ""); err != nil {
		t.Fatal(err)
	}
	log.Info("x")
	if !json.Valid(bytes.TrimSpace(b.Bytes())) {
		t.Errorf("not a terminal, and no JSON: %s", &b)
	}
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if log, err = NewLogger(file, "auto", "info"); err != nil {
		t.Fatal(err)
	}
	log.Info("x")
	if data, err := os.ReadFile(file.Name()); err != nil || !json.Valid(bytes.TrimSpace(data)) {
		t.Errorf("a file is not a terminal: %s, %v", data, err)
	}
	for _, bad := range [][2]string{{"xml", ""}, {"", "loud"}, {"JSON", "info"}} {
		if log, err := NewLogger(&b, bad[0], bad[1]); log != nil || err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("NewLogger(%q): %v, %v", bad, log, err)
		}
	}
}
