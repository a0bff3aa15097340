// Package check finds mistakes in policies, with the packs and hook files that they use.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/review"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/certs"
	"github.com/grapnel-dev/grapnel/internal/consent"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/jsregexp"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// Finding is one line of the output of "grapnel check".
type Finding struct {
	*policyfile.Error
	Severity string `json:"severity"` // error, warning
	Rule     string `json:"rule"`     // name of a Kind
}

// A Kind is a kind of findings. Users and programs refer to it by Rule, so Rule must not change.
type Kind struct{ Rule, Severity, About string }

// The kinds of findings.
var (
	badPolicy      = Kind{"bad-policy", "error", "The policy is not valid, or contains something that is not possible."}
	badRules       = Kind{"bad-secret-rule", "warning", "A rule for secrets is skipped or interpreted in another way."}
	badNetwork     = Kind{"bad-network", "error", "The text is neither a network nor a full name."}
	badHookFile    = Kind{"bad-hook-file", "error", "Grapnel cannot read a hook file of another system."}
	badHandler     = Kind{"bad-handler", "error", "The file of a handler is missing, or this machine cannot run it."}
	doubtfulFile   = Kind{"doubtful-hook-file", "warning", "A hook file of another system contains something that Grapnel ignores or interprets in another way."}
	slowMatcher    = Kind{"slow-matcher", "warning", "A matcher needs too long for some texts, so its hook runs although the matcher does not decide."}
	slowModule     = Kind{"slow-module", "warning", "Without the daemon, a JavaScript module of a hook file starts Node.js at each event."}
	cannotChange   = Kind{"cannot-change", "warning", "An installed agent cannot change the text that a hook replaces, and blocks it instead."}
	shortWait      = Kind{"short-wait", "warning", "An installed agent does not wait as long as a person may take to approve a call."}
	nothingToLoad  = Kind{"nothing-to-load", "warning", "The policy loads a format of which no hook file exists."}
	badAddress     = Kind{"bad-address", "warning", "A hook cannot reach its server from this machine."}
	wrongBody      = Kind{"wrong-body", "warning", "A hook sends a chat service a body that this service refuses."}
	notTrusted     = Kind{"not-trusted", "warning", "The current content of the project's policy has no effect, because it is not trusted."}
	misspeltTool   = Kind{"misspelt-tool", "warning", "No agent has a tool of this name, but one has a similar name."}
	nativeTool     = Kind{"native-tool", "warning", "A hook names a tool as some agents do, and does not match the equivalent tool of other agents."}
	unsureServer   = Kind{"unsure-server", "warning", "An allow is for a tool of an MCP server, and an installed agent's name for the tool does not show which server has it."}
	oddPatterns    = Kind{"odd-pattern", "warning", "A pattern probably does not match what its author means, such as a regular expression in a glob."}
	oddReason      = Kind{"odd-reason", "warning", "The reason of a hook is a word such as no, which is text and not false."}
	withoutMatch   = Kind{"matches-everything", "warning", "A hook blocks or allows everything."}
	unknownOptions = Kind{"unknown-options", "warning", "Grapnel does not know which options of a program are harmless, so an allow permits only the options in the rule."}
	missingFile    = Kind{"missing-file", "warning", "A program or file that a hook needs does not exist, or cannot be run."}
	longTimeout    = Kind{"long-timeout", "warning", "A timeout is longer than the time that Grapnel has for an event."}
	hiddenCommands = Kind{"hidden-commands", "warning", "A strict or managed policy checks commands, but not shell lines that hide the command that they run."}
	neverBlocks    = Kind{"never-blocks", "warning", "A hook blocks at an event that no known agent can stop."}
	notInstalled   = Kind{"not-installed", "warning", "A hook listens to an event that no installed agent sends."}
	shortTimeout   = Kind{"short-timeout", "warning", "An installed agent does not wait as long as the hooks may take."}
	notSandboxed   = Kind{"not-sandboxed", "warning", "This machine cannot enforce the sandbox of a program or of commands."}

	findingKinds = []Kind{badPolicy, badRules, badNetwork, badHookFile, badHandler, doubtfulFile, slowMatcher, slowModule, cannotChange, shortWait, nothingToLoad, badAddress, wrongBody, notTrusted, misspeltTool, nativeTool, unsureServer, oddPatterns, oddReason, withoutMatch, unknownOptions, missingFile, longTimeout, hiddenCommands, neverBlocks, notInstalled, shortTimeout, notSandboxed}
)

