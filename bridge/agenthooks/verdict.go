package agenthooks

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Decision is the decision of a verdict.
type Decision string

// The decisions. Any other value makes the verdict invalid, which is a deny.
const (
	Allow     Decision = "allow"     // no objection
	Deny      Decision = "deny"      // the step does not run, or its result is discarded
	Transform Decision = "transform" // the step runs with a changed target
)

// A Verdict is the answer of an interceptor, or the combination of several answers.
type Verdict struct {
	Decision     Decision        `json:"decision"`
	Reason       string          `json:"reason,omitempty"`        // short and stable, such as policy:secrets; without the prefix host_error:
	Message      string          `json:"message,omitempty"`       // for users
	Warnings     []Warning       `json:"warnings,omitempty"`      // remarks, for example together with an allow
	Approval     json.RawMessage `json:"approval,omitempty"`      // only for a deny: an object; the Resolver may then lift the deny
	Transform    *Change         `json:"transform,omitempty"`     // only for a transform
	Evidence     json.RawMessage `json:"evidence,omitempty"`      // for an auditor: {artefact, verification_pointers}
	ResultLabels []string        `json:"result_labels,omitempty"` // labels for the data that the step produces
}

// A Warning is a remark that does not stop the step.
type Warning struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// A Change replaces one value in the target. Path is $target, followed by any of .name, [7] and
// ["name"]; the place must exist. An absent value is null.
type Change struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// JSON returns the verdict in the format for interceptors. If a value in it is not valid JSON, it
// returns nil, which is treated as an invalid verdict.
func (v *Verdict) JSON() json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}

// hostError is the prefix of reasons that only the host gives. The specification defines no
// others.
const hostError = "host_error:"

const (
	reasonContextInvalid   = hostError + "context_invalid"
	reasonFailed           = hostError + "interceptor_failed"
	reasonTimeout          = hostError + "interceptor_timeout"
	reasonVerdictInvalid   = hostError + "verdict_invalid"
	reasonTransformInvalid = hostError + "transform_invalid"
	reasonTargetForbidden  = hostError + "transform_target_forbidden"
	reasonConflict         = hostError + "transform_conflict"
	reasonDisagreement     = hostError + "composition_disagreement"
	reasonResolverFailed   = hostError + "approval_resolver_failed"
	reasonUnresolved       = hostError + "approval_unresolved"
	reasonMismatch         = hostError + "approval_identity_mismatch"
	reasonNoInterceptor    = hostError + "no_interceptor"
	reasonStreaming        = hostError + "streaming_unsupported"
)

// denied returns a deny by the host. The message must not contain any part of the target.
func denied(reason, message string) Verdict {
	return Verdict{Decision: Deny, Reason: reason, Message: message}
}

func (v *Verdict) permits() bool  { return v.Decision != Deny }
func (v *Verdict) liftable() bool { return v.Decision == Deny && v.Approval != nil }
func (v *Verdict) byHost() bool   { return strings.HasPrefix(v.Reason, hostError) }

// severity ranks verdicts: a liftable deny is between a transform and a deny.
func (v *Verdict) severity() int {
	switch {
	case v.liftable():
		return 2
	case v.Decision == Deny:
		return 3
	case v.Decision == Transform:
		return 1
	default:
		return 0
	}
}

// maxEvidence is the maximum length of evidence as canonical JSON, in bytes.
const maxEvidence = 10240

// gate parses the answer of an interceptor. An invalid verdict becomes a deny whose message names
// the member. Unknown members are ignored, and null is treated as absent. Whether a transform is
// applicable is checked when it is applied.
func gate(raw json.RawMessage) Verdict {
	v, wrong := readVerdict(raw)
	if wrong != "" {
		return denied(reasonVerdictInvalid, wrong)
	}
	return v
}

// readVerdict parses a verdict; wrong describes the problem if it is invalid.
func readVerdict(raw json.RawMessage) (v Verdict, wrong string) {
	parsed, err := parse(raw, "")
	tree, is := parsed.(map[string]any)
	if err != nil || !is {
		return v, "the verdict is not a JSON object"
	}
	decision, _ := tree["decision"].(string)
	v.Decision = Decision(decision)
	if !slices.Contains([]Decision{Allow, Deny, Transform}, v.Decision) {
		return v, "decision is not allow, deny or transform"
	}
	var ok bool
	if v.Reason, ok = optional[string](tree["reason"]); !ok || v.byHost() {
		return v, "reason is not a string, or begins with " + hostError
	}
	if v.Message, ok = optional[string](tree["message"]); !ok {
		return v, "message is not a string"
	}
	if v.Warnings, ok = readWarnings(tree["warnings"]); !ok {
		return v, "warnings are not a list of {reason, message}"
	}
	if approval, ok := optional[map[string]any](tree["approval"]); !ok || approval != nil && v.Decision != Deny {
		return v, "approval is not an object, or the decision is not deny"
	} else if approval != nil {
		v.Approval = rawjson.AppendSorted(nil, approval)
	}
	change, ok := optional[map[string]any](tree["transform"])
	if !ok || (change != nil) != (v.Decision == Transform) {
		return v, "transform is not an object, or the decision is not transform"
	}
	if change != nil {
		path, is := change["path"].(string)
		if !is {
			return v, "transform.path is not a string"
		}
		v.Transform = &Change{Path: path, Value: rawjson.AppendSorted(nil, change["value"])}
	}
	if evidence, ok := optional[map[string]any](tree["evidence"]); !ok || !isEvidence(evidence) {
		return v, "evidence is not {artefact, verification_pointers}, or longer than 10240 bytes"
	} else if evidence != nil {
		v.Evidence = rawjson.AppendSorted(nil, evidence)
	}
	if v.ResultLabels, ok = readLabels(tree["result_labels"]); !ok {
		return v, "result_labels are not a list of strings"
	}
	return v, ""
}

// optional returns a value of one type, or the zero value if v is nil.
func optional[T any](v any) (value T, ok bool) {
	if v == nil {
		return value, true
	}
	value, ok = v.(T)
	return value, ok
}

func readWarnings(v any) (warnings []Warning, ok bool) {
	list, ok := optional[[]any](v)
	for _, each := range list {
		m, is := each.(map[string]any)
		reason, okReason := optional[string](m["reason"])
		message, okMessage := optional[string](m["message"])
		if !is || !okReason || !okMessage || strings.HasPrefix(reason, hostError) {
			return nil, false
		}
		warnings = append(warnings, Warning{reason, message})
	}
	return warnings, ok
}

func readLabels(v any) (labels []string, ok bool) {
	list, ok := optional[[]any](v)
	for _, each := range list {
		label, is := each.(string)
		if !is {
			return nil, false
		}
		labels = append(labels, label)
	}
	return labels, ok
}

func isEvidence(evidence map[string]any) bool {
	_, ok := optional[string](evidence["artefact"])
	pointers, okPointers := optional[map[string]any](evidence["verification_pointers"])
	if !ok || !okPointers {
		return false
	}
	for _, uri := range pointers {
		if !isString(uri) {
			return false
		}
	}
	text, err := appendCanonical(nil, evidence, "")
	return err == nil && (evidence == nil || len(text) <= maxEvidence)
}
