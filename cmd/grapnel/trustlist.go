package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// trustedFile is what has become of a policy that was trusted.
type trustedFile struct {
	File    string       `json:"file"`             // what keeps it, where that cannot be read
	State   policy.State `json:"state"`            // trusted, changed, gone, broken; untrusted: nobody vouches for it any more
	Digest  string       `json:"digest,omitempty"` // of all that was pinned
	Since   time.Time    `json:"since,omitzero"`
	Vouched bool         `json:"vouched,omitempty"` // by a policy, and not by a person
	Runs    []string     `json:"runs"`              // the programs that it starts, as it was trusted
	Wrong   []string     `json:"wrong"`             // why it is not in the state trusted
	Hint    string       `json:"hint,omitempty"`
}

// listTrusted shows what was ever trusted.
func (c *console) listTrusted(place local.Place) error {
	trusts, broken := place.Trusts().All()
	files := []trustedFile{}
	for _, e := range broken {
		files = append(files, trustedFile{
			File: e.File, State: policy.Broken, Runs: []string{}, Wrong: []string{e.Msg},
			Hint: "run \"grapnel trust\" for the policy once more, or remove this file",
		})
	}
	for _, trust := range trusts {
		files = append(files, trusted(place, trust))
	}
	var err error
	for _, f := range files {
		if f.State != policy.Trusted {
			err = cli.ErrFailed
		}
	}
	if c.JSON {
		if e := c.PrintJSON(map[string]any{"files": files}); e != nil {
			return e
		}
		return err
	}
	if len(files) == 0 {
		fmt.Fprintln(c.Out, "no policy of a project is trusted")
	}
	for _, f := range files {
		color := cli.Yellow
		if f.State == policy.Trusted {
			color = cli.Green
		}
		fmt.Fprintf(c.Out, "%s %s\n", c.Paint(color, fmt.Sprintf("%-9s", f.State)), printable.Line(f.File))
		if f.Digest != "" {
			since := ", since " + f.Since.Local().Format("2006-01-02 15:04")
			if f.Vouched {
				since += ", for a policy vouches for it"
			}
			fmt.Fprintf(c.Out, "  %s%s\n", f.Digest, since)
		}
		for _, text := range f.Runs {
			fmt.Fprintf(c.Out, "  runs %s\n", cli.Indent(text, "    ")[4:])
		}
		for _, text := range f.Wrong {
			fmt.Fprintf(c.Out, "  %s %s\n", c.Paint(cli.Yellow, "warning:"), printable.Line(text))
		}
		if f.Hint != "" {
			fmt.Fprintf(c.Out, "  hint: %s\n", printable.Line(f.Hint))
		}
	}
	return err
}

// trusted looks at one of them: at what is in force, and at what the files say now.
func trusted(place local.Place, trust *policy.Trust) trustedFile {
	f := trustedFile{File: trust.File, State: policy.Trusted, Digest: trust.Digest(), Since: trust.Time, Vouched: trust.Vouched, Runs: []string{}, Wrong: []string{}}
	files := append(place.Files(nil, nil), policy.File{Path: trust.File, Scope: grapnel.ScopeProject, Trust: true})
	req := place.Request(files, func(cmd policy.Command) grapnel.Hook {
		if cmd.Scope == grapnel.ScopeProject {
			text := cmd.Line
			if cmd.Args != nil {
				text = fmt.Sprintf("%q", cmd.Args)
			}
			f.Runs = append(f.Runs, text)
		}
		return grapnel.Func(nil)
	})
	for _, row := range policy.Load(req).Files {
		if !row.OfProject() || row.State == policy.Trusted {
			continue
		}
		if row.Format == "" || f.State == policy.Trusted {
			f.State = row.State
		}
		if row.Format != "" && row.State != policy.Broken {
			f.State = policy.Changed // one of the files that the policy loads
		}
		for _, e := range row.Errors {
			f.Wrong = append(f.Wrong, e.Error())
		}
	}
	for _, err := range trust.Changed() {
		if f.State == policy.Trusted {
			f.State = policy.Changed
		}
		f.Wrong = append(f.Wrong, err.Error())
	}
	switch f.State {
	case policy.Trusted:
	case policy.Gone:
		f.Hint = fmt.Sprintf("what was trusted stays in force; let go of it with \"grapnel untrust %s\"", trust.File)
	case policy.Untrusted:
		f.Wrong = append(f.Wrong, "nothing of it is in force: no policy vouches for it any more")
		f.Hint = fmt.Sprintf("look at it with \"grapnel trust %s\"", trust.File)
	default:
		f.Hint = fmt.Sprintf("look at it with \"grapnel trust %s\", or let go of it with \"grapnel untrust %[1]s\"", trust.File)
	}
	f.Hint = strings.TrimSpace(f.Hint)
	return f
}