// finding makes a finding of this kind.
func (k Kind) finding(e *policyfile.Error) Finding { return Finding{e, k.Severity, k.Rule} }

// BadPolicy makes the finding for a policy that cannot be read.
func BadPolicy(e *policyfile.Error) Finding { return badPolicy.finding(e) }

// Kinds lists all kinds of findings.
func Kinds() []Kind { return slices.Clone(findingKinds) }

// Result holds the findings in one file.
type Result struct {
	File      string
	Findings  []Finding
	Size      string   // a summary of the policy, for a file without findings
	Sandboxes []string // "HOOK: description", for each sandboxed program and command
}

// Bad reports whether a finding is an error.
func (f Result) Bad() bool {
	return slices.ContainsFunc(f.Findings, func(f Finding) bool { return f.Severity == "error" })
}

// OwnFiles lists the user's policy and the policies of the project at the working directory.
func OwnFiles(place local.Place) ([]string, error) {
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, file := range place.Files(nil, place.DirsOf(dir)) {
		if _, err := os.Lstat(file.Path); err == nil {
			files = append(files, file.Path)
		}
	}
	if len(files) == 0 {
		files = []string{place.Policy} // the missing file becomes a finding
	}
	return files, nil
}

// File checks one file together with the packs and the hook files of other systems that it uses.
func File(file string, place local.Place, installed bool) []Result {
	this := Result{File: file}
	p, errs := load.Read(file)
	var used []load.Pack
	if len(errs) == 0 {
		errs = load.ReadRules(p, file)
	}
	if len(errs) == 0 {
		used, errs = load.PacksOf(p, file, packs.All())
	}
	if p != nil && p.Secrets != nil {
		for _, e := range p.Secrets.Notes {
			this.Findings = append(this.Findings, badRules.finding(e))
		}
	}
	slices.SortStableFunc(errs, func(a, b *policyfile.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	for _, e := range errs {
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) && file == place.Policy {
			e.Hint = "\"grapnel init\" writes one"
		}
		this.Findings = append(this.Findings, badPolicy.finding(e))
	}
	if p == nil {
		return []Result{this}
	}
	valid, own := len(errs) == 0, len(p.Hooks)
	var names []string
	for _, pack := range used {
		p.Hooks = append(p.Hooks, pack.Policy.Hooks...)
		names = append(names, fmt.Sprintf("%s %d", pack.Pack.Text, pack.Policy.Pack.Version))
	}
	this.Size = printable.Count(len(p.Hooks), "hook")
	if len(names) > 0 {
		this.Size += fmt.Sprintf(" (with the packs %s)", strings.Join(names, ", "))
	}
	if p.Secrets != nil && len(p.Secrets.Files) > 0 {
		this.Size += ", " + printable.Count(len(p.Secrets.Rules), "rule") + " for secrets"
	}
	if valid { // after an error, the other hooks may not be what the author means
		this.Findings = append(this.Findings, suspicious(file, p, own, place, agentsOf(place, installed))...)
		this.Findings = append(this.Findings, shortWaits(file, p, place)...)
	}
	this.Findings = append(this.Findings, unsandboxed(file, p)...)
	for i := range p.Hooks {
		if box := p.Hooks[i].Contain; box != nil {
			this.Sandboxes = append(this.Sandboxes, p.Hooks[i].Name+": "+box.Describe())
		}
		if text := review.Sandbox(&p.Hooks[i]); text != "" {
			this.Sandboxes = append(this.Sandboxes, p.Hooks[i].Name+": "+text[1:])
		}
	}
	var loaded []Result
	if len(errs) == 0 && (len(p.Load)+len(p.Networks)+len(p.Grants)+len(p.Vouches) > 0 || p.CA.Text != "" || p.OnlyManaged ||
		slices.ContainsFunc(p.Hooks, func(h policyfile.Hook) bool { return h.HTTP != nil })) {
		var found []Finding
		var started string
		found, loaded, started = checkLoads(file, p, place, installed)
		this.Size += started
		this.Findings = append(this.Findings, found...)
	}
	if installed {
		specs := outline(file, p)
		this.Findings = append(this.Findings, uninstalled(specs, place)...)
		this.Findings = append(this.Findings, impatient(specs, file, place)...)
		this.Findings = append(this.Findings, untrusted(file, place)...)
	}
	return append([]Result{this}, loaded...)
}

// outline returns the events and the times of the hooks of a policy, as Specs without Hooks.
func outline(file string, p *policyfile.Policy) []grapnel.Spec {
	var specs []grapnel.Spec
	for _, h := range p.Hooks {
		on := slices.Clone(h.On)
		for _, a := range h.After {
			on = append(on, a.Event...)
		}
		spec := grapnel.Spec{Name: h.Name, Line: h.Line, On: on, Priority: policyfile.SpecPriority(h.Priority), Source: grapnel.Source{File: file}}
		if h.Run != nil && !h.Run.Async {
			spec.Timeout = policyfile.FirstDuration(h.Timeout, p.Defaults.Timeout, policyfile.Duration(policyfile.DefaultTimeout))
		}
		specs = append(specs, spec)
	}
	return specs
}

// checkLoads checks the files that the `load:` of a policy finds now. It stores nothing. started
// describes the hooks that the systems start themselves.
func checkLoads(file string, p *policyfile.Policy, place local.Place, installed bool) (found []Finding, loaded []Result, started string) {
	of := load.File{Path: file, Must: true}
	if abs, err := filepath.Abs(file); err == nil {
		of.Path = abs
	}
	switch {
	case managed(of.Path, p, place):
		of.Scope = grapnel.ScopeManaged
	case filepath.Base(of.Path) == local.ProjectPolicy && of.Path != place.Policy:
		of.Scope = grapnel.ScopeProject
	}
	req := LookRequest(place, []load.File{of})
	req.Snapshots, req.Trusts = "", ""
	set := load.Policies(req)
	node := nodeVersion(place.Path)
	root, _ := readTree(file)
	own := ownHooks(root, p.Hooks)
	for _, row := range set.Files {
		if row.Format == "" {
			for _, e := range row.Errors { // errors that only loading finds
				atServer(e, own)
				found = append(found, badPolicy.finding(e))
			}
			continue
		}
		c := Result{File: row.File, Size: printable.Count(row.Hooks, "hook") + " of the format " + row.Format}
		if row.Order != "" {
			c.Size += ", " + row.Order
		}
		for _, e := range row.Errors {
			c.Findings = append(c.Findings, badHookFile.finding(e))
		}
		if at := loadOf(&row, p); at != nil && missing(row.File) {
			found = append(found, badHookFile.finding(&policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("the file %s does not exist", row.File), Hint: "write the file, or correct its path, which is relative to the policy"}))
			continue
		}
		c.Findings = append(c.Findings, handlers(&row, node)...)
		for _, e := range row.Notes {
			c.Findings = append(c.Findings, doubtfulFile.finding(e))
		}
		hooks := hooksOf(&row)
		c.Findings = append(c.Findings, slowMatchers(&row, hooks)...)
		c.Findings = append(c.Findings, slowModules(&row, place)...)
		if installed {
			c.Findings = append(c.Findings, unchangeable(row.File, hooks, place)...)
		}
		if installed && row.RunBy == "" {
			c.Findings = append(c.Findings, uninstalled(slices.DeleteFunc(slices.Clone(set.Specs), func(s grapnel.Spec) bool {
				return s.Source.Name != row.Format+":"+row.File
			}), place)...)
		}
		loaded = append(loaded, c)
	}
	found = append(found, unresolved(file, own)...)
	for _, w := range p.Networks {
		if _, err := outbound.ParseGuard([]string{w.Text}); err != nil {
			found = append(found, badNetwork.finding(&policyfile.Error{File: file, Line: w.Line, Col: w.Col, Msg: err.Error()}))
		}
	}
	if w := p.CA; w.Text != "" {
		if _, err := certs.Roots(nil, []string{home.Absolute(w.Text, filepath.Dir(file))}); err != nil {
			found = append(found, badAddress.finding(&policyfile.Error{File: file, Line: w.Line, Col: w.Col, Msg: "ca: " + err.Error(), Hint: "without it, no hook reaches a server with https://"}))
		}
	}
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == badPolicy.Rule }) { // otherwise nothing was loaded
		found = append(found, notFound(file, p, set.Files)...)
	}
	return found, loaded, startedHooks(set.Specs, p.Load, of.Path)
}

