package dialect

import _ "embed" // of the schema

// PlainSchema is the JSON Schema of the plain dialect. Its $defs name the parts: event,
// outcome, verdict and message.
//
//go:embed plain.schema.json
var PlainSchema string
