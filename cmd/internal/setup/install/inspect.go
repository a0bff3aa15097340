package install

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// An Inspection is the result of Inspect.
type Inspection struct {
	Entries []Entry  // entries of Grapnel, in the order of the file
	Notes   []string // settings that disable hooks or change how they run
}

// Inspect parses a file of the agent and returns the parts that concern Grapnel. It returns a
// *FileError if the agent could not read the file.
func (a Agent) Inspect(file string, data []byte) (*Inspection, error) {
	if a.isText(file) {
		return &Inspection{Entries: a.textEntries(file, data)}, nil
	}
	d, err := parse(a, file, data)
	if err != nil {
		return nil, err
	}
	sections, err := d.sections()
	if err != nil {
		return nil, err
	}
	in := &Inspection{Notes: d.notes("")}
	for _, h := range ours(sections) {
		if h.entry.Event != "" {
			in.Entries = append(in.Entries, h.entry)
		}
	}
	return in, nil
}

// Installed inspects all files of an installation record. It returns the error of the first file
// that is missing or unreadable.
func (a Agent) Installed(rec installation.Record) (*Inspection, error) {
	var all Inspection
	files := []string{rec.Settings}
	if a.Setup.Shape == dialect.ShapeFiles {
		files = nil // it is a directory
	}
	for _, f := range rec.Files {
		files = append(files, f.Path)
	}
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return nil, err
		}
		if data == nil {
			return nil, fmt.Errorf("%s is gone", file)
		}
		in, err := a.Inspect(file, data)
		if err != nil {
			return nil, err
		}
		all.Entries = append(all.Entries, in.Entries...)
		all.Notes = append(all.Notes, in.Notes...)
	}
	return &all, nil
}
