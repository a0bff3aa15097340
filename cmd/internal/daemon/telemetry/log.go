package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/term"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// NewLogger returns a logger for the daemon itself. format is text, json, or auto, which means text
// on a terminal and JSON elsewhere; empty = auto. level is debug, info, warn or error, optionally
// followed by + or - and a number; empty = info.
//
// The logger masks secrets in messages and values. A line that is written with the context of a
// trace gets its trace_id and span_id. The handlers in more receive the same records: see
// Export.LogHandler.
func NewLogger(w io.Writer, format, level string, more ...slog.Handler) (*slog.Logger, error) {
	var at slog.Level
	if level != "" {
		if err := at.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("unknown level %.40q (want debug, info, warn or error)", level)
		}
	}
	opts := &slog.HandlerOptions{Level: at, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return masked(a, spool.Mask) }}
	var h slog.Handler
	switch format {
	case "text":
		h = slog.NewTextHandler(w, opts)
	case "json":
		h = slog.NewJSONHandler(w, opts)
	case "", "auto":
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			h = slog.NewTextHandler(w, opts)
		} else {
			h = slog.NewJSONHandler(w, opts)
		}
	default:
		return nil, fmt.Errorf("unknown format %.40q (want text, json or auto)", format)
	}
	h = &traced{base: h, now: h}
	if len(more) > 0 {
		h = slog.NewMultiHandler(append([]slog.Handler{h}, more...)...)
	}
	return slog.New(h), nil
}

// traced adds the IDs of a trace to records, outside of all groups.
type traced struct {
	base    slog.Handler
	now     slog.Handler // base after applying ops
	ops     []func(slog.Handler) slog.Handler
	grouped bool
}

// Enabled implements slog.Handler.
func (t *traced) Enabled(ctx context.Context, level slog.Level) bool {
	return t.base.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (t *traced) Handle(ctx context.Context, r slog.Record) error {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return t.now.Handle(ctx, r)
	}
	ids := []slog.Attr{slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String())}
	if !t.grouped {
		r = r.Clone()
		r.AddAttrs(ids...)
		return t.now.Handle(ctx, r)
	}
	h := t.base.WithAttrs(ids)
	for _, op := range t.ops {
		h = op(h)
	}
	return h.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (t *traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return t.with(t.grouped, func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (t *traced) WithGroup(name string) slog.Handler {
	return t.with(t.grouped || name != "", func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (t *traced) with(grouped bool, op func(slog.Handler) slog.Handler) slog.Handler {
	return &traced{base: t.base, now: op(t.now), ops: append(slices.Clip(t.ops), op), grouped: grouped}
}
