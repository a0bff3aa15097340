package telemetry

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLogExport(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e, end := exporting(t, c, nil)
	log := slog.New(e.LogHandler(slog.LevelInfo))
	at := time.Now()
	log.Debug("not sent")
	ctx := WithParent(t.Context(), sampled, "")
	log.With("a", 1).WithGroup("g").With(slog.Group("h", "b", true)).WarnContext(ctx, "text", "f", 1.5, "d", time.Second, slog.Group("", "in", "line"), "", nil)
	log.Log(t.Context(), -100, "too low")
	log.Log(t.Context(), 100, strings.Repeat("x", 1<<20)+"\xff")
	end()
	if len(c.logs) != 2 {
		t.Fatalf("%d lines: %+v", len(c.logs), c.logs)
	}
	got := c.logs[0]
	if d := got.at.Sub(at); d < -time.Second || d > time.Minute {
		t.Errorf("time %v, want about %v", got.at, at)
	}
	got.at = time.Time{}
	want := logLine{
		text: "text", trace: parentTrace, span: parentSpan, severity: "WARN", number: 13,
		attrs: map[string]any{"a": int64(1), "g.h.b": true, "g.f": 1.5, "g.d": "1s", "g.in": "line"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(logLine{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if big := c.logs[1]; len(big.text) > maxText+8 || big.number != 24 {
		t.Errorf("%d bytes, severity %d", len(big.text), big.number)
	}
}

// Handlers can be derived from a shared one. An attribute of one is not in the other.
func TestHandlersShareNothing(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e, end := exporting(t, c, nil)
	base := slog.New(e.LogHandler(slog.LevelInfo)).With("a", 1, "b", 2, "c", 3)
	x, y := base.With("x", 1), base.With("y", 1)
	x.Info("x", "p", 1)
	y.Info("y", "q", 1)
	x.Info("x")
	many := make([]any, 0, 400)
	for i := range 200 {
		many = append(many, fmt.Sprint("k", i), i)
	}
	base.Info("many", many...)
	end()
	var got []string
	for _, l := range c.logs[:3] {
		var keys []string
		for k := range l.attrs {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		got = append(got, strings.Join(keys, ""))
	}
	if diff := cmp.Diff([]string{"abcpx", "abcqy", "abcx"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(c.logs[3].attrs); n > maxLogAttrs {
		t.Errorf("%d attributes", n)
	}
}
