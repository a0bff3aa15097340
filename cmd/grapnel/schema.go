package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy"
)

// schemas lists the formats with a JSON Schema.
var schemas = []struct {
	name, about string
	text        func() (string, error)
}{
	{"policy", "a policy file", func() (string, error) { return policy.Schema(), nil }},
	{"test", "a file of tests", func() (string, error) { return policytest.Schema(), nil }},
	{"record", "a line of the log", func() (string, error) { return records.Schema(), nil }},
	{"event", "input of a program of a hook", func() (string, error) { return plainPart("event") }},
	{"outcome", "output of a program of a hook", func() (string, error) { return plainPart("outcome") }},
}

func newSchema(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print a JSON Schema for editors and other tools",
		Long: `Print the JSON Schema of a format. The default is the schema of policies.

`,
		Example: "  grapnel schema >policy.schema.json",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			name := schemas[0].name
			if len(args) > 0 {
				name = args[0]
			}
			for _, s := range schemas {
				if s.name == name {
					text, err := s.text()
					if err == nil {
						_, err = fmt.Fprint(c.Out, text)
					}
					return err
				}
			}
			return cli.Usage(cli.WithHint(fmt.Errorf("unknown schema %q", name), "run \"grapnel schema --help\""))
		},
	}
	for _, s := range schemas {
		cmd.Long += fmt.Sprintf("  %-8s %s\n", s.name, s.about)
		cmd.ValidArgs = append(cmd.ValidArgs, cobra.CompletionWithDesc(s.name, s.about))
	}
	return cmd
}

// plainPart returns the schema of one part of the plain dialect.
func plainPart(name string) (string, error) {
	var whole struct {
		Schema string          `json:"$schema"`
		Title  string          `json:"title"`
		Ref    string          `json:"$ref"`
		Defs   json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(dialect.PlainSchema()), &whole); err != nil {
		return "", err
	}
	whole.Title += ": " + name
	whole.Ref = "#/$defs/" + name
	text, err := json.MarshalIndent(whole, "", "  ")
	return string(text) + "\n", err
}
