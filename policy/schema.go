package policy

import _ "embed" // of the schema

// Schema is the JSON Schema of policy files, for editors and other tools. What it
// refuses Parse refuses too; Parse looks closer.
//
//go:embed policy.schema.json
var Schema string
