package agenthooks

import "encoding/json"

// A Record is what is kept of one emission: who was asked, what came of it, and nothing
// of the target. There is one of each, also where no interceptor was called.
type Record struct {
	Point                  string        `json:"interception_point"`
	Mode                   Mode          `json:"mode"`
	Verdict                Verdict       `json:"verdict"`           // without the value of a transform and what an approval holds, messages cut
	InputIdentity          *string       `json:"input_identity"`    // of the context as it came
	EnforcedIdentity       *string       `json:"enforced_identity"` // of the context as transforms have left it
	IdentityProvider       *string       `json:"identity_provider"`
	SessionID              string        `json:"session_id"`
	Sequence               int64         `json:"sequence"` // -1 = the session is not known
	Composition            Composition   `json:"composition"`
	InterceptorsRegistered int           `json:"interceptors_registered"`
	DecidedBy              *int          `json:"decided_by"`               // whose verdict it is; nil = an allow, or the host's own
	Verdicts               []Said        `json:"verdicts,omitzero"`        // of each interceptor that was called
	FoldTruncated          *bool         `json:"fold_truncated,omitempty"` // somebody was not called
	ResolvedBy             string        `json:"resolved_by,omitempty"`    // approval or rejection; empty = nobody was asked to lift a deny
	Timestamp              string        `json:"timestamp,omitempty"`      // of the context
	Trace                  *RecordsTrace `json:"trace,omitempty"`          // of the context
}

// Said is what one interceptor said.
type Said struct {
	Index    int      `json:"index"`
	Decision Decision `json:"decision"`
	Reason   string   `json:"reason,omitempty"`
	Name     string   `json:"name,omitempty"`
}

// A RecordsTrace says to which trace an emission belongs.
type RecordsTrace struct {
	TraceID string `json:"trace_id,omitempty"`
	SpanID  string `json:"span_id,omitempty"`
}

// maxMessage is how much of a message is kept.
const maxMessage = 256

// projected is a verdict as records hold it.
func (v Verdict) projected() Verdict {
	v.Message = cutText(v.Message, maxMessage)
	var warnings []Warning
	for _, w := range v.Warnings {
		warnings = append(warnings, Warning{w.Reason, cutText(w.Message, maxMessage)})
	}
	v.Warnings = warnings
	if v.Approval != nil {
		v.Approval = json.RawMessage("{}")
	}
	if v.Transform != nil {
		v.Transform = &Change{Path: v.Transform.Path}
	}
	return v
}

// take fills in what came of asking.
func (r *Record) take(out *composed, names []string) {
	r.Verdict, r.DecidedBy, r.ResolvedBy = out.verdict.projected(), out.decidedBy, out.resolvedBy
	for i := range out.verdicts {
		v := &out.verdicts[i]
		r.Verdicts = append(r.Verdicts, Said{i, v.Decision, v.Reason, names[i]})
	}
	// A fold that was not cut short is said to be so only where a deny cuts it.
	if out.truncated || r.Composition.Profile == FirstDeny && len(out.verdicts) > 0 {
		r.FoldTruncated = &out.truncated
	}
}

// trace copies what the context says of its trace.
func (r *Record) trace(tree map[string]any) {
	traceID, _ := at(tree, "trace.trace_id")
	spanID, _ := at(tree, "trace.span_id")
	var t RecordsTrace
	t.TraceID, _ = traceID.(string)
	t.SpanID, _ = spanID.(string)
	if t != (RecordsTrace{}) {
		r.Trace = &t
	}
}
