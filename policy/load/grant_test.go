package load_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// policiesOf writes each policy to its own file, in a directory that is not a project.
func policiesOf(t *testing.T, scope grapnel.Scope, texts ...string) (files []load.File) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		name := filepath.Join(dir, fmt.Sprintf("%s-%d.yaml", scope, i))
		put(t, name, text)
		files = append(files, load.File{Path: name, Scope: scope, Must: true})
	}
	return files
}

const (
	allowing = "version: 1\nhooks:\n  - {name: yes, on: tool.before, match: {command: ls}, allow: true}\n"
	running  = "version: 1\nhooks:\n  - {name: no, on: tool.before, match: {command: rm}, block: no}\n  - {name: prog, on: tool.before, run: 'true'}\n"
)

// The grants of the user limit the rights of a project beyond restricting, and managed policies
// limit the grants.
func TestGrants(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		managed, user []string // DIR is replaced by the project
		allow, run    bool
	}{
		"nobody says anything":         {nil, nil, false, true},
		"the user grants":              {nil, []string{"{source: DIR, may: [allow, run]}"}, true, true},
		"all that it names":            {nil, []string{"{source: DIR, may: [allow]}"}, true, false},
		"one word":                     {nil, []string{"{source: DIR, may: allow}"}, true, false},
		"nothing":                      {nil, []string{"{source: '**', may: []}"}, false, false},
		"two entries add up":           {nil, []string{"{source: DIR, may: [allow]}", "{source: '**', may: [run]}"}, true, true},
		"of what lies below":           {nil, []string{"{source: 'DIR/**', may: [allow, run]}"}, true, true},
		"of the file":                  {nil, []string{"{source: DIR/grapnel.yaml, may: [allow, run]}"}, true, true},
		"of another":                   {nil, []string{"{source: DIR-other, may: [allow]}"}, false, true},
		"of a part of the name":        {nil, []string{"{source: 'DIR?', may: [allow]}"}, false, true},
		"root grants alone":            {[]string{"{source: DIR, may: [allow, run]}"}, nil, true, true},
		"root bounds the user":         {[]string{"{source: DIR, may: [run]}"}, []string{"{source: DIR, may: [allow, run]}"}, false, true},
		"root bounds all":              {[]string{"{source: '**', may: []}"}, []string{"{source: DIR, may: [allow, run]}"}, false, false},
		"root is silent of this one":   {[]string{"{source: DIR-other, may: [allow]}"}, []string{"{source: DIR, may: [allow, run]}"}, false, true},
		"the user takes what root has": {[]string{"{source: DIR, may: [allow, run]}"}, []string{"{source: DIR, may: []}"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(text string) (load.Set, *grapnel.Engine) {
				p := newProject(t, text)
				p.trust()
				grants := func(entries []string) []string {
					if entries == nil {
						return nil
					}
					return []string{"version: 1\ngrants: [" + strings.ReplaceAll(strings.Join(entries, ", "), "DIR", p.dir) + "]\n"}
				}
				own := append(policiesOf(t, grapnel.ScopeManaged, grants(tt.managed)...), policiesOf(t, grapnel.ScopeUser, grants(tt.user)...)...)
				return p.load(own...)
			}
			_, e := check(allowing)
			if v := e.Fire(t.Context(), fixture.Shell("ls")); v.Decision == grapnel.Allow != tt.allow {
				t.Errorf("its allow gives %v, want that it counts: %v", v.Decision, tt.allow)
			}
			set, e := check(running)
			v := e.Fire(t.Context(), fixture.Shell("ls"))
			if got := slices.Contains(v.Messages, "prog ran"); got != tt.run {
				t.Errorf("its program ran: %v, want %v", got, tt.run)
			}
			if v := e.Fire(t.Context(), fixture.Shell("rm x")); v.Decision != grapnel.Block {
				t.Errorf("its block gives %v: whatever is granted, it may restrict", v.Decision)
			}
			if start, _ := messagesOf(e); strings.Contains(start, "1 of 2 hooks of") == tt.run {
				t.Errorf("the person is told %q in %+v", start, set.Files)
			}
		})
	}
}

// All managed policies limit the grants together.
func TestGrantsOfSeveralManaged(t *testing.T) {
	t.Parallel()
	p := newProject(t, allowing)
	p.trust()
	grant := "version: 1\ngrants: [{source: " + p.dir + ", may: [allow, run]}]\n"
	_, e := p.load(policiesOf(t, grapnel.ScopeManaged, grant, "version: 1\ngrants: [{source: '**', may: [run]}]\n")...)
	if v := e.Fire(t.Context(), fixture.Shell("ls")); v.Decision != grapnel.None {
		t.Errorf("%v: one managed policy grants what another one forbids", v.Decision)
	}
}

