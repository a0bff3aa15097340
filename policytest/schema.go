package policytest

import (
	_ "embed" // of the schema
	"strings"

	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

//go:embed policytest.schema.json
var schema string

// Schema returns the JSON Schema of files of tests, for editors and other tools, with the
// names of events, agents, fields and packs that this version knows. What it refuses Parse
// refuses too; Parse looks closer.
func Schema() string {
	names, _ := sample.Marshal(packs.All.Names()) // texts can always be written
	return policy.WithNames(strings.ReplaceAll(schema, `["$pack"]`, string(names)))
}
