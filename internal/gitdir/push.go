package gitdir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Push is a "git push", as far as its words show its changes.
type Push struct {
	Remote   string   // name or address; empty = the default
	Refspecs []string // in the order of the words
	All      bool     // --all, --branches
	Mirror   bool
	Tags     bool
	Delete   bool
	Prune    bool
}

const heads, tags = "refs/heads/", "refs/tags/"

// Pushed returns the full names of the references that a push may change in the remote repository,
// sorted. head is the current branch as a full name; empty = a detached HEAD. If git would refuse the
// push, Pushed may return the changes that git would make without the refusal. An error means that the push may
// change any reference. If p is nil, the repository is not known, and the words must name everything.
func (p *Repo) Pushed(push Push, head string, config *Config) ([]string, error) {
	in := pushing{Push: push, repo: p, config: config, head: head}
	if p == nil && !push.Complete() {
		return nil, errors.New("its repository is not known")
	}
	in.remote = cmp.Or(push.Remote, in.defaultRemote())
	if push.Mirror || config.Bool("remote."+in.remote+".mirror") {
		return nil, errors.New("a mirror changes every reference")
	}
	switch {
	case push.All:
		in.Refspecs = append(slices.Clip(in.Refspecs), heads+"*")
	case len(in.Refspecs) == 0 && !push.Tags:
		var err error
		if in.Refspecs, err = in.defaults(); err != nil {
			return nil, err
		}
	}
	if push.Tags {
		in.Refspecs = append(slices.Clip(in.Refspecs), tags+"*")
	}
	return in.all()
}

// Complete reports whether the words of a push show all its changes, also without its configuration.
func (push *Push) Complete() bool {
	return !push.All && !push.Mirror && !push.Tags && len(push.Refspecs) > 0 && (push.Delete || !slices.ContainsFunc(push.Refspecs, func(spec string) bool {
		_, to, _ := strings.Cut(spec, ":")
		return to == "" || strings.Contains(spec, "*")
	}))
}

// pushing is a push in a repository.
type pushing struct {
	Push

	repo   *Repo
	config *Config
	remote string
	head   string
}

// defaultRemote returns the remote of a push without one.
func (in *pushing) defaultRemote() string {
	if name := in.config.Get("branch." + in.branch() + ".pushremote"); name != "" {
		return name
	}
	return cmp.Or(in.config.Get("remote.pushdefault"), in.fetchRemote())
}

func (in *pushing) fetchRemote() string {
	if name := in.config.Get("branch." + in.branch() + ".remote"); name != "" {
		return name
	}
	if names := in.config.Remotes(); len(names) == 1 {
		return names[0]
	}
	return "origin"
}

func (in *pushing) branch() string { return strings.TrimPrefix(in.head, heads) }

// defaults returns the refspecs of a push without any.
func (in *pushing) defaults() ([]string, error) {
	if specs := in.config.All("remote." + in.remote + ".push"); len(specs) > 0 {
		return specs, nil
	}
	switch how := in.config.Get("push.default"); {
	case how == "matching":
		return []string{":"}, nil
	case how == "nothing", in.head == "":
		return nil, nil
	case in.toUpstream():
		if to := in.upstream(in.branch()); to != "" {
			return []string{in.head + ":" + to}, nil
		}
		if has, err := in.repo.Has(in.head); !has {
			return nil, cmp.Or(err, errors.New("the upstream of the new branch "+in.branch()+" is not known"))
		}
	}
	return []string{in.head + ":" + in.head}, nil
}

// toUpstream reports whether a branch is pushed to the reference that it is merged from.
func (in *pushing) toUpstream() bool {
	how := in.config.Get("push.default")
	return how == "upstream" || how == "tracking"
}

// upstream returns the reference that a branch is merged from, or "".
func (in *pushing) upstream(branch string) string {
	if to := in.config.All("branch." + branch + ".merge"); len(to) == 1 {
		return to[0]
	}
	return ""
}

// all returns the references that the refspecs change.
func (in *pushing) all() ([]string, error) {
	var refs, without []string
	for i := 0; i < len(in.Refspecs); i++ {
		spec := in.Refspecs[i]
		if spec == "tag" && i+1 < len(in.Refspecs) {
			i++
			refs = append(refs, tags+in.Refspecs[i])
			continue
		}
		if not, ok := strings.CutPrefix(spec, "^"); ok {
			without = append(without, not)
			continue
		}
		more, err := in.refspec(strings.TrimPrefix(spec, "+"), without)
		if err != nil {
			return nil, err
		}
		refs = append(refs, more...)
	}
	slices.Sort(refs)
	return slices.Compact(refs), nil
}

