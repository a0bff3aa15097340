package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// days is how many days of the log are read.
const days = 7

// oldLogs returns the files of logs that earlier versions wrote.
func oldLogs(place local.Place) (names []string) {
	for _, pattern := range []string{"store/grapnel.db", "spool/records*.jsonl", "spool/journal/0*.jsonl"} {
		found, _ := filepath.Glob(filepath.Join(place.State, filepath.FromSlash(pattern)))
		names = append(names, found...)
	}
	return names
}

// gather collects the facts.
func gather(ctx context.Context, req *Request) (*facts, error) {
	f := &facts{
		now: req.Now, version: hookcmd.Version, program: req.Program, dir: req.Dir,
		policies: req.Set.Files, only: req.Set.OnlyManaged, specs: req.Set.Specs, since: req.Now.AddDate(0, 0, -days), stuck: req.Stuck,
	}
	if req.glance {
		req.NoRun, f.since = true, req.Now.AddDate(0, 0, -1)
	}
	wanted, err := agentsOf(req.Agents)
	if err != nil {
		return nil, err
	}
	if keep := late.LimitsOf(&req.Set); keep != journal.DefaultLimits {
		f.keep = keep.String()
	}
	f.oldLogs = oldLogs(req.Place)
	if pause, ok := pause.Read(req.Place.Pause(), req.Now); ok {
		f.paused = pause.Until
	}
	f.off, f.offError = pause.ReadOff(req.Place.Off())
	if observes(req.Set.Specs, req.Place.Policy) {
		f.idle = req.Place.Policy
	}
	for i := range f.policies {
		file := f.policies[i].File
		if trust, err := req.Place.Trusts().Of(file); err == nil && trust != nil {
			for _, why := range trust.Changed() {
				f.changed = append(f.changed, fmt.Sprintf("hooks of %s do not run: %v: grapnel trust %[1]s", file, why))
			}
		}
	}
	if f.unlogged, err = allow.Unlogged(ctx, req.Place, f.since, false); err != nil {
		f.unlogged = append(f.unlogged, fmt.Sprintf("cannot compare the allowed calls with the log: %v", err))
	}
	for _, dir := range []string{req.Place.Installs(), filepath.Join(req.Place.Managed, "installs")} {
		records, err := installation.List(dir)
		f.records = append(f.records, records...)
		if err != nil {
			f.broken = append(f.broken, strings.Split(err.Error(), "\n")...)
		}
	}
	f.rootless, f.lastRootless = req.Place.RootsRefused(req.Now)
	f.roomless, f.lastRoomless = spool.CountsRefused(req.Place.State, req.Now)
	f.losses, f.unwritable = spool.ReadLosses(req.Place.State, req.Now), spool.Unwritable(req.Place.State)
	if f.before, err = readMemory(memoryFile(req.Place.State)); err != nil {
		f.beforeTo = err.Error()
	}
	known, err := home.Dir()
	f.homeless = err
	dir, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("cannot find the settings of agents: %w", err)
	}
	if f.homeless == nil && req.Root == "" && match.RealPath(dir) != match.RealPath(known) {
		f.elsewhere = req.Place.State
	}
	g := gatherer{Request: req, home: dir, system: "/", facts: f, project: req.Dir}
	if req.Root != "" {
		if g.system, err = filepath.Abs(req.Root); err != nil {
			return nil, err
		}
	}
	g.project = cmp.Or(local.ProjectRoot(req.Dir), g.project)
	for _, a := range wanted {
		f.agents = append(f.agents, g.find(a, len(req.Agents) > 0))
	}
	g.askVersions(ctx)
	measuring, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	for i, a := range wanted {
		g.look(measuring, a, &f.agents[i])
	}
	g.log(ctx)
	f.boxes, f.damaged = boxes(req.Programs), req.Damaged
	f.daemon.socket = client.Socket(req.Place.State)
	f.daemon.found, f.daemon.err = server.Look(ctx, f.daemon.socket)
	f.forward, f.forwardErr = forwarding.Reports(ctx, req.Place)
	f.refused, f.refusedErr = control.Refusals(ctx, req.Place)
	return f, nil
}

// observes reports whether a policy file has hooks, and none of them decides.
func observes(specs []grapnel.Spec, file string) bool {
	found := false
	for i := range specs {
		s := &specs[i]
		if s.Source.File != file || s.Phase == grapnel.PhaseObserve {
			continue
		}
		if !s.Observe {
			return false
		}
		found = true
	}
	return found
}

