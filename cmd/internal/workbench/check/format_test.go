package check

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// sarifShape is the part of the SARIF 2.1.0 schema for the members that Grapnel writes: required
// members, types and allowed values.
const sarifShape = `{
  "type": "object", "required": ["version", "runs"], "additionalProperties": false,
  "properties": {
    "$schema": {"type": "string", "format": "uri"},
    "version": {"enum": ["2.1.0"]},
    "runs": {"type": "array", "minItems": 1, "items": {
      "type": "object", "required": ["tool", "results"], "additionalProperties": false,
      "properties": {
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
          "type": "object", "required": ["name"],
          "properties": {
            "name": {"type": "string"}, "version": {"type": "string"}, "informationUri": {"type": "string", "pattern": "^https://"},
            "rules": {"type": "array", "uniqueItems": true, "items": {
              "type": "object", "required": ["id"],
              "properties": {
                "id": {"type": "string"},
                "shortDescription": {"$ref": "#/$defs/message"},
                "defaultConfiguration": {"type": "object", "properties": {"level": {"$ref": "#/$defs/level"}}}
              }
            }}
          }
        }}},
        "results": {"type": "array", "items": {
          "type": "object", "required": ["message"], "additionalProperties": false,
          "properties": {
            "ruleId": {"type": "string"}, "ruleIndex": {"type": "integer", "minimum": 0}, "level": {"$ref": "#/$defs/level"},
            "message": {"$ref": "#/$defs/message"},
            "locations": {"type": "array", "minItems": 1, "items": {
              "type": "object", "required": ["physicalLocation"],
              "properties": {"physicalLocation": {
                "type": "object", "required": ["artifactLocation"], "additionalProperties": false,
                "properties": {
                  "artifactLocation": {"type": "object", "required": ["uri"], "properties": {"uri": {"type": "string", "minLength": 1}}},
                  "region": {"type": "object", "properties": {"startLine": {"type": "integer", "minimum": 1}, "startColumn": {"type": "integer", "minimum": 1}}}
                }
              }}
            }}
          }
        }}
      }
    }}
  },
  "$defs": {
    "level": {"enum": ["none", "note", "warning", "error"]},
    "message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
  }
}`

func TestSARIF(t *testing.T) {
	t.Parallel()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(sarifShape), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	found := []Finding{badPolicy.finding(&policyfile.Error{File: "a b.yaml", Msg: "no such file"})}
	for _, kind := range findingKinds {
		found = append(found, kind.finding(&policyfile.Error{File: filepath.Join("sub", "a.yaml"), Line: 3, Msg: "msg", Hint: "hint"}))
	}
	for _, list := range [][]Finding{nil, found} {
		text, err := json.Marshal(SARIF(list))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	run := SARIF(found).Runs[0]
	for i, r := range run.Results {
		if rule := run.Tool.Driver.Rules[r.RuleIndex]; rule.ID != r.RuleID || rule.DefaultConfiguration.Level != r.Level {
			t.Errorf("result %d is of the rule %s at %d, which is %v", i, r.RuleID, r.RuleIndex, rule)
		}
	}
	first, second := run.Results[0].Locations[0].PhysicalLocation, run.Results[1].Locations[0].PhysicalLocation
	if first.Region != nil || first.ArtifactLocation.URI != "a%20b.yaml" {
		t.Errorf("a file without a line is at %+v", first)
	}
	if second.ArtifactLocation.URI != "sub/a.yaml" || *second.Region != (sarifRegion{3, 1}) {
		t.Errorf("a line without a column is at %+v", second)
	}
}
