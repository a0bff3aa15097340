package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An Origin names the machine and the policies that judged an event, and the hooks that decided and
// that send it. Grapnel sets it when the event is judged; it is never part of an event that an agent
// sends.
type Origin struct {
	Host           string    `json:"host,omitempty"`
	User           string    `json:"user,omitempty"`
	Machine        string    `json:"machine,omitempty"`
	PolicyDigest   string    `json:"policy_digest,omitempty"`
	PolicyRevision string    `json:"policy_revision,omitempty"`
	Hook           HookRef   `json:"hook,omitzero"`     // sends the event
	Decided        []HookRef `json:"decided,omitempty"` // made the decision, in plan order
}

// A HookRef names a hook.
type HookRef struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
}

// String returns the full name of the hook: "source::name".
func (h HookRef) String() string {
	s := grapnel.Spec{Name: h.Name, Source: grapnel.Source{Name: h.Source}}
	return s.FullName()
}

type originKey struct{}

// WithOrigin returns a context for judging events, or for sending them later. nil = unknown.
func WithOrigin(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginFrom returns the origin in a context; nil = unknown.
func OriginFrom(ctx context.Context) *Origin {
	o, _ := ctx.Value(originKey{}).(*Origin)
	return o
}

// For returns the origin of an event with a verdict, or without one, that a hook sends.
func (o *Origin) For(name, source string, v *grapnel.Verdict) *Origin {
	if o == nil {
		return nil
	}
	out := *o
	out.Hook, out.Decided = HookRef{name, source}, nil
	if v == nil {
		return &out
	}
	for _, r := range v.Reasons {
		if ref := RefOf(r.Hook); !slices.Contains(out.Decided, ref) {
			out.Decided = append(out.Decided, ref)
		}
	}
	return &out
}

// RefOf returns the parts of a full name. The name of a source can contain colons, too.
func RefOf(full string) HookRef {
	if i := strings.LastIndex(full, "::"); i >= 0 {
		return HookRef{full[i+len("::"):], full[:i]}
	}
	return HookRef{Name: full}
}

// Originated returns the JSON of an object with the origin as its last member. The object must have no
// such member: neither the plain form of an event nor a notification has one.
// Originated may overwrite the object.
func Originated(object []byte, o *Origin) ([]byte, error) {
	if o == nil {
		return object, nil
	}
	text, err := rawjson.Marshal(o)
	if err != nil {
		return nil, err
	}
	object = bytes.TrimSpace(object)
	if object = object[:len(object)-1]; len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(append(object, `"origin":`...), text...), '}'), nil
}

// ReadOrigin returns the origin in the JSON of an object that [Originated] returned; nil = unknown.
func ReadOrigin(object []byte) (*Origin, error) {
	var top struct {
		Origin *Origin `json:"origin"`
	}
	err := json.Unmarshal(object, &top)
	return top.Origin, err
}