// boxes returns the sandboxes of programs.
func boxes(programs []policyfile.Command) []box {
	var found []box
	for _, c := range programs {
		if c.Sandbox != nil {
			found = append(found, box{c.Name, c.Sandbox.Describe(), local.Unsandboxed(c), c.Sandbox.Optional, c.Sandbox.Off})
		}
	}
	return found
}

func agentsOf(names []string) ([]install.Agent, error) {
	if len(names) == 0 {
		return install.Agents(), nil
	}
	var agents []install.Agent
	for _, name := range names {
		a, err := install.Lookup(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(agents, func(b install.Agent) bool { return a.Name == b.Name }) {
			agents = append(agents, a)
		}
	}
	return agents, nil
}

// gatherer is the state of gather for a Request.
type gatherer struct {
	*Request
	home, system, project string // project is its root
	facts                 *facts
	versions              map[string]versionOutput // by program
}

// versionOutput is the output of a program for --version.
type versionOutput struct{ version, mute string }

// find collects the first facts about one agent.
func (g *gatherer) find(ia install.Agent, named bool) agent {
	a := agent{Dialect: ia.Dialect, named: named, tools: map[string]int{}}
	if found, err := exec.LookPath(a.Setup().Program); err == nil && filepath.IsAbs(found) {
		a.program = found
		// If the whole home directory is in a repository, it is not a project.
		a.inside = within(match.RealPath(found), g.project) && !within(match.RealPath(g.home), g.project)
	}
	if ia.Detected(g.home, func(name string) string {
		if name == "PATH" {
			return "" // detect by the directory alone
		}
		return os.Getenv(name)
	}) {
		a.dir = filepath.Dir(filepath.Join(g.home, filepath.FromSlash(a.Setup().User)))
		if file, err := ia.Settings(install.User, g.home, os.Getenv); err == nil {
			a.dir = filepath.Dir(file)
		}
	}
	return a
}

// askVersions runs all programs for their versions concurrently, so that one that hangs does not
// delay the others.
func (g *gatherer) askVersions(ctx context.Context) {
	g.versions = map[string]versionOutput{}
	if g.NoRun {
		return
	}
	for i := range g.facts.agents {
		a := &g.facts.agents[i]
		if a.program != "" && !a.inside {
			g.versions[a.program] = versionOutput{}
		}
		for _, rec := range g.facts.records {
			if p := programOf(rec); rec.Agent == a.Name && !p.gone && p.cannot == "" && p.open == "" {
				g.versions[rec.Program] = versionOutput{}
			}
		}
	}
	askAll(g.versions, func(program string) versionOutput {
		version, mute := versionOf(ctx, program)
		return versionOutput{version, mute}
	})
}

// askAll sets the version of each program to the result of ask. All calls of ask run at the same
// time, so several programs that hang take no longer than one.
func askAll(versions map[string]versionOutput, ask func(program string) versionOutput) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, program := range slices.Collect(maps.Keys(versions)) {
		wg.Go(func() {
			s := ask(program)
			mu.Lock()
			defer mu.Unlock()
			versions[program] = s
		})
	}
	wg.Wait()
}

// look collects the facts about one agent. ctx ends the measurements.
func (g *gatherer) look(ctx context.Context, ia install.Agent, a *agent) {
	a.version, a.mute = g.versions[a.program].version, g.versions[a.program].mute
	g.layers(a, ia)
	for _, rec := range g.facts.records {
		if rec.Agent == a.Name {
			a.installs = append(a.installs, g.installed(ctx, ia, a, rec))
		}
	}
	if dir := ia.Setup.Sessions; dir != "" && len(a.installs) > 0 && !g.glance {
		a.lastFile, a.lastUsed = youngest(filepath.Join(g.home, filepath.FromSlash(dir)))
	}
	if len(a.installs) > 0 && !g.NoRun {
		a.latency = g.latency(ctx, a)
	}
}

var number = regexp.MustCompile(`\d+(\.\d+)+[0-9A-Za-z.+-]*`)

// patience is the timeout of a program that prints its version.
const patience = 5 * time.Second