// notFound returns findings for formats of which no file exists.
func notFound(file string, p *policyfile.Policy, rows []load.Loaded) (found []Finding) {
	for _, l := range p.Load {
		if !slices.ContainsFunc(rows, func(row load.Loaded) bool { return row.Format == l.Format.Text }) {
			found = append(found, nothingToLoad.finding(&policyfile.Error{File: file, Line: l.Format.Line, Col: l.Format.Col, Msg: fmt.Sprintf("no file of the format %s found", l.Format.Text), Hint: "give its path: {format: " + l.Format.Text + ", file: PATH}"}))
		}
	}
	return found
}

// unresolved returns findings for hooks whose secrets and headers are missing on this machine.
func unresolved(file string, own []ownHook) (found []Finding) {
	for i := range own {
		if why := remote.Unresolved(file, own[i].Hook); why != "" {
			at := own[i].server()
			found = append(found, badAddress.finding(&policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("hook %q: %s: %s", own[i].Name, own[i].HTTP.Key(), why)}))
		}
	}
	return found
}

// atServer moves an error about an address that Grapnel refuses to the address, and adds the way out.
func atServer(e *policyfile.Error, own []ownHook) {
	if !strings.Contains(e.Msg, "only public addresses") && !strings.Contains(e.Msg, "is a local name") {
		return
	}
	e.Hint = "write a public address, or open the server in your own policy: `networks: [collector.corp.internal]` with its name, or `networks: [127.0.0.0/8]` for this machine, with an IP address in the URL"
	if i := slices.IndexFunc(own, func(h ownHook) bool { return h.Line == e.Line && h.HTTP != nil }); i >= 0 {
		at := own[i].server()
		e.Line, e.Col = at.Line, at.Col
	}
}

