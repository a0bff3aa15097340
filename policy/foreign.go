package policy

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// linked holds the readers of foreign files. It is nil until [LinkForeign] is called.
var linked *foreignReaders

type foreignReaders struct {
	load   func(Request, File, *policyfile.Policy, *Trust) ([]grapnel.Spec, []Loaded)
	source func(Request, grapnel.Source) ([]grapnel.Spec, error)
	rules  func(*policyfile.Policy, string, reader) []*policyfile.Error
}

// LinkForeign enables hook files of other systems and secret rules in the gitleaks format. To
// enable them, import github.com/grapnel-dev/grapnel/policy/foreign, which calls LinkForeign.
//
// These readers are optional because they make a program larger. A program that is started for each
// event omits them, and hands over to another program if [Set].Beyond is set. Call LinkForeign
// before the first [Load], and not concurrently with it. The parser of TOML and the engine for
// regular expressions of JavaScript are parameters because importing them would link them into every
// program.
func LinkForeign(toml func([]byte) (*tree.Node, *tree.Error), js func(pattern string) (hookfiles.Search, error)) {
	linked = &foreignReaders{Request.loadForeign, Request.loadForeignSource, readRules}
	hookfiles.ParseTOML, hookfiles.CompileJS = toml, js
}

// rules reads the secret rule files that a policy file names.
func (req Request) rules(p *policyfile.Policy, file string, read reader) []*policyfile.Error {
	switch {
	case p.Secrets == nil || len(p.Secrets.Files) == 0 && linked == nil:
		return nil
	case linked == nil:
		req.leave()
		return []*policyfile.Error{notLinked(file, p.Secrets.Files[0])}
	}
	return linked.rules(p, file, read)
}

// loadsOf loads the hook files that the `load:` key of a policy names.
func (req Request) loadsOf(file File, policy *policyfile.Policy, trust *Trust) ([]grapnel.Spec, []Loaded) {
	if linked == nil {
		req.leave()
		return []grapnel.Spec{brokenSpec(sourceOf(file), notLinked(file.Path, policy.Load[0].Format))}, nil
	}
	return linked.load(req, file, policy, trust)
}

// leave records that another program must load the policies.
func (req Request) leave() {
	if req.beyond != nil {
		*req.beyond = true
	}
}

func notLinked(file string, at policyfile.Word) *policyfile.Error {
	return &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: hookfiles.CannotRead, Hint: hookfiles.LinkHint}
}