// versionOf runs a program for its version, in a directory without files of a project.
func versionOf(ctx context.Context, program string) (version, mute string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Dir = filepath.Dir(program)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch v := number.FindString(string(out)); {
	case ctx.Err() != nil:
		return "", fmt.Sprintf("%s --version took more than %v", program, patience)
	case err != nil:
		return "", fmt.Sprintf("%s --version: %v", program, err)
	case v == "":
		return "", program + " --version prints no version"
	default:
		return v, ""
	}
}

// layers reads the files from which the agent reads hooks and switches.
func (g *gatherer) layers(a *agent, ia install.Agent) {
	project := g.Dir
	if match.RealPath(project) == match.RealPath(g.home) {
		project = "" // its settings are the user's settings
	}
	list := ia.Layers(g.home, project, g.system, os.Getenv)
	for _, rel := range ia.Setup.Related {
		if strings.HasPrefix(rel, "/") {
			list = append(list, install.Layer{Scope: install.Managed, Rel: rel, File: filepath.Join(g.system, rel)})
			continue
		}
		for _, of := range []struct {
			scope install.Scope
			base  string
		}{{install.User, g.home}, {install.Project, project}} {
			if of.base != "" {
				list = append(list, install.Layer{Scope: of.scope, Rel: rel, File: filepath.Join(of.base, filepath.FromSlash(rel))})
			}
		}
	}
	for _, l := range list {
		if slices.ContainsFunc(a.layers, func(old layer) bool { return old.file == l.File && (old.rel == l.Rel || l.Rel == "") }) {
			continue
		}
		switch {
		case l.Rel == "" && a.Setup().Shape == dialect.ShapeFiles:
			g.programs(a, l, l.File, func(name string) bool { return true })
		case l.Rel == "" && a.Setup().Shape == dialect.ShapePlugin && a.Setup().Own:
			g.programs(a, l, filepath.Dir(l.File), func(name string) bool { return slices.Contains([]string{".js", ".ts"}, filepath.Ext(name)) })
		case l.Rel == "" && a.Setup().Own:
			g.siblings(a, l)
		default:
			g.settings(a, l)
		}
	}
}

// besideOurs is the Rel of documents in the same directory as a document that Grapnel owns.
const besideOurs = "*"

// siblings reads all documents in the directory of a document that Grapnel owns.
func (g *gatherer) siblings(a *agent, l install.Layer) {
	g.settings(a, l)
	entries, err := os.ReadDir(filepath.Dir(l.File))
	if err != nil {
		return // it does not exist
	}
	for _, e := range entries {
		file := filepath.Join(filepath.Dir(l.File), e.Name())
		if file != l.File && filepath.Ext(file) == ".json" {
			l.File, l.Rel = file, besideOurs
			g.settings(a, l)
		}
	}
}

// settings reads one document.
func (g *gatherer) settings(a *agent, l install.Layer) {
	this := layer{scope: string(l.Scope), rel: l.Rel, file: l.File, script: map[int]string{}}
	data, err := readFile(l.File, maxSettings)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		this.is, this.err = true, err.Error()
	default:
		this.is = true
		if this.tree, err = install.Settings(l.File, data, a.Setup().Cuts && l.Rel == ""); err != nil {
			this.err = err.Error()
			break
		}
		this.hooks = install.Hooks(a.Setup(), this.tree)
		if !mayHoldHooks(l.Rel) {
			this.hooks = nil
		}
		for i, h := range this.hooks {
			if g.facts.mine(h) {
				continue
			}
			dir := g.Dir
			if l.Scope == install.User {
				dir = filepath.Dir(l.File)
			}
			expand := func(name string) string {
				if strings.HasSuffix(name, "_PROJECT_DIR") {
					return g.project
				}
				return os.Getenv(name)
			}
			if file := scriptOf(&h, dir, expand); file != "" {
				this.script[i], _ = digestOf(file) // empty if the file cannot be read
			}
		}
	}
	a.layers = append(a.layers, this)
}

// mayHoldHooks returns false for files that only contain the trust decisions of an agent.
func mayHoldHooks(rel string) bool { return path.Base(rel) != "trustedFolders.json" }