// loadOf returns the entry of `load:` that names the file of a row, or nil.
func loadOf(row *load.Loaded, p *policyfile.Policy) *policyfile.Word {
	for i := range p.Load {
		if l := &p.Load[i]; l.File != "" && l.Format.Text == row.Format && filepath.Base(l.File) == filepath.Base(row.File) {
			return &l.Format
		}
	}
	return nil
}

// hooksOf returns the hooks of a hook file.
func hooksOf(row *load.Loaded) []hookfiles.Hook {
	data, err := files.Read(row.File, yaml.MaxSize)
	if err != nil {
		return nil // the row has the error
	}
	return systems.Find(row.Format).Parse([]hookfiles.File{{Path: row.File, Data: data}}, false).Hooks
}

// slowMatchers returns findings for matchers of a hook file that backtrack too much.
func slowMatchers(row *load.Loaded, hooks []hookfiles.Hook) (found []Finding) {
	checked := map[string]bool{}
	for _, h := range hooks {
		m, ok := h.Matcher.(interface{ Expression() string })
		if !ok || checked[m.Expression()] {
			continue
		}
		checked[m.Expression()] = true
		if text := jsregexp.Slow(m.Expression()); text != "" {
			found = append(found, slowMatcher.finding(&policyfile.Error{
				File: row.File, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q: the matcher %q needs more than %v for texts such as %s", h.Name, m.Expression(), jsregexp.Timeout, match.Shorten(text)),
				Hint: "write a repetition that can match a text in one way only, such as (a_)+, not (a+)+, or name the tools: a|b",
			}))
		}
	}
	return found
}

// unchangeable returns findings for hooks that replace text of prompts, if an installed agent cannot
// change prompts: the original must not reach the model, so these prompts are blocked.
func unchangeable(file string, hooks []hookfiles.Hook, place local.Place) (found []Finding) {
	var agents []string
	for _, rec := range installs(place) {
		d, ok := dialect.Find(rec.Agent)
		if !ok || slices.Contains(agents, d.Title) {
			continue
		}
		if slices.ContainsFunc(d.Events, func(row dialect.EventRow) bool {
			can := row.Permits()
			return row.Kind == grapnel.PromptBefore && slices.Contains(rec.Events, row.Native) && can.Block && !slices.Contains(can.Change, grapnel.FieldPrompt)
		}) {
			agents = append(agents, d.Title)
		}
	}
	if agents == nil {
		return nil
	}
	slices.Sort(agents)
	for _, h := range hooks {
		if h.Rule == nil || !h.Rule.Replaces() || !slices.Contains(h.On, grapnel.PromptBefore) {
			continue
		}
		found = append(found, cannotChange.finding(&policyfile.Error{
			File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q replaces text of prompts, but these agents cannot change a prompt, and block it instead: %s", h.Name, strings.Join(agents, ", ")),
			Hint: "keep it if the text must not reach the model; text that is only added before or after a prompt is not blocked",
		}))
	}
	return found
}

