package dialect

import _ "embed" // for plain.schema.json

// PlainSchema returns the JSON Schema of the plain dialect. Its $defs are event, outcome, verdict
// and message.
func PlainSchema() string { return plainSchema }

//go:embed plain.schema.json
var plainSchema string