// programs reads the files of a directory, each of which is a hook.
func (g *gatherer) programs(a *agent, l install.Layer, dir string, is func(name string) bool) {
	entries, err := os.ReadDir(dir)
	this := layer{scope: string(l.Scope), file: l.File, is: err == nil, script: map[int]string{}}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		this.is, this.err = true, err.Error()
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		row := slices.IndexFunc(a.Events, func(r dialect.EventRow) bool { return strings.EqualFold(r.Native, name) })
		if e.IsDir() || !is(e.Name()) || a.Setup().Shape == dialect.ShapeFiles && row < 0 {
			continue
		}
		file := filepath.Join(dir, e.Name())
		h := install.Found{Command: file, Group: len(this.hooks), Ours: g.recorded(file)}
		if row >= 0 {
			h.Event = a.Events[row].Native
		}
		data, err := readFile(file, maxScript)
		if err == nil {
			this.script[len(this.hooks)] = files.Digest(data)
		}
		if h.Ours {
			h.Event = "" // the record knows the event
		}
		this.hooks = append(this.hooks, h)
	}
	a.layers = append(a.layers, this)
}

// recorded reports whether an installation has created a file.
func (g *gatherer) recorded(file string) bool {
	return slices.ContainsFunc(g.facts.records, func(r installation.Record) bool {
		return r.Settings == file || slices.ContainsFunc(r.Files, func(f installation.File) bool { return f.Path == file })
	})
}

// installed collects the facts about one installation.
func (g *gatherer) installed(ctx context.Context, ia install.Agent, a *agent, rec installation.Record) installed {
	in := installed{Record: rec, program: programOf(rec)}
	if output := g.versions[rec.Program]; in.program.cannot == "" {
		in.program.version, in.program.cannot = output.version, output.mute
	}
	if a.layerOf(rec.Settings) == nil {
		g.settings(a, install.Layer{Scope: install.Scope(rec.Scope), Rel: "", File: rec.Settings}) // of another project, or moved
	}
	found, err := ia.Installed(rec)
	switch {
	case err != nil:
		if file, ok := errors.AsType[*install.FileError](err); ok { // the hint is for install
			bare := *file
			bare.Hint = ""
			err = &bare
		}
		in.void = err.Error()
		return in
	case in.program.gone || in.program.cannot != "":
		return in
	}
	if data, err := readFile(rec.Settings, maxScript); err == nil {
		in.named = !bytes.Contains(data, []byte("\nexport default "))
	}
	for _, event := range rec.Events {
		if !slices.ContainsFunc(found.Entries, func(e install.Entry) bool { return e.Event == event }) {
			in.missing = append(in.missing, event)
		}
	}
	if a.version != "" {
		in.newer = ia.Newer(g.Events[a.Name], rec.Events, rec.AgentVersion, a.version)
	}
	program := cmp.Or(g.Program, rec.Program)
	if install.SameProgram(rec.Program, program) {
		program = rec.Program // by another path
	}
	res, err := install.Install(ctx, install.Request{
		Agents: []string{a.Name}, Scope: install.Scope(rec.Scope), Root: rec.Root, Program: program, Policy: rec.Policy, ProjectDir: cmp.Or(rec.Project, g.Dir),
		Home: g.home, Events: g.Events, Approve: g.Approve, Timeout: time.Duration(rec.TimeoutMS) * time.Millisecond,
		FailClosed: rec.FailClosed, DryRun: true, Version: hookcmd.Version,
		Versions: map[string]string{a.Name: rec.AgentVersion}, // an update of the agent does not make the entries stale
	})
	if err != nil {
		in.cannot = err.Error()
		return in
	}
	for _, file := range res.Files {
		switch {
		case !file.Changed:
		case file.ID != rec.ID && file.File != rec.Settings:
			in.now = file.File
		default:
			in.stale = fmt.Sprintf("installing again would change %d lines of %s", changes(file.Diff), file.File)
		}
	}
	return in
}

// changes counts the changed lines of a unified diff.
func changes(diff string) int {
	n := 0
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "--- ") {
			n++
		}
	}
	return n
}

// programOf collects the facts about the hook program of an installation.
func programOf(rec installation.Record) program {
	var p program
	info, err := os.Stat(rec.Program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.gone = true
		return p
	case err != nil:
		p.cannot = err.Error()
	case !info.Mode().IsRegular():
		p.cannot = "it is not a file"
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		p.cannot = fmt.Sprintf("its mode is %04o", info.Mode().Perm())
	}
	p.open = openTo(rec.Program)
	return p
}

