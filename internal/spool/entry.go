package spool

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// meta encodes an Entry without the event and its Changes, with the same result as encoding/json,
// except that a late Entry has no decision.
// A hook program does not use encoding/json here, because preparing the types takes longer than
// all other work for a Record.
func (e *Entry) meta() ([]byte, error) {
	at, err := e.Time.MarshalJSON()
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, 1<<10), '{')
	b = addText(b, "id", e.ID)
	b = append(addName(b, "time"), at...)
	b = addText(b, "agent", e.Agent)
	b = addText(b, "session", e.Session)
	b = addText(b, "event", string(e.Event))
	b = addSome(b, "tool", e.Tool)
	if !e.Late { // hooks that run after the reply decide nothing
		b = addText(b, "decision", e.Decision.String())
	}
	if e.Would != grapnel.None {
		b = addText(b, "would", e.Would.String())
	}
	b = addList(b, "hooks", e.Hooks, addRun)
	if len(e.Reasons) > 0 {
		b = addList(b, "reasons", e.Reasons, addReason)
	}
	b = addSome(b, "halt", e.Halt)
	b = addTexts(b, "changed", e.Changed)
	b = addTexts(b, "conflicts", e.Conflicts)
	b = addTexts(b, "unsupported", e.Unsupported)
	b = addSome(b, "error", e.Error)
	for _, field := range [...]struct{ name, text string }{
		{"host", e.Host},
		{"user", e.User},
		{"machine", e.Machine},
		{"policy_digest", e.PolicyDigest},
		{"policy_revision", e.PolicyRevision},
		{"approval", e.Approval},
		{"call_digest", e.CallDigest},
		{"provenance", e.Provenance},
		{"gateway", e.Gateway},
	} {
		b = addSome(b, field.name, field.text)
	}
	b = addCount(b, "tokens_in", e.TokensIn)
	b = addCount(b, "tokens_out", e.TokensOut)
	b = addNumber(b, "ms", e.MS)
	b = addFlag(b, "late", e.Late)
	b = addTexts(b, "context", e.Context) // last, because it is cut first if there is not enough room
	return append(b, '}'), nil
}

// object encodes fields, sorted by name.
func object(fields map[grapnel.Field]json.RawMessage) []byte {
	b := []byte{'{'}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		b = append(addName(b, string(field)), fields[field]...)
	}
	return append(b, '}')
}

func addRun(b []byte, run grapnel.HookRun) []byte {
	b = append(b, '{')
	b = addText(b, "name", run.Name)
	b = addText(b, "source", run.Source)
	b = addCount(b, "line", run.Line)
	b = addText(b, "decision", run.Decision.String())
	b = addSome(b, "cause", string(run.Cause))
	b = addSome(b, "error", run.Error)
	b = addFlag(b, "halt", run.Halt)
	b = addTexts(b, "changed", run.Changed)
	b = addFlag(b, "fail_open", run.FailOpen)
	b = addFlag(b, "expired", run.Expired)
	b = addFlag(b, "observed", run.Observed)
	b = addCount(b, "round", run.Round)
	if run.Approved != grapnel.None {
		b = addText(b, "approved", run.Approved.String())
	}
	b = addFlag(b, "superseded", run.Superseded)
	b = addFlag(b, "async", run.Async)
	b = addNumber(b, "ms", run.MS)
	return append(b, '}')
}

func addReason(b []byte, r grapnel.Reason) []byte {
	b = addText(append(b, '{'), "hook", r.Hook)
	b = addText(b, "text", r.Text)
	return append(addText(b, "cause", string(r.Cause)), '}')
}

// addName begins a member of the object at the end of b.
func addName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), `":`...)
}

func addText(b []byte, name, text string) []byte { return addQuoted(addName(b, name), text) }

// addSome adds a text if it is not empty.
func addSome(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return addText(b, name, text)
}

func addTexts[T ~string](b []byte, name string, texts []T) []byte {
	if len(texts) == 0 {
		return b
	}
	return addList(b, name, texts, func(b []byte, text T) []byte { return addQuoted(b, string(text)) })
}

func addList[T any](b []byte, name string, list []T, add func([]byte, T) []byte) []byte {
	b = addName(b, name)
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = add(b, v)
	}
	return append(b, ']')
}

func addNumber(b []byte, name string, x float64) []byte {
	return strconv.AppendFloat(addName(b, name), x, 'f', -1, 64)
}

// addCount adds a number if it is not 0.
func addCount(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return addNumber(b, name, float64(n))
}

// addFlag adds a flag if it is true.
func addFlag(b []byte, name string, flag bool) []byte {
	if !flag {
		return b
	}
	return append(addName(b, name), "true"...)
}

func addQuoted(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return append(b, rawjson.Quote(text)...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
