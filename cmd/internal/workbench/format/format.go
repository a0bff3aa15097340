// Package format provides the parts of "grapnel fmt" other than the layout: files and key order.
package format

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// Stdin is the name of standard input on the command line.
const Stdin = "-"

// WithTests lists the active policies of the working directory and the test files next to them.
func WithTests(place local.Place) ([]string, error) {
	policies, err := check.OwnFiles(place)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, file := range policies {
		tests, _ := filepath.Glob(escapeGlob(filepath.Dir(file)) + string(filepath.Separator) + "*" + policytest.Suffix) // an escaped pattern is always valid
		files = append(append(files, file), tests...)
	}
	return files, nil
}

// escapeGlob returns a pattern that matches only the given name.
func escapeGlob(name string) string {
	if filepath.Separator == '\\' {
		return name // Glob has no escape character there, and such directory names are rare
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// Read reads a file or standard input. It reads one byte more than the maximum size of a policy,
// so that the parser rejects a longer one.
func Read(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != Stdin {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return nil, errors.New(cause(err))
		case !info.Mode().IsRegular(): // a pipe would block
			return nil, errors.New("is not a regular file")
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, errors.New(cause(err))
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, yaml.MaxSize+1)) // the parser rejects a longer text
}

// cause returns the text of a system error without the file name.
func cause(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// KeyOrder returns the order of keys. The order in a hook is the order in the schema.
func KeyOrder() map[string][]string {
	order := map[string][]string{"tests[]": {"name", "*", "want"}}
	schema, err := yaml.Parse([]byte(policy.Schema())) // JSON is YAML
	if err != nil {
		return order
	}
	for _, p := range schema.Get("$defs").Get("hook").Get("properties").Pairs {
		order["hooks[]"] = append(order["hooks[]"], p.Key.Text)
	}
	return order
}