// A symlink into a granted directory, and one that leads out of it, grant nothing.
func TestGrantsThroughLinks(t *testing.T) {
	t.Parallel()
	mine := newProject(t, allowing)
	theirs := newProject(t, "version: 1\n")
	if err := os.Remove(theirs.file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mine.file, theirs.file); err != nil {
		t.Skip(err) // on Windows, links need a privilege
	}
	theirs.trust()
	for _, dir := range []string{mine.dir, theirs.dir} {
		_, e := theirs.load(policiesOf(t, grapnel.ScopeUser, "version: 1\ngrants: [{source: "+dir+"/**, may: [allow]}]\n")...)
		if v := e.Fire(t.Context(), fixture.Shell("ls")); v.Decision != grapnel.None {
			t.Errorf("granted to %s: %v, want that a link carries no grant", dir, v.Decision)
		}
	}
}

// What the policies of a user and of root open is added up, and a path begins at its policy.
func TestReach(t *testing.T) {
	t.Parallel()
	managed := policiesOf(t, grapnel.ScopeManaged, "version: 1\nnetworks: [10.1.0.0/16, '*.corp.internal']\nca: /etc/ssl/corp.pem\n")
	user := policiesOf(t, grapnel.ScopeUser, "version: 1\nnetworks: [a.lab.example]\nca: keys/lab.pem\n")
	project := policiesOf(t, grapnel.ScopeProject, "version: 1\nca: evil.pem\nnetworks: [evil.example]\n")
	got := load.Policies(load.Request{Files: slices.Concat(managed, user, project)}).Reach
	want := policyfile.Reach{
		Networks: []string{"10.1.0.0/16", "*.corp.internal", "a.lab.example"},
		CA:       []string{"/etc/ssl/corp.pem", filepath.Join(filepath.Dir(user[0].Path), "keys", "lab.pem")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Keys that only a user or root may set are refused in all other policies.
func TestKeysForPersonsOnly(t *testing.T) {
	t.Parallel()
	for key, refused := range map[string][]grapnel.Scope{
		"grants: [{source: '**', may: [allow]}]":                                    {grapnel.ScopeProject, grapnel.ScopeSession},
		"trust: [{source: '**', digest: 'sha256:" + strings.Repeat("a", 64) + "'}]": {grapnel.ScopeProject, grapnel.ScopeSession},
		"networks: [10.0.0.0/8]":                                                    {grapnel.ScopeProject, grapnel.ScopeSession},
		"records: {forward: [{to: 'postgres://db/grapnel'}]}":                       {grapnel.ScopeProject, grapnel.ScopeSession},
		"networks: ['*.corp.internal']":                                             {grapnel.ScopeProject, grapnel.ScopeSession},
		"ca: corp.pem":                                                              {grapnel.ScopeProject, grapnel.ScopeSession},
		"retention: {days: 30}":                                                     {grapnel.ScopeProject, grapnel.ScopeSession},
		"use_only_managed: true":                                                    {grapnel.ScopeUser, grapnel.ScopeProject, grapnel.ScopeSession},
	} {
		for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
			set := load.Policies(load.Request{Files: policiesOf(t, scope, "version: 1\n"+key+"\n"+strings.TrimPrefix(allowing, "version: 1\n"))})
			if want, got := slices.Contains(refused, scope), set.Files[0].State == load.Broken; got != want && scope != grapnel.ScopePlugin {
				t.Errorf("%s in a %s policy: refused %v, want %v: %+v", key, scope, got, want, set.Files[0])
			}
		}
		if strings.HasPrefix(key, "use_only") {
			continue
		}
		p := newProject(t, "version: 1\n"+key+"\n")
		if _, errs := load.Examine(p.file, p.dir, load.Packs{}); len(errs) == 0 || !strings.Contains(errs[0].Msg, "only the policy of a user") {
			t.Errorf("%s can be trusted in a project: %v", key, errs)
		}
	}
}

// With use_only_managed, all other policies are ignored. The result is the same as without
// them, the user gets one message, and no lower policy can change that.
func TestUseOnlyManaged(t *testing.T) {
	t.Parallel()
	p := newProject(t, "version: 1\nhooks:\n  - {name: project, on: tool.before, block: project}\n")
	p.trust()
	managed := policiesOf(t, grapnel.ScopeManaged, "version: 1\nhooks:\n  - {name: root, on: tool.before, match: {command: rm}, block: root}\n", "version: 1\nuse_only_managed: true\n")
	files := slices.Concat(
		policiesOf(t, grapnel.ScopeSession, "version: 1\nhooks:\n  - {name: session, on: tool.before, block: session}\n"),
		policiesOf(t, grapnel.ScopeUser, "version: 1\nuse_only_managed: false\nhooks: x\n", allowing), // the first one is invalid too
		managed, // at any position
	)
	set, e := p.load(files...)
	if v := e.Fire(t.Context(), fixture.Shell("ls")); v.Decision != grapnel.None {
		t.Errorf("ls: %v %q, want that no other policy counts", v.Decision, v.Reason())
	}
	if v := e.Fire(t.Context(), fixture.Shell("rm x")); v.Decision != grapnel.Block || v.Reason() != "root" {
		t.Errorf("rm: %v %q", v.Decision, v.Reason())
	}
	start, prompt := messagesOf(e)
	if !strings.Contains(start, "allows only managed policies, so these policies are not in force:") || !strings.Contains(start, p.file) || prompt != "" {
		t.Errorf("the person is told %q at the start, %q with a prompt", start, prompt)
	}
	for _, file := range set.Files {
		if want := file.Scope != "managed"; want != (file.State == load.Ignored) {
			t.Errorf("%s is %s", file.File, file.State)
		}
	}
	specs := pause.Pause{}.Apply(slices.Clone(set.Specs))
	paused, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := paused.Fire(t.Context(), fixture.Shell("rm x")); v.Decision != grapnel.Block {
		t.Errorf("while there is a pause: %v", v.Decision)
	}
}

// A managed policy decides each limit of retention that it sets. The user's policy sets the rest.
func TestRetentionOfPolicies(t *testing.T) {
	t.Parallel()
	files := slices.Concat(
		policiesOf(t, grapnel.ScopeUser, "version: 1\nretention: {days: 1, size: 2GB}\n"),
		policiesOf(t, grapnel.ScopeManaged, "version: 1\nretention: {days: 365}\n", "version: 1\nretention: {days: 30, records: 5000}\n"),
	)
	want := policyfile.Retention{Days: 365, Records: 5000, Size: 2_000_000_000}
	if got := load.Policies(load.Request{Files: files}).Retention; got != want {
		t.Errorf("Retention = %+v, want %+v", got, want)
	}
}

// If a managed policy with use_only_managed breaks, its last valid content stays in force, and
// both notices of the file reach the user. Without a snapshot, tools are blocked.
func TestUseOnlyManagedBreaks(t *testing.T) {
	t.Parallel()
	p := newProject(t, "version: 1\nhooks: []\n")
	const valid = "version: 1\nuse_only_managed: true\nhooks:\n  - {name: root, on: tool.before, match: {command: rm}, block: root}\n"
	managed := policiesOf(t, grapnel.ScopeManaged, valid)
	p.load(managed...)
	if err := os.WriteFile(managed[0].Path, []byte(valid+"hooks: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, e := p.load(managed...)
	if v := e.Fire(t.Context(), fixture.Shell("rm x")); v.Decision != grapnel.Block || v.Reason() != "root" {
		t.Errorf("rm: %v %q, want the block of the last valid content", v.Decision, v.Reason())
	}
	start, _ := messagesOf(e)
	for _, want := range []string{"its last valid content stays active", "only managed policies"} {
		if !strings.Contains(start, want) {
			t.Errorf("the message at the start is %q, want %q in it", start, want)
		}
	}
	set := load.Policies(load.Request{Files: managed})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Fire(t.Context(), fixture.Shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "Ask an administrator to fix that file") {
		t.Errorf("without a snapshot: %v %q, want a block that names the administrator", v.Decision, v.Reason())
	}
}

// If a stronger policy vouches for a digest, no user is asked. The trust lasts as long as that
// policy vouches.
func TestVouched(t *testing.T) {
	t.Parallel()
	p := newProject(t, "version: 1\nhooks:\n  - {name: gate, on: tool.before, match: {command: rm}, run: ./gate.sh}\n")
	p.put("gate.sh", "exit 2\n")
	digest := p.examine().Digest()
	vouch := func(source, digest string) []load.File {
		return policiesOf(t, grapnel.ScopeUser, "version: 1\ntrust: [{source: "+source+", digest: '"+digest+"'}]\n")
	}
	vouches := func(own []load.File) bool {
		return load.Request{Files: own, Snapshots: p.snapshots()}.Vouches(p.file, p.examine().Digest())
	}
	state := func(own []load.File) load.State {
		set, _ := p.load(own...)
		return p.state1(set).State
	}
	other := "sha256:" + strings.Repeat("0", 64)
	ofSession := vouch(p.dir, digest)
	ofSession[0].Scope = grapnel.ScopeSession
	strangers := map[string][]load.File{"nobody": nil, "elsewhere": vouch(p.dir+"-other/**", digest), "another": vouch(p.dir, other), "of a session": ofSession}
	for name, own := range strangers {
		if vouches(own) {
			t.Errorf("%s vouches", name)
		}
	}
	own := vouch(p.dir, digest)
	if !vouches(own) {
		t.Fatal("nobody vouches")
	}
	if got := state(own); got != load.Untrusted {
		t.Errorf("nothing was looked at yet, and it is %s", got)
	}
	x := p.examine()
	x.Vouched = true
	if err := p.trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	if got := state(own); got != load.Trusted {
		t.Errorf("vouched for, and %s", got)
	}
	// The files that it names are pinned with it.
	p.put("gate.sh", "exit 0\n")
	_, e := p.load(own...)
	if v := e.Fire(context.Background(), fixture.Shell("rm x")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "gate.sh differs from the trusted content") {
		t.Errorf("with another script: %v %q", v.Decision, v.Reason())
	}
	// Changed content is not vouched for; the earlier content stays in force.
	p.put("grapnel.yaml", "version: 1\n")
	if got := state(own); got != load.Changed || vouches(own) {
		t.Errorf("changed: %s", got)
	}
	// No policy vouches any more, so nothing of it is in force.
	for name, own := range strangers {
		if got := state(own); got != load.Untrusted {
			t.Errorf("%s vouches any more: %s", name, got)
		}
	}
}