// refspec returns the references that one refspec changes.
func (in *pushing) refspec(spec string, without []string) ([]string, error) {
	from, to, both := strings.Cut(spec, ":")
	switch {
	case in.Delete:
		return named(spec), nil
	case spec == ":" && in.Prune:
		return in.wild(heads+"*", heads+"*", nil)
	case spec == ":":
		return in.repo.Refs(strings.TrimSuffix(heads, "/"))
	case strings.Contains(from, "*"):
		if !both {
			to = from
		}
		return in.wild(from, to, in.negative(without))
	case both && to != "":
		return in.destination(from, to)
	}
	return in.same(from)
}

// negative returns the sources that negative refspecs exclude, at any position.
func (in *pushing) negative(without []string) []string {
	for _, spec := range in.Refspecs {
		if not, ok := strings.CutPrefix(spec, "^"); ok {
			without = append(without, not)
		}
	}
	return without
}

// named returns the references that a name can mean in the remote repository.
func named(name string) []string {
	switch {
	case strings.HasPrefix(name, "refs/"):
		return []string{name}
	case strings.HasPrefix(name, "heads/"), strings.HasPrefix(name, "tags/"):
		return []string{"refs/" + name, heads + name}
	}
	return []string{heads + name}
}

// destination returns the references that a refspec with a destination changes. A short name is a tag if the source
// is one.
func (in *pushing) destination(from, to string) ([]string, error) {
	refs := named(to)
	if in.repo == nil || from == "" || strings.HasPrefix(to, "refs/") {
		return refs, nil
	}
	if ref, err := in.source(from); err == nil && strings.HasPrefix(ref, tags) {
		refs = append(refs, tags+to)
	}
	return refs, nil
}

// source returns the full name of the reference that a name means in this repository, or "".
func (in *pushing) source(name string) (string, error) {
	if name == "HEAD" || name == "@" {
		return in.head, nil
	}
	for _, prefix := range []string{"", "refs/", tags, heads} {
		if ref := prefix + name; strings.HasPrefix(ref, "refs/") {
			switch has, err := in.repo.Has(ref); {
			case err != nil:
				return "", err
			case has:
				return ref, nil
			}
		}
	}
	return "", nil
}

// same returns the references that a refspec without a destination changes: the reference of the same name, unless
// the configuration gives it another one.
func (in *pushing) same(name string) ([]string, error) {
	name = strings.TrimSuffix(name, ":")
	if name == "HEAD" || name == "@" {
		return slices.DeleteFunc([]string{in.head}, func(ref string) bool { return ref == "" }), nil // git refuses a detached HEAD
	}
	ref, _ := in.source(name)
	if ref == "" {
		return named(name), nil
	}
	for _, spec := range in.config.All("remote." + in.remote + ".push") {
		from, to, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		if to, fits := mapped(ref, from, to); ok && fits {
			return []string{to}, nil
		}
	}
	if branch, ok := strings.CutPrefix(ref, heads); ok && in.toUpstream() {
		if to := in.upstream(branch); to != "" {
			return []string{to}, nil
		}
	}
	ref, err := in.repo.Resolve(ref)
	if err != nil {
		return nil, err
	}
	return []string{ref}, nil
}

// mapped returns the destination of a reference by a refspec, which may have a star on both sides.
func mapped(ref, from, to string) (string, bool) {
	before, after, star := strings.Cut(from, "*")
	if !star {
		return to, ref == from
	}
	if len(ref) < len(before)+len(after) || !strings.HasPrefix(ref, before) || !strings.HasSuffix(ref, after) {
		return "", false
	}
	return strings.Replace(to, "*", ref[len(before):len(ref)-len(after)], 1), true
}

// wild returns the destinations of a refspec with a star.
func (in *pushing) wild(from, to string, without []string) ([]string, error) {
	if in.Prune {
		return nil, fmt.Errorf("--prune may delete every reference like %s", to)
	}
	dir, _, _ := strings.Cut(from, "*")
	if dir = dir[:strings.LastIndexByte(dir, '/')+1]; !strings.HasPrefix(dir, "refs/") || dir == "refs/" {
		return nil, fmt.Errorf("%s means every reference", from)
	}
	refs, err := in.repo.Refs(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, ref := range refs {
		if slices.ContainsFunc(without, func(not string) bool { _, is := mapped(ref, not, not); return is }) {
			continue
		}
		if to, ok := mapped(ref, from, to); ok {
			changed = append(changed, to)
		}
	}
	return changed, nil
}
