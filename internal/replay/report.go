package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// A Class is the kind of a difference between the recorded and the new result.
type Class string

// The classes.
const (
	NewlyBlocked Class = "newly-blocked"
	NewlyAsked   Class = "newly-asked"
	NewlyAllowed Class = "newly-allowed"     // blocked or asked before, and now not; or the agent's own prompt is now skipped
	NoLonger     Class = "no-longer-allowed" // the agent now shows its own prompt again
	OtherReasons Class = "other-reasons"
	OtherChanges Class = "other-changes"
	Unsure       Class = "unsure" // less strict now, but possibly only because the Record is not complete
)

// Classes returns every Class, in the order for display.
func Classes() []Class { return slices.Clone(classes) }

var classes = []Class{NewlyAllowed, NewlyBlocked, NewlyAsked, NoLonger, OtherReasons, OtherChanges, Unsure}

// A Report is the result of [Play]. Times are in milliseconds.
type Report struct {
	From          time.Time      `json:"from,omitzero"` // time of the first evaluated Record; To is the time of the last
	To            time.Time      `json:"to,omitzero"`
	Played        int            `json:"played"`
	Same          int            `json:"same"`
	Skipped       []Skipped      `json:"skipped"` // Records that could not be evaluated
	Counts        map[Class]int  `json:"counts"`
	Differences   []Difference   `json:"differences"`
	More          int            `json:"more,omitempty"` // Records with differences that are not listed
	Then          Cost           `json:"then"`           // recorded durations, including all hooks, or the durations with Options.Against
	Now           Cost           `json:"now"`            // without programs and servers, which do not run
	RecordedHooks []RecordedHook `json:"recorded_hooks"` // hooks whose recorded answers were used
	Gone          []GoneSource   `json:"gone"`           // sources of recorded hooks that the policy does not have

	groups    map[string]*Difference
	skipped   map[Cause]*Skipped
	gone      map[string]int
	then, now Times
}

// Skipped counts Records that could not be evaluated, by cause.
type Skipped struct {
	Cause Cause  `json:"cause"`
	Count int    `json:"count"`
	ID    string `json:"id,omitempty"` // the ID of one of them
}

// A Rule is a hook that contributed to a decision.
type Rule struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Line   int    `json:"line,omitempty"`
}

// A Difference is a group of Records with the same change of the result and the same hooks.
type Difference struct {
	Class    Class            `json:"class"`
	Then     grapnel.Decision `json:"then"`
	Now      grapnel.Decision `json:"now"`
	By       []Rule           `json:"by"`            // the hooks that decide now
	Was      []Rule           `json:"was,omitempty"` // the hooks that decided in the Records
	Count    int              `json:"count"`
	Examples []Example        `json:"examples"`
}

// An Example is one Record of a Difference.
type Example struct {
	ID      string       `json:"id"`
	Time    time.Time    `json:"time"`
	Agent   string       `json:"agent"`
	Session string       `json:"session"`
	Event   grapnel.Kind `json:"event"`
	Tool    string       `json:"tool,omitempty"`
	About   string       `json:"about,omitempty"` // the command, the path, the prompt
	Then    string       `json:"then,omitempty"`  // reasons or changes, if they differ
	Now     string       `json:"now,omitempty"`
}

// RecordedHook is a hook that runs a program or contacts a server. Its answers come from Records.
type RecordedHook struct {
	Name    string `json:"name"`
	Answers int    `json:"answers"`
	Unknown int    `json:"unknown,omitempty"` // calls without a recorded answer, which are treated as no opinion
	Changes int    `json:"changes,omitempty"` // recorded answers that changed the event; the changes are not applied
}

// A GoneSource is a source in Records that the policy does not have.
type GoneSource struct {
	Source string `json:"source"`
	Count  int    `json:"count"` // number of recorded runs of its hooks
}

// A Cost describes the distribution of durations.
type Cost struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	Max  float64 `json:"max_ms"`
}

// maxGroups is the maximum number of Differences that are counted separately.
const maxGroups = 2000

func newReport() *Report {
	return &Report{Counts: map[Class]int{}, groups: map[string]*Difference{}, skipped: map[Cause]*Skipped{}, gone: map[string]int{}}
}

func (r *Report) skip(cause Cause, id string) { r.addSkipped(Skipped{cause, 1, id}) }

func (r *Report) addSkipped(s Skipped) {
	have := r.skipped[s.Cause]
	if have == nil {
		have = &Skipped{Cause: s.Cause}
		r.skipped[s.Cause] = have
	}
	have.Count += s.Count
	have.ID = cmp.Or(have.ID, s.ID)
}

