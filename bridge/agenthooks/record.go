package agenthooks

import "encoding/json"

// A Record describes one emission: the interceptors and the result, without any part of the
// target. Every emission has a Record, even if no interceptor was called.
type Record struct {
	Point                  string               `json:"interception_point"`
	Mode                   Mode                 `json:"mode"`
	Verdict                Verdict              `json:"verdict"`           // without the transform's value and the approval's content; messages are cut
	InputIdentity          *string              `json:"input_identity"`    // of the original context
	EnforcedIdentity       *string              `json:"enforced_identity"` // of the context with all transforms applied
	IdentityProvider       *string              `json:"identity_provider"`
	SessionID              string               `json:"session_id"`
	Sequence               int64                `json:"sequence"` // -1 = unknown session
	Composition            Composition          `json:"composition"`
	InterceptorsRegistered int                  `json:"interceptors_registered"`
	DecidedBy              *int                 `json:"decided_by"`               // index of the deciding interceptor; nil = an allow, or decided by the host
	Verdicts               []InterceptorVerdict `json:"verdicts,omitzero"`        // of each called interceptor
	FoldTruncated          *bool                `json:"fold_truncated,omitempty"` // at least one interceptor was not called
	ResolvedBy             string               `json:"resolved_by,omitempty"`    // approval or rejection; empty = the Resolver was not asked
	Timestamp              string               `json:"timestamp,omitempty"`      // timestamp of the context
	Trace                  *RecordsTrace        `json:"trace,omitempty"`          // trace of the context
}

// InterceptorVerdict is the verdict of one interceptor in a Record.
type InterceptorVerdict struct {
	Index    int      `json:"index"`
	Decision Decision `json:"decision"`
	Reason   string   `json:"reason,omitempty"`
	Name     string   `json:"name,omitempty"`
}

// A RecordsTrace identifies the trace of an emission.
type RecordsTrace struct {
	TraceID string `json:"trace_id,omitempty"`
	SpanID  string `json:"span_id,omitempty"`
}

// maxMessage is the maximum length of a message in a Record, in bytes.
const maxMessage = 256

// projected returns the verdict in the form for records.
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

// take sets the results of the interceptors.
func (r *Record) take(out *composed, names []string) {
	r.Verdict, r.DecidedBy, r.ResolvedBy = out.verdict.projected(), out.decidedBy, out.resolvedBy
	for i := range out.verdicts {
		v := &out.verdicts[i]
		r.Verdicts = append(r.Verdicts, InterceptorVerdict{i, v.Decision, v.Reason, names[i]})
	}
	// If all interceptors were called, fold_truncated is present only for the profile FirstDeny.
	if out.truncated || r.Composition.Profile == FirstDeny && len(out.verdicts) > 0 {
		r.FoldTruncated = &out.truncated
	}
}

// trace copies the trace IDs of the context.
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
