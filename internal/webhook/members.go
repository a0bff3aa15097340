package webhook

import (
	"bytes"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const (
	// maxBody is the maximum size in bytes of a body that a policy defines, maxText the maximum size
	// of one of its texts. A longer text is cut visibly.
	maxBody = 1 << 20
	maxText = 16 << 10
)

// writeMembers returns the JSON object of a body that a policy defines. The order is as in the policy.
func writeMembers(parts []policyfile.BodyPart, ev *grapnel.Event, o *wire.Origin) ([]byte, error) {
	var b bytes.Buffer
	err := writePart(&b, &policyfile.BodyPart{Parts: parts}, ev, o)
	if err == nil && b.Len() > maxBody {
		err = fmt.Errorf("the body has %d bytes, more than %d", b.Len(), maxBody)
	}
	return b.Bytes(), err
}

func writePart(b *bytes.Buffer, p *policyfile.BodyPart, ev *grapnel.Event, o *wire.Origin) error {
	if p.Expr != "" {
		value, err := match.Sent(match.KeyBody, p.Expr, ev, o)
		if err != nil {
			return err
		}
		text, err := rawjson.Marshal(capped(value))
		if err != nil {
			return fmt.Errorf("body: %s: %w", p.Expr, err)
		}
		b.Write(bytes.TrimSpace(text))
		return nil
	}
	brackets := "{}"
	if p.List {
		brackets = "[]"
	}
	b.WriteByte(brackets[0])
	for i := range p.Parts {
		if i > 0 {
			b.WriteByte(',')
		}
		if part := &p.Parts[i]; !p.List {
			name, err := rawjson.Marshal(part.Name)
			if err != nil {
				return err
			}
			b.Write(append(bytes.TrimSpace(name), ':'))
		}
		if err := writePart(b, &p.Parts[i], ev, o); err != nil {
			return err
		}
	}
	b.WriteByte(brackets[1])
	return nil
}

// capped returns a value in which each text is at most maxText long.
func capped(v any) any {
	switch v := v.(type) {
	case string:
		return fit(v, maxText, nil)
	case []string:
		texts := make([]any, len(v))
		for i := range v {
			texts[i] = capped(v[i])
		}
		return texts
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = capped(v[i])
		}
		return items
	case map[string]any:
		members := make(map[string]any, len(v))
		for name := range v {
			members[name] = capped(v[name])
		}
		return members
	}
	return v
}
