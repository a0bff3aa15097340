package records

import _ "embed"

//go:embed record.schema.json
var schema string

// Schema returns the JSON Schema of a Record, which is a line of the log.
func Schema() string { return schema }
