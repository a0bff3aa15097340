// Package format has what laying out policies and their tests needs beside the layout.
package format

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/check"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// Stdin is what a command calls its standard input, and how it is named.
const Stdin = "-"

// WithTests lists the policies that count here and the files of tests beside them.
func WithTests(place local.Place) ([]string, error) {
	policies, err := check.OwnFiles(place)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, file := range policies {
		tests, _ := filepath.Glob(escapeGlob(filepath.Dir(file)) + string(filepath.Separator) + "*" + policytest.Suffix) // such a pattern is never bad
		files = append(append(files, file), tests...)
	}
	return files, nil
}

// escapeGlob makes a pattern of a name that matches nothing else.
func escapeGlob(name string) string {
	if filepath.Separator == '\\' {
		return name // nothing escapes there, and hardly a directory has such a name
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// Read reads a file, or standard input, up to the size that a policy may have.
func Read(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != Stdin {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return nil, errors.New(cause(err))
		case !info.Mode().IsRegular(): // a pipe would be waited for
			return nil, errors.New("is not a regular file")
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, errors.New(cause(err))
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, yaml.MaxSize+1)) // what is larger is refused when it is read
}

// cause is an error of the system without the name of the file.
func cause(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// KeyOrder returns the order of keys: that of a hook is the one in which the schema
// describes them.
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