// startedHooks describes the hooks that systems of `load:` start themselves.
func startedHooks(specs []grapnel.Spec, loads []policyfile.LoadFrom, file string) (text string) {
	for i, l := range loads {
		f := systems.Find(l.Format.Text)
		if f.Start == nil || slices.ContainsFunc(loads[:i], func(other policyfile.LoadFrom) bool { return other.Format.Text == f.Name }) {
			continue
		}
		n := 0
		for _, started := range f.Start("", true) {
			if slices.ContainsFunc(specs, func(s grapnel.Spec) bool { return s.Name == started.Name && s.Source.File == file && s.Line == 0 }) {
				n++
			}
		}
		if n > 0 {
			text += " and " + printable.Count(n, "hook") + " that " + f.Name + " starts"
		}
	}
	return text
}

// LookRequest returns a request for commands that inspect hooks and do not run them.
func LookRequest(place local.Place, files []load.File) load.Request {
	return place.Request(files, dryrun.Runners(Look(place)))
}

// Look returns an Answer for commands that inspect hooks: it checks that a server can be reached, and
// starts and sends nothing.
func Look(place local.Place) dryrun.Answer {
	reach := sync.OnceValue(place.Reach)
	return func(c dryrun.Call) (grapnel.Hook, error) {
		switch {
		case c.Webhook != nil:
			return remote.NewWebhook(*c.Webhook, reach())
		case c.Program == nil:
			return remote.Look(*cmp.Or(c.Server, c.Target), reach())
		}
		return nil, nil
	}
}

// untrusted returns findings for a project policy whose content is not the trusted one.
func untrusted(file string, place local.Place) []Finding {
	if file == place.Policy {
		return nil
	}
	set := load.Policies(place.Request(place.Files(nil, []local.Dir{{Path: filepath.Dir(file)}}), policy.Runners{}))
	var found []Finding
	warn := func(about, msg string) {
		found = append(found, notTrusted.finding(&policyfile.Error{File: about, Msg: msg, Hint: fmt.Sprintf("run \"grapnel trust %s\"", file)}))
	}
	for _, loaded := range set.Files {
		if !loaded.OfProject() {
			continue
		}
		about := file
		if loaded.Format != "" {
			about = loaded.File
		}
		switch loaded.State {
		case load.Untrusted:
			warn(about, "it is not trusted, so it has no effect")
		case load.Changed:
			warn(about, "it differs from the trusted content, which stays active")
		case load.Gone:
			warn(about, "it was deleted, and the trusted content stays active")
		case load.Broken:
			warn(about, loaded.Errors[0].Msg)
		default:
		}
	}
	if trust, err := place.Trusts().Of(file); err == nil && trust != nil {
		for _, changed := range trust.Changed() {
			warn(file, fmt.Sprintf("hooks do not run: %v", changed))
		}
	}
	return found
}

// suspicious returns findings for valid parts that are probably mistakes. The first hooks are in the
// file itself, and the others in its packs.
func suspicious(file string, p *policyfile.Policy, own int, place local.Place, agents []*dialect.Dialect) []Finding {
	m := &mistakes{file: file, user: file == place.Policy, agents: agents}
	root, lines := readTree(file)
	hooks := ownHooks(root, p.Hooks[:own])
	for i := range hooks {
		m.ofHook(&hooks[i])
	}
	if slices.ContainsFunc(hooks, func(h ownHook) bool { return h.HTTP != nil }) {
		opened := len(p.Networks) > 0 || len(place.Reach().Networks) > 0
		for i := range hooks {
			m.ofServer(&hooks[i], opened)
		}
	}
	m.ofGuards(p, managed(file, p, place))
	return slices.DeleteFunc(m.found, func(f Finding) bool { return ignored(&f, lines, hooks) })
}

