package hookfiles

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Imported is the result of converting another system's hooks to a policy.
type Imported struct {
	Policy      []byte              // a policy file, with a comment at each hook that was converted only partly
	Hooks       int                 // number of hooks in Policy
	Unconverted []*policyfile.Error // parts that were not converted, with their position
}

// A ParseFunc is policy.Parse, which checks the generated policy.
type ParseFunc func(file string, data []byte) (*policyfile.Policy, []*policyfile.Error)

// Import reads files of the format and converts their hooks to a policy. A hook that a policy can
// only express partly gets a comment. Import skips a hook if a policy cannot express when it runs;
// use `load:` for it. Import returns an error if there is nothing to read.
func (f *Format) Import(paths []string, parse ParseFunc) (*Imported, error) {
	var all []File
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		data, err := files.Read(abs, maxImported+1)
		if err != nil {
			return nil, &policyfile.Error{File: path, Msg: files.Reason(err)}
		}
		if len(data) > maxImported {
			return nil, &policyfile.Error{File: path, Msg: fmt.Sprintf("is larger than %d MiB", maxImported>>20)}
		}
		all = append(all, File{
			Path: path, Name: filepath.ToSlash(filepath.Base(path)), Data: data,
			Source: grapnel.Source{Name: f.Name + ":" + path, Scope: grapnel.ScopeUser, File: path},
		})
	}
	return f.AsPolicy(all, parse), nil
}

// AsPolicy converts the hooks in files to a policy.
func (f *Format) AsPolicy(files []File, parse ParseFunc) *Imported {
	found := f.Parse(files, false)
	im := importer{names: map[string]bool{}, preset: f.PresetRow(), parse: parse}
	if found.Own > 0 {
		im.unconverted = append(im.unconverted, &policyfile.Error{File: files[0].Path, Msg: fmt.Sprintf("skips the entries that run Grapnel itself (%d)", found.Own)})
	}
	im.unconverted = append(im.unconverted, found.Broken...)
	im.unconverted = append(im.unconverted, found.Errors...)
	im.unconverted = append(im.unconverted, found.Notes...)
	for k := range found.Hooks {
		if !found.Hooks[k].Off {
			im.hook(&found.Hooks[k], files, im.preset.Once && repeats(found.Hooks, k))
		}
	}
	text := "version: 1\n"
	if im.hooks > 0 {
		text += "hooks:\n" + strings.TrimPrefix(im.out.String(), "\n")
	}
	return &Imported{Policy: []byte(text), Hooks: im.hooks, Unconverted: im.unconverted}
}

// maxImported is the maximum size of an imported file in bytes.
const maxImported = 1 << 20

type importer struct {
	out         bytes.Buffer
	hooks       int
	unconverted []*policyfile.Error
	names       map[string]bool
	preset      presets.Row
	parse       ParseFunc
}

// hook writes one hook, or several if a rule has several effects.
func (im *importer) hook(h *Hook, files []File, repeated bool) {
	at := files[h.FileIndex].Path
	omit := func(format string, args ...any) {
		im.unconverted = append(im.unconverted, &policyfile.Error{File: at, Line: h.Line, Col: min(h.Line, 1), Msg: fmt.Sprintf("%s: ", h.At) + fmt.Sprintf(format, args...)})
	}
	switch {
	case h.Webhook != nil:
		omit("%q posts to %s, which a policy cannot express: keep it with `load:`", h.Name, h.Webhook.URL)
		return
	case h.Start != nil:
		omit("%q is skipped, because a policy cannot run a module of another system: keep it with `load:`", h.Name)
		return
	case repeated:
		omit("%q is skipped, because an equal hook always runs at the same events", h.Name)
		return
	case h.Matcher != nil && h.Match == nil && h.Rule == nil && !h.All && whenOf(h) == "":
		omit("%q is skipped, because a policy cannot express when it runs (%s): keep it with `load:`", h.Name, cmp.Or(strings.Join(h.Unsupported, "; "), "its matcher"))
		return
	}
	unsupported := slices.Clone(h.Unsupported)
	var parts []policyfile.Hook
	if h.Rule != nil {
		var more []string
		parts, more = h.Rule.AsPolicy(h.Hook)
		unsupported = append(unsupported, more...)
	} else {
		part := h.Hook
		part.When = whenOf(h)
		if h.Tools != nil {
			part.Match = &policyfile.Match{Tool: h.Tools}
		}
		im.plain(&part)
		if part.Run != nil && len(part.Run.Vars) > 0 {
			run := *part.Run
			run.Args = slices.Clone(run.Args)
			line := shellLine(&run)
			for _, v := range slices.Backward(run.Vars) {
				if name, value, _ := strings.Cut(v, "="); *line != "" {
					*line = "export " + name + "=" + shell.Quote(value) + "; " + *line
				}
			}
			if *line == "" {
				unsupported = append(unsupported, "its variables "+strings.Join(run.Vars, ", "))
			}
			part.Run = &run
		}
		parts = append(parts, part)
	}
	for _, clause := range unsupported {
		omit("%q: %s", h.Name, clause)
	}
	for i, part := range parts {
		part.Name = im.unique(part.Name)
		item := hookItem(&part)
		if _, errs := im.parse("policy", []byte("version: 1\nhooks:\n"+item)); len(errs) > 0 {
			omit("%q is skipped, because a policy cannot express it (%s): keep it with `load:`", h.Name, errs[0].Msg)
			continue
		}
		fmt.Fprintf(&im.out, "\n  # %s", at)
		if h.Line > 0 {
			fmt.Fprintf(&im.out, ":%d", h.Line)
		}
		im.out.WriteByte('\n')
		if i == 0 {
			for _, clause := range unsupported {
				fmt.Fprintf(&im.out, "  # not kept: %s\n", strings.Join(strings.Fields(clause), " "))
			}
		}
		im.out.WriteString(item)
		im.hooks++
	}
}

