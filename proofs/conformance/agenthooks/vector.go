package agenthooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// A vector is one file: interceptors with fixed answers, a scripted model, scripted tools, and
// the expected result. It uses the members of the specification's format, so the same code runs
// the specification's files and ours.
type vector struct {
	ID           string       `json:"id"`
	Title        string       `json:"title"`
	SpecClause   string       `json:"spec_clause"`
	Part         string       `json:"part"`
	Mode         string       `json:"mode"`
	Capabilities []string     `json:"capabilities"`
	Composition  *composition `json:"composition"`

	IdentityProvider json.RawMessage `json:"identity_provider"` // nil = the default; null = no provider

	Script  *[]rule   `json:"interceptor_script"`  // rules of a single interceptor
	Scripts *[][]rule `json:"interceptor_scripts"` // rules per interceptor

	Approvals []approval `json:"approval_script"`
	Redact    []string   `json:"redact_for_approval"`
	Scenario  *scenario  `json:"scenario"`
	Expect    *expect    `json:"expect"`

	file string
	err  error // why it cannot run
}

type composition struct {
	Profile             string `json:"profile"`
	OnApproval          string `json:"on_approval"`
	OnDisagreement      string `json:"on_disagreement"`
	OnTransformConflict string `json:"on_transform_conflict"`
}

// A rule is an interceptor's answer for contexts that match. The first matching rule applies.
type rule struct {
	At     string                     `json:"at"`
	Match  map[string]json.RawMessage `json:"match"`
	Return json.RawMessage            `json:"return"`
	Fault  string                     `json:"fault"`
}

// The possible faults of a rule.
const (
	faultRaise     = "raise"
	faultMalformed = "malformed_verdict"
	faultMutate    = "mutate"
)

type approval struct {
	Match            map[string]json.RawMessage `json:"match"`
	Resolve          open[resolve]              `json:"resolve"`
	Verdict          json.RawMessage            `json:"verdict"`
	IdentityOverride *string                    `json:"identity_override"`
	EchoRecomputed   bool                       `json:"echo_recomputed"`
}

type resolve struct {
	Outcome          string          `json:"outcome"`
	Fault            string          `json:"fault"`
	Verdict          json.RawMessage `json:"verdict"`
	IdentityOverride *string         `json:"identity_override"`
	EchoRecomputed   bool            `json:"echo_recomputed"`
}

type scenario struct {
	Input *open[struct {
		Content json.RawMessage `json:"content"`
		Role    string          `json:"role"`
	}] `json:"input"`
	Tools  []open[tool] `json:"tools"`
	Script []open[struct {
		Respond respond `json:"respond"`
	}] `json:"model_script"`
}

type tool struct {
	Name     string      `json:"name"`
	Behavior []behaviour `json:"behavior"`
}

type behaviour struct {
	When    json.RawMessage `json:"when_args"`
	Return  json.RawMessage `json:"return"`
	IsError bool            `json:"is_error"`
}

