// Package documents finds the YAML in this repository and validates values against a JSON Schema,
// for tests of the packages that read, check or format files:
//
//	all, err := documents.All("..")
//	refuses, err := documents.Validator(policy.Schema())
package documents

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// A Document is a YAML text. Blocks of one page, and files of one archive, have the same Name.
type Document struct{ Name, Text string }

var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// All returns the YAML below the root of the repository: files, code blocks of pages, and files
// in txtar archives.
func All(root string) ([]Document, error) {
	var all []Document
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		switch ext {
		case ".md", ".txtar", ".yaml", ".yml":
		default:
			return nil
		}
		data, err := os.ReadFile(name)
		switch ext {
		case ".md":
			for _, found := range block.FindAllSubmatch(data, -1) {
				all = append(all, Document{name, string(found[1])})
			}
		case ".txtar":
			for _, file := range txtar.Parse(data).Files {
				if filepath.Ext(file.Name) == ".yaml" {
					all = append(all, Document{name, string(file.Data)})
				}
			}
		default:
			all = append(all, Document{name, string(data)})
		}
		return err
	})
	return all, err
}

// Validator returns a function that checks a YAML text against a JSON Schema.
func Validator(schema string) (refuses func(text string) error, err error) {
	s, err := ParseSchema(schema)
	if err != nil {
		return nil, err
	}
	return func(text string) error {
		tree, err := yaml.Parse([]byte(text))
		if err != nil {
			return err
		}
		var v any
		if err := json.Unmarshal(tree.JSON(), &v); err != nil {
			return err // JSON cannot hold the value, for example 1e400
		}
		return s.Validate(v)
	}, nil
}