// saw extends the time range of the report.
func (r *Report) saw(at time.Time) {
	if r.From.IsZero() || at.Before(r.From) {
		r.From = at
	}
	if at.After(r.To) {
		r.To = at
	}
}

// differ adds a Difference.
func (r *Report) differ(d *Difference, examples int) {
	r.Counts[d.Class] += d.Count
	r.group(d, examples)
}

func (r *Report) group(d *Difference, examples int) {
	key := fmt.Sprint(d.Class, d.Then, d.Now, d.By, d.Was)
	have := r.groups[key]
	switch {
	case have == nil && len(r.groups) >= maxGroups:
		r.More += d.Count
	case have == nil:
		kept := *d
		r.groups[key] = &kept
	default:
		have.Count += d.Count
		have.Examples = append(have.Examples, d.Examples...)
		slices.SortFunc(have.Examples, func(a, b Example) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
		have.Examples = have.Examples[:min(len(have.Examples), examples)]
	}
}

// add adds the report of another player.
func (r *Report) add(o *Report) {
	if o.Played > 0 {
		r.saw(o.From)
		r.saw(o.To)
	}
	r.Played += o.Played
	r.More += o.More
	r.then.merge(&o.then)
	r.now.merge(&o.now)
	for _, s := range o.skipped {
		r.addSkipped(*s)
	}
	for source, n := range o.gone {
		r.gone[source] += n
	}
	for _, d := range o.groups {
		r.group(d, math.MaxInt)
	}
	for class, n := range o.Counts {
		r.Counts[class] += n
	}
}

// finish converts the counters to sorted lists.
func (r *Report) finish(opts *Options, players []*player) {
	r.Skipped, r.Differences, r.RecordedHooks, r.Gone = []Skipped{}, []Difference{}, []RecordedHook{}, []GoneSource{}
	different := r.More
	for _, s := range r.skipped {
		r.Skipped = append(r.Skipped, *s)
	}
	for _, d := range r.groups {
		d.Examples = d.Examples[:min(len(d.Examples), opts.Examples)]
		r.Differences = append(r.Differences, *d)
		different += d.Count
	}
	r.Same = r.Played - different
	for source, n := range r.gone {
		r.Gone = append(r.Gone, GoneSource{source, n})
	}
	hooks := map[string]*RecordedHook{}
	for _, p := range players {
		for name, t := range p.now.programs {
			if hooks[name] == nil {
				hooks[name] = &RecordedHook{Name: name}
			}
			hooks[name].Answers += t.Answers
			hooks[name].Unknown += t.Unknown
			hooks[name].Changes += t.Changes
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		r.RecordedHooks = append(r.RecordedHooks, *hooks[name])
	}
	r.Then, r.Now = r.then.Cost(), r.now.Cost()
	slices.SortFunc(r.Skipped, func(a, b Skipped) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause)) })
	slices.SortFunc(r.Gone, func(a, b GoneSource) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Source, b.Source))
	})
	slices.SortFunc(r.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(classes, a.Class), slices.Index(classes, b.Class)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(fmt.Sprint(a.By, a.Was, a.Then, a.Now), fmt.Sprint(b.By, b.Was, b.Then, b.Now)))
	})
}

// compare returns the Difference between the new result of an event and the recorded one, or the
// one of Options.Against. It returns nil if they are equal.
func compare(s *scene, then, now *played, values bool) *Difference {
	was, is := strictness(&then.Record), strictness(&now.Record)
	example := Example{
		ID: wording.Shorten(s.entry.ID, maxName), Time: s.entry.Time, Agent: wording.Shorten(s.entry.Agent, maxName), Session: wording.Shorten(s.entry.Session, maxName),
		Event: wording.Shorten(s.entry.Event, maxName), Tool: wording.Shorten(s.entry.Tool, maxName),
	}
	d := &Difference{Then: was, Now: is, Count: 1}
	switch {
	case is == was:
		if d.Class = otherwise(&then.Record, &now.Record, values, &example); d.Class == "" {
			return nil
		}
	case is == grapnel.Block:
		d.Class = NewlyBlocked
	case is == grapnel.Ask:
		d.Class = NewlyAsked
	case was == grapnel.Allow:
		d.Class = NoLonger
	default:
		d.Class = NewlyAllowed
	}
	d.By, d.Was = behind(&now.Record), behind(&then.Record)
	if is < was && was > grapnel.Allow && !values && (s.reduced || now.missing) {
		d.Class = Unsure
	}
	example.About = about(s.event)
	d.Examples = []Example{example}
	return d
}

