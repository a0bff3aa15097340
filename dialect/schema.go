package dialect

import _ "embed" // of the schema

// PlainSchema returns the JSON Schema of the plain dialect. Its $defs name the parts:
// event, outcome, verdict and message.
func PlainSchema() string { return plainSchema }

//go:embed plain.schema.json
var plainSchema string