// whenOf returns the `when:` that is equivalent to the matcher of a hook, or "".
func whenOf(h *Hook) string {
	if m, ok := h.Matcher.(interface{ When() string }); ok {
		return m.When()
	}
	return ""
}

// repeats reports whether another hook with the same key runs at each event of a hook. Of equal
// hooks, the other system runs only one.
func repeats(hooks []Hook, k int) bool {
	h := &hooks[k]
	for i := range hooks {
		if other := &hooks[i]; i != k && !other.Off && h.Key != "" && other.Key == h.Key && slices.Equal(other.On, h.On) && other.All && (i < k || !h.All) {
			return true
		}
	}
	return false
}

// shellLine returns the line that a shell runs, which is empty for other programs.
func shellLine(c *policyfile.Command) *string {
	if len(c.Args) == 3 && c.Args[0] == "bash" && c.Args[1] == "-c" {
		return &c.Args[2]
	}
	return &c.Line
}

func failsOpen(kind grapnel.Kind) bool {
	c, ok := grapnel.ContractOf(kind)
	return ok && c.FailOpen
}

// plain sets the fields of a program whose defaults differ between its system and a policy.
func (im *importer) plain(h *policyfile.Hook) {
	if h.Run == nil {
		return
	}
	if !h.Run.Async {
		h.Timeout = min(h.Timeout, policyfile.Duration(dialect.DefaultBudget))
		canFail := slices.ContainsFunc(h.On, func(kind grapnel.Kind) bool { return !failsOpen(kind) })
		if h.OnError == "" && im.preset.Failed == presets.FailedOpen && canFail {
			h.OnError = "open"
		}
	}
	// The name of a command such as jq explains little. A file is a good name.
	line := *shellLine(h.Run)
	if line == "" {
		line = CommandLine(h.Run)
	}
	if name := CalledAfter(line, ""); name != "" && h.Name == name && !strings.Contains(name, ".") {
		h.Name = strings.ReplaceAll(string(h.On[0]), ".", "-") + "-" + name
	}
}

// unique returns a valid name that no earlier hook has.
func (im *importer) unique(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '-'
		}
		return r
	}, strings.ReplaceAll(name, "::", "-"))
	for len(name) > 90 {
		name = name[:len(name)-1]
	}
	name = strings.ToValidUTF8(cmp.Or(name, "hook"), "")
	free := name
	for n := 2; im.names[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	im.names[free] = true
	return free
}

// hookItem returns the YAML of a hook as an item of `hooks:`.
func hookItem(h *policyfile.Hook) string {
	var out strings.Builder
	lead := "  - "
	line := func(key, value string) {
		fmt.Fprintf(&out, "%s%s: %s\n", lead, key, value)
		lead = "    "
	}
	some := func(key, value string) {
		if value != "" {
			line(key, scalar(value))
		}
	}
	line("name", scalar(h.Name))
	kinds := make([]string, len(h.On))
	for i, kind := range h.On {
		kinds[i] = string(kind)
	}
	line("on", list(kinds))
	if h.Match != nil {
		line("match", flow(h.Match))
	}
	some("when", h.When)
	if h.Priority != nil {
		line("priority", fmt.Sprint(*h.Priority))
	}
	if h.Timeout > 0 {
		line("timeout", policyfile.FormatDuration(time.Duration(h.Timeout)))
	}
	some("on_error", h.OnError)
	switch {
	case h.Decide != "" && h.Reason == "":
		line(h.Decide, "true")
	case h.Decide != "":
		line(h.Decide, scalar(h.Reason))
	case h.Replace != nil:
		out.WriteString("    replace:\n")
		for _, r := range h.Replace {
			fmt.Fprintf(&out, "      - {pattern: %s, with: %s}\n", quoted(r.Pattern), quoted(r.With))
		}
	case h.Run != nil && h.Run.Args != nil:
		line("run", list(h.Run.Args))
	case h.Run != nil:
		line("run", scalar(h.Run.Line))
	}
	if h.Run != nil {
		some("speaks", h.Run.Speaks)
		if h.Run.Async {
			line("async", "true")
		}
	}
	return out.String()
}

// plain matches texts that need no quotes in YAML at any place. It is compiled at first use,
// because compiling it would slow down every start of a hook.
var plain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*$`)
})

func scalar(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return quoted(text)
	}
	if plain().MatchString(text) {
		return text
	}
	return quoted(text)
}

// quoted returns a text in single quotes, where YAML has no escapes, or as JSON if it contains line
// breaks or special characters.
func quoted(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r > 0x7e && !isLetter(r) }) {
		return string(rawjson.Quote(text))
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

func isLetter(r rune) bool { return r >= 0xa1 && r != 0xad && r < 0x2000 }

func list(texts []string) string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = scalar(text)
	}
	if len(out) == 1 {
		return out[0]
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// flow returns a match as YAML in one line.
func flow(m *policyfile.Match) string {
	var out []string
	for i := range match.Keys {
		k := &match.Keys[i]
		if words := k.Sources(m); len(words) > 0 {
			out = append(out, k.Name+": "+list(words))
		}
	}
	slices.Sort(out)
	if m.Failed != nil {
		out = append(out, fmt.Sprintf("failed: %v", *m.Failed))
	}
	if m.Not != nil {
		out = append(out, "not: "+flow(m.Not))
	}
	return "{" + strings.Join(out, ", ") + "}"
}