// managed reports whether a file is a managed policy, or will be one: only they have a revision.
func managed(file string, p *policyfile.Policy, place local.Place) bool {
	abs, err := filepath.Abs(file)
	return err == nil && (filepath.Dir(abs) == filepath.Join(place.Managed, "policy.d") || p.Revision > 0 && abs != place.Policy)
}

// agentsOf returns the agents that a policy is for: the installed ones, or all of them.
func agentsOf(place local.Place, installed bool) (agents []*dialect.Dialect) {
	if installed {
		for _, rec := range installs(place) {
			if d, ok := dialect.Find(rec.Agent); ok && !slices.ContainsFunc(agents, func(a *dialect.Dialect) bool { return a.Name == d.Name }) {
				agents = append(agents, d)
			}
		}
	}
	if agents == nil {
		return dialect.All()
	}
	return agents
}

// maxOthers limits the agents that a message about a tool names.
const maxOthers = 3

// otherNames returns how agents call a tool that others call by a name in a match, so that the match
// misses it, and the class of the tool. It returns "" if the match misses no such tool.
func otherNames(name string, m *policyfile.Match, agents []*dialect.Dialect) (class grapnel.Class, others string) {
	alike := func(t *dialect.ToolRow) string { return cmp.Or(t.Like, t.Native) }
	var same []string
	for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		for i := range d.Tools {
			if t := &d.Tools[i]; t.Native == name && t.Class != grapnel.ClassOther && t.Class != grapnel.ClassMCP {
				class, same = t.Class, append(same, alike(t))
			}
		}
	}
	matched := func(text string) bool { return strings.HasPrefix(text, "/") } // an expression may match anything
	if same == nil || slices.Contains(m.Tool, string(class)) || slices.Contains(seam.Classes(), name) || slices.ContainsFunc(m.Tool, matched) {
		return class, ""
	}
	var texts []string
	for _, d := range agents {
		if len(m.Agent) > 0 && !slices.ContainsFunc(m.Agent, func(agent string) bool { ok, _ := path.Match(agent, d.Name); return ok }) {
			continue
		}
		missed, hit := "", false
		for i := range d.Tools {
			if t := &d.Tools[i]; slices.Contains(same, alike(t)) {
				missed = cmp.Or(missed, t.Native)
				hit = hit || (&grapnel.Tool{Name: t.Native, Class: t.Class}).Matches(m.Tool)
			}
		}
		if missed != "" && !hit {
			texts = append(texts, d.Title+" calls it "+missed)
		}
	}
	if more := len(texts) - maxOthers; more > 0 {
		texts = append(texts[:maxOthers], fmt.Sprintf("and %d more", more))
	}
	return class, strings.Join(texts, ", ")
}

// forOwnAgent reports whether a hook is for an agent without a dialect, for example one that is
// built with package host.
func forOwnAgent(m *policyfile.Match) bool {
	return m != nil && slices.ContainsFunc(m.Agent, func(name string) bool {
		_, known := dialect.Find(name)
		return !known
	})
}

// misspelt returns the class or tool that differs from a word only in letter case or in one letter, or "".
func misspelt(word string) string {
	near := ""
	var known []string
	for _, class := range seam.Classes() {
		if word == class {
			return ""
		}
		if strings.EqualFold(word, class) {
			near = class
		}
		known = append(known, class)
	}
	for _, d := range dialect.All() {
		for _, t := range d.Tools {
			if word == t.Native {
				return ""
			}
			if near == "" && strings.EqualFold(word, t.Native) {
				near = t.Native
			}
			known = append(known, t.Native)
		}
	}
	if len(word) < 4 || strings.ContainsAny(word, "*?[/") || strings.HasPrefix(word, "mcp__") {
		return near
	}
	return cmp.Or(near, wording.NearestWithin(word, known, 1))
}