type respond struct {
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"tool_calls"`
	FinishReason string   `json:"finish_reason"`
	Stream       []string `json:"stream"`
	Truncated    bool     `json:"stream_truncated"`
}

type expect struct {
	Interceptions  *[]interception `json:"interceptions"`
	SequenceStrict *bool           `json:"sequence_strict"` // nil = true
	Absent         []string        `json:"interceptions_absent"`
	RunOutcome     string          `json:"run_outcome"`
	ByPosture      *struct {
		Posture  string            `json:"posture"`
		Outcomes map[string]string `json:"outcomes"`
	} `json:"run_outcome_by_posture"`
	FinalOutput     json.RawMessage  `json:"final_output"`
	Invocations     *[]invocation    `json:"tool_invocations"`
	NotInvoked      []string         `json:"tool_not_invoked"`
	Records         *[]recordPattern `json:"records"`
	IdentitiesEqual *bool            `json:"identities_equal"`
	Released        *string          `json:"released_output"`
	NotPersisted    []string         `json:"persisted_must_not_contain"`
}

type interception struct {
	Point          string                     `json:"interception_point"`
	Context        map[string]json.RawMessage `json:"context"`
	MustValidate   bool                       `json:"context_must_validate"`
	MustContain    []string                   `json:"context_must_contain"`
	MustNotContain []string                   `json:"context_must_not_contain"`
}

type recordPattern struct {
	Point   string                     `json:"interception_point"`
	Assert  map[string]json.RawMessage `json:"assert"`
	Present []string                   `json:"present"`
	Absent  []string                   `json:"absent"`
}

// An invocation is a call that reached a tool.
type invocation struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// open decodes a value and ignores unknown members. All other values are decoded strictly,
// because an unknown member could be an expectation that Grapnel does not check.
type open[T any] struct{ v T }

func (o *open[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &o.v) }

// strict decodes one JSON value. Unknown members and trailing data are errors.
func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// Load reads the vectors of a directory from the files AH-CTK-*.json, sorted by name, and the golden
// identities in ../golden/identity.json. It returns an error if no vector is found. A file that
// cannot be read or decoded becomes a case that fails when it runs. opts may be nil.
func Load(dir string, opts *Options) ([]conformance.Case, error) {
	vectors, err := vectorsIn(dir)
	if err != nil {
		return nil, err
	}
	var cases []conformance.Case
	for i := range vectors {
		cases = append(cases, opts.caseOf(&vectors[i]))
	}
	return append(cases, golden(dir)...), nil
}

func vectorsIn(dir string) ([]vector, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look for vectors: %w", err)
	}
	var vectors []vector
	for _, e := range entries {
		if fits, _ := filepath.Match("AH-CTK-*.json", e.Name()); fits && !e.IsDir() {
			vectors = append(vectors, load(filepath.Join(dir, e.Name())))
		}
	}
	if len(vectors) == 0 {
		return nil, fmt.Errorf("%s: no vectors found (AH-CTK-*.json)", dir)
	}
	return vectors, nil
}

func load(file string) vector {
	v := vector{file: file}
	var raw []byte
	if raw, v.err = os.ReadFile(file); v.err == nil {
		v.err = strict(raw, &v)
	}
	if v.err == nil {
		v.err = v.check()
	}
	v.ID = cmp.Or(v.ID, filepath.Base(file))
	return v
}

var ids = regexp.MustCompile(`^AH-CTK-[0-9]{3}(-[a-z0-9-]+)?$`)

// pointNames are the eight interception points.
var pointNames = []string{
	"agent_startup", "input", "pre_model_call", "post_model_call", "pre_tool_call", "post_tool_call", "output", "agent_shutdown",
}

// twins maps each point to the context member that the member "target" repeats.
var twins = map[string]string{
	"agent_startup": "agent_init", "input": "input", "pre_model_call": "messages", "post_model_call": "response",
	"pre_tool_call": "tool_call.args", "post_tool_call": "tool_result.value", "output": "output", "agent_shutdown": "summary",
}

// check returns an error that explains why the vector is not valid, or nil.
func (v *vector) check() error {
	switch {
	case !ids.MatchString(v.ID):
		return fmt.Errorf("id %q: want AH-CTK-, three digits and a name", v.ID)
	case v.Title == "" || v.SpecClause == "":
		return errors.New("title or spec_clause is missing")
	case v.Mode != "" && v.Mode != "enforce" && v.Mode != "evaluate_only":
		return fmt.Errorf("unknown mode %q", v.Mode)
	case v.Composition != nil && v.Composition.Profile == "":
		return errors.New("composition has no profile")
	case (v.Script == nil) == (v.Scripts == nil):
		return errors.New("want either interceptor_script or interceptor_scripts")
	case v.Scenario == nil || v.Scenario.Input == nil:
		return errors.New("scenario or its input is missing")
	case v.Expect == nil || v.Expect.Interceptions == nil || v.Expect.RunOutcome == "":
		return errors.New("expect, or its interceptions or run_outcome, is missing")
	case !slices.Contains(outcomes, v.Expect.RunOutcome):
		return fmt.Errorf("unknown run_outcome %q", v.Expect.RunOutcome)
	}
	for _, script := range v.scripts() {
		for i := range script {
			if err := script[i].check(); err != nil {
				return err
			}
		}
	}
	for i := range v.Approvals {
		r := &v.Approvals[i].Resolve.v
		if (r.Outcome == "") == (r.Fault == "") || r.Fault != "" && r.Fault != faultRaise {
			return errors.New("an approval has either an outcome or the fault raise")
		}
	}
	if p := v.Expect.ByPosture; p != nil {
		switch {
		case p.Posture != "tool_seam_host_error":
			return fmt.Errorf("unknown posture %q", p.Posture)
		case p.Outcomes["continue"] != v.Expect.RunOutcome:
			return errors.New("run_outcome_by_posture and run_outcome do not agree")
		}
	}
	return v.checkPoints()
}

// outcomes are the possible outcomes of a run.
var outcomes = []string{"completed", "blocked", "error"}

func (v *vector) checkPoints() error {
	names := slices.Clone(v.Expect.Absent)
	for _, i := range *v.Expect.Interceptions {
		names = append(names, i.Point)
	}
	if v.Expect.Records != nil {
		for _, r := range *v.Expect.Records {
			names = append(names, r.Point)
		}
	}
	for _, name := range names {
		if !slices.Contains(pointNames, name) {
			return fmt.Errorf("unknown point %q", name)
		}
	}
	return nil
}

func (r *rule) check() error {
	switch {
	case !slices.Contains(pointNames, r.At):
		return fmt.Errorf("a rule is at the unknown point %q", r.At)
	case (r.Return == nil) == (r.Fault == ""):
		return errors.New("a rule has either return or fault")
	case r.Fault != "" && !slices.Contains([]string{faultRaise, faultMalformed, faultMutate}, r.Fault):
		return fmt.Errorf("unknown fault %q", r.Fault)
	}
	return nil
}

// scripts returns the rules of each interceptor.
func (v *vector) scripts() [][]rule {
	if v.Script != nil {
		return [][]rule{*v.Script}
	}
	return *v.Scripts
}
