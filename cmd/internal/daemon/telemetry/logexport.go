package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler for the daemon's own log. Records at or above level are also sent to
// the collector, with secrets masked. The handler never blocks. If no logs are exported, it
// discards all records.
func (e *Export) LogHandler(level slog.Leveler) slog.Handler {
	if e == nil || e.logs == nil {
		return slog.DiscardHandler
	}
	return &exported{e: e, level: level}
}

// maxLogAttrs is the maximum number of attributes sent for one log line.
const maxLogAttrs = 64

// exported is a slog.Handler that writes into a pipe.
type exported struct {
	e      *Export
	level  slog.Leveler
	prefix string // names of the open groups, each followed by a dot
	attrs  []attribute.KeyValue
}

// Enabled implements slog.Handler.
func (x *exported) Enabled(_ context.Context, level slog.Level) bool { return level >= x.level.Level() }

// Handle implements slog.Handler.
func (x *exported) Handle(ctx context.Context, r slog.Record) error {
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	out := logRecord{at: at, level: r.Level, text: x.e.text(r.Message, maxText), attrs: slices.Clip(x.attrs), span: trace.SpanContextFromContext(ctx)}
	r.Attrs(func(a slog.Attr) bool {
		out.attrs = x.add(out.attrs, x.prefix, a)
		return len(out.attrs) < maxLogAttrs
	})
	x.e.logs.put(out)
	return nil
}

// WithAttrs implements slog.Handler.
func (x *exported) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *x
	out.attrs = slices.Clip(x.attrs)
	for _, a := range attrs {
		out.attrs = x.add(out.attrs, x.prefix, a)
	}
	return &out
}

// WithGroup implements slog.Handler.
func (x *exported) WithGroup(name string) slog.Handler {
	out := *x
	if name != "" {
		out.prefix += name + "."
	}
	return &out
}

// add appends an attribute; it appends the members of a group separately.
func (x *exported) add(list []attribute.KeyValue, prefix string, a slog.Attr) []attribute.KeyValue {
	a.Value = a.Value.Resolve()
	if len(list) >= maxLogAttrs || a.Equal(slog.Attr{}) {
		return list
	}
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range a.Value.Group() {
			list = x.add(list, prefix, inner)
		}
		return list
	}
	key := attribute.Key(clean(prefix+a.Key, maxLabel))
	switch v := a.Value; v.Kind() {
	case slog.KindBool:
		return append(list, key.Bool(v.Bool()))
	case slog.KindInt64:
		return append(list, key.Int64(v.Int64()))
	case slog.KindFloat64:
		return append(list, key.Float64(v.Float64()))
	default:
		text := masked(a, x.e.opts.Mask).Value.String()
		if len(text) > maxText+maxSlack {
			text = text[:maxText+maxSlack]
		}
		return append(list, key.String(clean(text, maxText)))
	}
}

// masked masks secrets in a value, or the whole value if its name marks it as a secret.
func masked(a slog.Attr, mask func(string) string) slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindString {
		return slog.String(a.Key, maskedText(a.Key, v.String(), mask))
	}
	if v.Kind() == slog.KindAny {
		switch x := v.Any().(type) {
		case nil, *slog.Source:
			return a
		case error:
			return slog.String(a.Key, maskedText(a.Key, x.Error(), mask))
		case []byte:
			return slog.String(a.Key, maskedText(a.Key, string(x), mask))
		case fmt.Stringer:
			return slog.String(a.Key, maskedText(a.Key, x.String(), mask))
		default:
			text, err := json.Marshal(x)
			if err != nil {
				text = fmt.Append(nil, x)
			}
			if hidden := maskedText(a.Key, string(text), mask); err != nil || hidden != string(text) {
				return slog.String(a.Key, hidden)
			}
		}
	}
	return a
}

func maskedText(key, text string, mask func(string) string) string {
	if key != "" && key != slog.MessageKey {
		// A value such as a password is recognizable as a secret only by its name.
		if whole := key + "=" + text; text != "" && !strings.ContainsAny(text, " \n") && mask(whole) == key+"=***" {
			return "***"
		}
	}
	return mask(text)
}