// strictness returns the decision for the agent. If the turn ends at an event that can be
// blocked, the action is blocked.
func strictness(r *grapnel.Record) grapnel.Decision {
	if c, ok := grapnel.ContractOf(r.Event); r.Halt != "" && ok && c.Blocks == grapnel.BlockingAction {
		return grapnel.Block
	}
	return r.Decision
}

// otherwise returns the kind of a difference if the decisions are equal, or "".
func otherwise(then, now *grapnel.Record, values bool, ex *Example) Class {
	was, is := changes(then, values), changes(now, values)
	if was != is {
		ex.Then, ex.Now = short(was), short(is)
		return OtherChanges
	}
	if now.Decision <= grapnel.Allow && now.Halt == "" {
		return ""
	}
	was, is = reasons(then), reasons(now)
	if was != is && (values || noNumbers(was) != noNumbers(is)) {
		ex.Then, ex.Now = short(was), short(is)
		return OtherReasons
	}
	return ""
}

// changes describes the changes of an event: the fields, and their new values if known.
func changes(r *grapnel.Record, values bool) string {
	fields := slices.Sorted(slices.Values(r.Changed))
	var words []string
	for _, f := range fields {
		word := string(f)
		if values && r.Verdict != nil && r.Verdict.Changes[f] != nil {
			word += " = " + string(r.Verdict.Changes[f])
		}
		words = append(words, word)
	}
	if r.Halt != "" {
		words = append(words, "halt")
	}
	return strings.Join(words, ", ")
}

func reasons(r *grapnel.Record) string {
	var texts []string
	for _, reason := range r.Reasons {
		texts = append(texts, spool.Mask(reason.Text))
	}
	return strings.Join(texts, "\n")
}

// noNumbers removes the digits from a reason, because the reason of a limit contains the time.
func noNumbers(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, text)
}

// maxRules is the maximum number of hooks in a list of deciding hooks.
const maxRules = 16

// behind returns the hooks that made the decision.
func behind(r *grapnel.Record) []Rule {
	most := grapnel.None
	for i := range r.Hooks {
		if h := &r.Hooks[i]; decides(h) {
			most = max(most, h.Decision)
		}
	}
	var rules []Rule
	for i := range r.Hooks {
		h := &r.Hooks[i]
		rule := Rule{wording.Shorten(h.Name, maxName), wording.Shorten(h.Source, maxName), h.Line}
		if len(rules) < maxRules && decides(h) && (most > grapnel.None && h.Decision == most || h.Halt || r.Decision <= grapnel.Allow && len(h.Changed) > 0) && !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// decides reports whether the result of a hook was used.
func decides(h *grapnel.HookRun) bool { return !h.Observed && !h.Expired && !h.Async }

// Times counts durations in logarithmic classes with steps of about 5 %, so that its size is
// constant.
type Times struct {
	n       int
	sum     float64
	most    float64
	classes map[int16]int
}

const (
	leastTime = 0.0001 // milliseconds
	timeStep  = 1.05
)

func (t *Times) add(ms float64) {
	if t.classes == nil {
		t.classes = map[int16]int{}
	}
	t.n++
	t.sum += ms
	t.most = max(t.most, ms)
	t.classes[int16(max(0, math.Ceil(math.Log(max(ms, leastTime)/leastTime)/math.Log(timeStep))))]++
}

func (t *Times) merge(o *Times) {
	t.n += o.n
	t.sum += o.sum
	t.most = max(t.most, o.most)
	for c, n := range o.classes {
		if t.classes == nil {
			t.classes = map[int16]int{}
		}
		t.classes[c] += n
	}
}

// share returns the duration that a given share of all durations does not exceed.
func (t *Times) share(part float64) float64 {
	left := int(math.Ceil(part * float64(t.n)))
	for _, c := range slices.Sorted(maps.Keys(t.classes)) {
		if left -= t.classes[c]; left <= 0 {
			return min(t.most, leastTime*math.Pow(timeStep, float64(c)))
		}
	}
	return t.most
}

// Cost returns the summary.
func (t *Times) Cost() Cost {
	if t.n == 0 {
		return Cost{}
	}
	round := func(ms float64) float64 { return math.Round(ms*10000) / 10000 }
	return Cost{round(t.sum / float64(t.n)), round(t.share(0.5)), round(t.share(0.95)), round(t.most)}
}