// openTo returns the file, or the directory above it, that other users can write. Windows has no
// such mode bits.
func openTo(file string) string {
	if runtime.GOOS == "windows" {
		return ""
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return ""
		}
		// In a directory with the sticky bit, users cannot replace files of others.
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return at
		}
		if at == real && info.Mode().Perm()&0o020 != 0 {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// log reads the recent Records.
func (g *gatherer) log(ctx context.Context) {
	f := g.facts
	failed := failures{}
	byName := map[string]*agent{}
	for i := range f.agents {
		byName[f.agents[i].Name] = &f.agents[i]
	}
	unknown := map[[2]string]bool{}
	log := records.Log(g.Place)
	for k, err := range log.Read(ctx, index.Query{Filter: spool.Filter{Since: f.since}}) {
		switch {
		case errors.Is(err, spool.ErrTorn):
			f.torn, f.lastTorn = f.torn+1, err.Error()
			continue
		case err != nil:
			f.logError = err.Error()
			continue
		}
		e := &k.Entry
		failed.add(e)
		a := byName[e.Agent]
		if a == nil || e.Late {
			continue
		}
		if e.Time.After(a.last) {
			a.last = e.Time
		}
		if e.Tool == "" || e.Event != grapnel.ToolBefore {
			continue
		}
		key := [2]string{a.Name, e.Tool}
		if _, asked := unknown[key]; !asked {
			if err := k.Event(); err != nil {
				f.logError = err.Error()
			}
			unknown[key] = unknownTool(a.Dialect, e)
		}
		if unknown[key] {
			a.tools[e.Tool]++
		}
	}
	for _, w := range failed {
		w.gone = f.gone(w)
		f.failing = append(f.failing, *w)
	}
	slices.SortFunc(f.failing, func(a, b failing) int {
		return cmp.Or(cmp.Compare(b.opened, a.opened), cmp.Compare(b.errors, a.errors), cmp.Compare(a.source, b.source), cmp.Compare(a.name, b.name))
	})
}

// gone reports whether a hook is in no policy any more: its file is in force without it, or does not
// exist.
func (f *facts) gone(w *failing) bool {
	name := w.source + "::" + w.name
	if slices.ContainsFunc(f.specs, func(s grapnel.Spec) bool { return s.FullName() == name }) {
		return false
	}
	file, _, _ := strings.Cut(w.source, "#")
	if slices.ContainsFunc(f.policies, func(p load.Loaded) bool { return p.File == file && p.State == load.Valid }) {
		return true
	}
	_, err := os.Lstat(file)
	return filepath.IsAbs(file) && errors.Is(err, fs.ErrNotExist)
}

// failures counts the errors of hooks, by source and name.
type failures map[[2]string]*failing

func (all failures) add(e *spool.Entry) {
	for _, run := range e.Hooks {
		if run.Error == "" || run.Async && !e.Late {
			continue
		}
		key := [2]string{run.Source, run.Name}
		if all[key] == nil {
			all[key] = &failing{name: run.Name, source: run.Source}
		}
		w := all[key]
		w.errors++
		w.last, w.why = e.Time, cut(run.Error, 200)
		if run.Cause == grapnel.CauseTimeout {
			w.timeouts++
		}
		if run.FailOpen {
			w.opened++
		}
	}
}

// unknownTool reports whether the tool of a call is unknown to the dialect and not from an MCP
// server. Without the event, this is unknown.
func unknownTool(d *dialect.Dialect, e *spool.Entry) bool {
	if e.Input == nil || e.Input.Native == nil || slices.ContainsFunc(d.Tools, func(t dialect.ToolRow) bool { return t.Native == e.Tool }) {
		return false
	}
	in := dialect.Input{Payload: e.Input.Native}
	for _, row := range d.Events {
		if row.Kind == e.Event && in.Event == "" {
			in.Event = row.Native
		}
	}
	ev, err := d.Read(in)
	return err == nil && ev.Tool != nil && (ev.Tool.Class == grapnel.ClassOther || ev.Tool.Class == "")
}

const (
	maxSettings = 8 << 20
	maxScript   = 16 << 20
)

// readFile reads a regular file up to a maximum size.
func readFile(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return data, err
}

func digestOf(file string) (string, error) {
	data, err := readFile(file, maxScript)
	if err != nil {
		return "", err
	}
	return files.Digest(data), nil
}

// mostFiles limits the search for the newest file.
const mostFiles = 20_000

// youngest returns the newest file below a directory.
func youngest(dir string) (file string, when time.Time) {
	n := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; n > mostFiles {
			return filepath.SkipAll
		}
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // skip unreadable files
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(when) {
			file, when = path, info.ModTime()
		}
		return nil
	})
	return file, when
}