// uninstalled returns findings for hooks on events that no installed agent sends: events that an
// installed agent has, and hooks of which no installed agent has any event.
func uninstalled(hooks []grapnel.Spec, place local.Place) []Finding {
	installs := installs(place)
	if len(installs) == 0 {
		return nil
	}
	sent, has := map[grapnel.Kind]bool{}, map[grapnel.Kind]bool{}
	for _, rec := range installs {
		d, ok := dialect.Find(rec.Agent)
		if !ok {
			continue
		}
		for _, name := range rec.Events {
			if row := d.Row(name); row != nil {
				sent[row.Kind], sent[row.Failed] = true, true
			}
		}
		for i := range d.Events {
			has[d.Events[i].Kind], has[d.Events[i].Failed] = true, true
		}
	}
	var found []Finding
	for _, h := range hooks {
		runs := slices.ContainsFunc(h.On, func(kind grapnel.Kind) bool { return sent[kind] })
		for _, kind := range h.On {
			problem := &policyfile.Error{File: h.Source.File, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q listens to %s, which no installed agent sends", h.Name, kind)}
			switch {
			case sent[kind] || !sendable(kind):
				continue
			case has[kind]:
				problem.Hint = "run \"grapnel install\" again"
			case runs:
				continue // the hook is for agents that are not installed, too
			}
			found = append(found, notInstalled.finding(problem))
		}
	}
	return found
}

// impatient returns findings for installed agents that do not wait as long as the hooks may take.
func impatient(hooks []grapnel.Spec, file string, place local.Place) []Finding {
	var found []Finding
	needs := install.HookTime(hooks)
	for _, rec := range installs(place) {
		if waits := time.Duration(rec.TimeoutMS) * time.Millisecond; needs > waits {
			found = append(found, shortTimeout.finding(&policyfile.Error{
				File: file, Line: 1, Col: 1, Msg: fmt.Sprintf("hooks may take %s, but %s waits %s", policyfile.FormatDuration(needs), rec.Agent, policyfile.FormatDuration(waits)),
				Hint: fmt.Sprintf("run \"grapnel install %s --scope %s\" again", rec.Agent, cmp.Or(rec.Scope, string(install.User))),
			}))
		}
	}
	return found
}

// shortWaits returns findings for questions with `approve:` if an installed agent waits for a shorter
// time. Its model is then asked to retry the call.
func shortWaits(file string, p *policyfile.Policy, place local.Place) (found []Finding) {
	for i := range p.Hooks {
		h := &p.Hooks[i]
		if h.Approve == nil {
			continue
		}
		var short []string
		for _, rec := range installs(place) {
			d, _ := dialect.Find(rec.Agent)
			if d == nil {
				continue
			}
			for j := range d.Events {
				row := &d.Events[j]
				waits := consent.Patience(rec, row, row.Native)
				text := fmt.Sprintf("%s (%s) waits %s", d.Title, row.Native, policyfile.FormatDuration(waits))
				if slices.Contains(h.On, row.Kind) && slices.Contains(rec.Events, row.Native) && waits < time.Duration(h.Approve.Within) && !slices.Contains(short, text) {
					short = append(short, text)
				}
			}
		}
		if short != nil {
			found = append(found, shortWait.finding(&policyfile.Error{
				File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q gives a person %s, but %s", h.Name, policyfile.FormatDuration(time.Duration(h.Approve.Within)), strings.Join(short, ", ")),
				Hint: "then the call is blocked, and the model is asked to retry it after the approval; \"grapnel install\" sets the longest timeout that Grapnel uses",
			}))
		}
	}
	return found
}

// sendable reports whether at least one known agent sends this event.
func sendable(kind grapnel.Kind) bool {
	for _, d := range dialect.All() {
		if slices.ContainsFunc(d.Events, func(row dialect.EventRow) bool { return row.Kind == kind }) {
			return true
		}
	}
	return false
}

// installs lists the recorded installations of a place. It omits unreadable records, which status
// reports.
func installs(place local.Place) []installation.Record {
	records, _ := installation.List(place.Installs())
	managed, _ := installation.List(filepath.Join(place.Managed, "installs"))
	return append(records, managed...)
}

// unsandboxed returns findings for hooks whose sandbox this machine cannot enforce.
func unsandboxed(file string, p *policyfile.Policy) []Finding {
	var found []Finding
	for i := range p.Hooks {
		h := &p.Hooks[i]
		if err := local.Uncontained(h); err != nil {
			found = append(found, notSandboxed.finding(&policyfile.Error{
				File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("the commands of hook %q %v: it asks instead", h.Name, err),
			}))
		}
		cmd := review.Program(h)
		if cmd == nil {
			continue
		}
		if err := local.Unsandboxed(*cmd); err != nil {
			what := "it fails"
			if cmd.Sandbox.Optional {
				what = "it runs anyway"
			}
			found = append(found, notSandboxed.finding(&policyfile.Error{
				File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q %v: %s", h.Name, err, what),
			}))
		}
	}
	return found
}
