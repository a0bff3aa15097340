package policy

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// linked is what reads files in the words of others, once [LinkForeign] was called.
var linked *foreignReaders

type foreignReaders struct {
	load   func(Request, File, *policyfile.Policy, *Trust) ([]grapnel.Spec, []Loaded)
	source func(Request, grapnel.Source) ([]grapnel.Spec, error)
	rules  func(*policyfile.Policy, string, reader) []*policyfile.Error
}

// LinkForeign lets policies load hook files of other systems, and rules for secrets in the
// format of gitleaks. Import github.com/grapnel-dev/grapnel/policy/foreign to have it called.
//
// It stands apart because of its weight: a program that is started for each event does
// without, and lets another answer where [Set].Beyond says so. Call it before the first
// [Load], and not at the same time. The reader of TOML is handed in, since a program that
// imports its parser cannot but hold it.
func LinkForeign(toml func([]byte) (*tree.Node, *tree.Error)) {
	linked = &foreignReaders{Request.loadForeign, Request.loadForeignSource, readRules}
	hookfiles.ParseTOML = toml
}

// rules reads the files of rules for secrets that a policy file names.
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

// foreign loads what the `load:` of a policy names.
func (req Request) loadsOf(file File, policy *policyfile.Policy, trust *Trust) ([]grapnel.Spec, []Loaded) {
	if linked == nil {
		req.leave()
		return []grapnel.Spec{brokenSpec(sourceOf(file), notLinked(file.Path, policy.Load[0].Format))}, nil
	}
	return linked.load(req, file, policy, trust)
}

// leave notes that another program has to load the policies.
func (req Request) leave() {
	if req.beyond != nil {
		*req.beyond = true
	}
}

func notLinked(file string, at policyfile.Word) *policyfile.Error {
	return &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: hookfiles.CannotRead, Hint: hookfiles.LinkHint}
}
