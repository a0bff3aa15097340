package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

// trustReport is what "grapnel trust --json" prints.
type trustReport struct {
	File    string `json:"file"`
	Digest  string `json:"digest"`  // of all that is or would be pinned
	Trusted bool   `json:"trusted"` // it is, now
	SHA256  string `json:"sha256"`  // of the policy file

	Loads    []policy.PinnedLoad `json:"loads,omitempty"` // hook files of other systems
	Pins     []policy.Pin        `json:"pins"`
	Unpinned []string            `json:"unpinned"`
	Hooks    []trustHook         `json:"hooks"`
}

type trustHook struct {
	Name string   `json:"name"`
	On   []string `json:"on"`
	Does string   `json:"does"`
	File string   `json:"file,omitempty"` // of another system
}

func newTrust(c *console) *cobra.Command {
	var digest string
	cmd := &cobra.Command{
		Use:   "trust FILE",
		Short: "Let the policy of a project count",
		Long:  "Shows what the policy of a project would do and what changed since it was last\ntrusted, asks, and pins the content of the file, of the hook files that it loads, and\nof the project files that their command lines name. What those load in turn is not pinned. Without a terminal\nnobody is asked: give the digest of what you have looked at.\nExit code 0: it is trusted now.",
		Example: `  grapnel trust grapnel.yaml
  grapnel trust grapnel.yaml --digest sha256:3d1f...`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			place, err := c.place()
			if err != nil {
				return err
			}
			file, err := projectPolicy(place, args[0])
			if err != nil {
				return err
			}
			x, wrong := policy.Examine(file, answer.DirsOf(filepath.Dir(file))[0], packs.All)
			if len(wrong) > 0 {
				for _, e := range wrong {
					fmt.Fprintln(c.err, c.located(finding{e, "error"}, red))
				}
				return errFailed
			}
			trusts := place.Trusts()
			old, lost := trusts.Of(file)
			same := old != nil && old.Digest() == x.Digest()
			if !c.json {
				c.printExamined(x, old != nil && !same)
				if lost != nil {
					fmt.Fprintf(c.out, "%s %v\n", c.paint(yellow, "warning:"), lost)
				} else if old != nil && !same {
					c.printChanges(trusts, old, x)
				}
			}
			if !same {
				if err = c.mayTrust(x, digest); err == nil {
					x.Time = time.Now().UTC()
					err = trusts.Keep(x)
				}
			}
			if c.json {
				return errors.Join(c.printJSON(reportTrust(x, err == nil)), err)
			}
			switch {
			case err != nil:
				return err
			case same:
				fmt.Fprintf(c.out, "%s is trusted already, as it is\n", file)
			default:
				fmt.Fprintf(c.out, "%s %s\n", c.paint(green, "trusted"), file)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "trust it if this is its `DIGEST`, and do not ask")
	return c.jsonFlag(cmd)
}

// projectPolicy is the name by which the policy of a project is known. Only what can
// come into force can be trusted.
func projectPolicy(place answer.Place, name string) (string, error) {
	file, err := answer.ProjectFile(name)
	if err != nil {
		return "", err
	}
	if filepath.Base(file) != answer.ProjectPolicy {
		return "", usageError{withHint(fmt.Errorf("%s: projects' policies are called %s", file, answer.ProjectPolicy), "load another file with --policy FILE, which needs no trust")}
	}
	user, noUser := os.Stat(place.Policy)
	info, noFile := os.Stat(file)
	if noUser == nil && noFile == nil && os.SameFile(info, user) {
		return "", usageError{fmt.Errorf("%s is your own policy, and in force without being trusted", file)}
	}
	return file, nil
}

// mayTrust says whether the person does, or why nobody knows.
func (c *console) mayTrust(x *policy.Examined, digest string) error {
	switch ci := os.Getenv("CI"); {
	case strings.TrimPrefix(digest, "sha256:") == strings.TrimPrefix(x.Digest(), "sha256:"):
		return nil
	case digest != "":
		return withHint(fmt.Errorf("nothing is trusted: the digest of %s is %s", x.File, x.Digest()), "look at what it would do before you give that digest")
	case !terminal(c.in) || !terminal(c.out) || c.json || ci != "" && ci != "false":
		return withHint(fmt.Errorf("nothing is trusted: nobody can be asked about %s", x.File), fmt.Sprintf("look at it, then give --digest %s", x.Digest()))
	case !c.ask("trust this?"):
		return errors.New("nothing is trusted")
	}
	return nil
}

func reportTrust(x *policy.Examined, trusted bool) trustReport {
	r := trustReport{
		File: x.File, Digest: x.Digest(), Trusted: trusted, SHA256: x.SHA256, Loads: x.Loads, Pins: x.Pins, Unpinned: notNil(x.Unpinned), Hooks: []trustHook{},
	}
	for _, use := range x.Policy.Use {
		r.Hooks = append(r.Hooks, trustHook{Name: use.Pack.Text, On: []string{}, Does: "a pack"})
	}
	add := func(h *policy.Hook, does, file string) {
		on := make([]string, len(h.On))
		for j, kind := range h.On {
			on[j] = string(kind)
		}
		r.Hooks = append(r.Hooks, trustHook{Name: h.Name, On: on, Does: does, File: file})
	}
	for i := range x.Policy.Hooks {
		h := &x.Policy.Hooks[i]
		add(h, does(h)+held(h), "")
	}
	for _, f := range x.Foreign {
		for i := range f.Hooks {
			h := &f.Hooks[i]
			switch {
			case h.Webhook != nil:
				add(&h.Hook, "tells "+h.Webhook.URL, f.Path)
			case h.Rule:
				add(&h.Hook, "a rule of the format "+f.Format, f.Path)
			default:
				add(&h.Hook, does(&h.Hook), f.Path)
			}
		}
	}
	return r
}

// does says what a hook does, in the words of the file.
func does(h *policy.Hook) string {
	switch {
	case h.Context != nil && h.Context.Run != nil && h.Context.Run.Args != nil:
		return fmt.Sprintf("tells the model what %q prints", h.Context.Run.Args)
	case h.Context != nil && h.Context.Run != nil:
		return "tells the model what this prints: " + h.Context.Run.Line
	case h.Builtin != nil && h.Run == nil:
		return h.Builtin.Name + ", into " + h.Builtin.File
	case h.Limit != nil:
		return "limits to " + h.Limit.String()
	case h.Run != nil && h.Run.Worker && h.Run.Args != nil:
		return fmt.Sprintf("asks the worker %q", h.Run.Args)
	case h.Run != nil && h.Run.Worker:
		return "asks the worker " + h.Run.Line
	case h.Run != nil && h.Run.Args != nil:
		return fmt.Sprintf("runs %q", h.Run.Args)
	case h.Run != nil:
		return "runs " + h.Run.Line
	case h.Decide == "allow":
		return "allow, which does not count in a project"
	case h.Decide != "":
		return h.Decide
	case h.Replace != nil:
		return "replaces text"
	case h.Set != nil || h.Places != nil:
		var fields []string
		for _, place := range h.Places {
			fields = append(fields, fmt.Sprintf("%s to %s", &place, place.Value))
		}
		for field, value := range h.Set {
			fields = append(fields, fmt.Sprintf("%s to %s", field, value))
		}
		slices.Sort(fields)
		return "sets " + strings.Join(fields, ", ")
	case h.Context != nil && h.Context.File != "":
		return "tells the model what " + h.Context.File + " says"
	default:
		return "tells the model something"
	}
}

func (c *console) printExamined(x *policy.Examined, changed bool) {
	r := reportTrust(x, false)
	fmt.Fprintln(c.out, c.paint(bold, inLine(x.File)))
	file := ""
	for _, h := range r.Hooks {
		if h.File != file {
			file = h.File
			fmt.Fprintln(c.out, c.paint(bold, inLine(file)))
		}
		fmt.Fprintf(c.out, "  %s %s\n    %s\n", c.paint(bold, inLine(h.Name)), plain(strings.Join(h.On, ", ")), indent(h.Does, "    ")[4:])
	}
	for _, f := range x.Foreign {
		for _, e := range append(slices.Clone(f.Errors), f.Notes...) {
			fmt.Fprintf(c.out, "%s %s\n", c.paint(yellow, "warning:"), plain(e.Error()))
		}
	}
	if len(x.Pins)+len(x.Loads) > 0 {
		fmt.Fprintln(c.out, "pinned with it")
	}
	for _, load := range x.Loads {
		fmt.Fprintf(c.out, "  %s (%s)\n", inLine(load.Path), load.Format)
	}
	for _, pin := range x.Pins {
		there := ""
		if pin.SHA256 == "" {
			there = " (not there, and has to stay so)"
		}
		fmt.Fprintf(c.out, "  %s%s\n", inLine(pin.Path), there)
	}
	if len(x.Pins) > 0 || len(x.Unpinned) > 0 {
		fmt.Fprintln(c.out, "not pinned")
		for _, text := range x.Unpinned {
			fmt.Fprintf(c.out, "  %s\n", plain(text))
		}
		fmt.Fprintln(c.out, "  what programs load in turn")
	}
	if !changed {
		fmt.Fprintf(c.out, "digest %s\n", x.Digest())
	}
}

// printChanges shows how the files differ from what was trusted.
func (c *console) printChanges(trusts policy.Trusts, old *policy.Trust, x *policy.Examined) {
	was, is := digests(old), digests(&x.Trust)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[name]; !still {
			fmt.Fprintf(c.out, "%s is not named any more\n", inLine(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if before, both := was[name]; both && before == is[name] {
			continue
		}
		before, err := []byte(nil), error(nil)
		if was[name] != "" {
			before, err = trusts.Content(was[name])
		}
		after := x.Content(is[name])
		switch {
		case err != nil:
			fmt.Fprintf(c.out, "%s was changed (%v)\n", inLine(name), err)
		case !isText(before) || !isText(after):
			fmt.Fprintf(c.out, "%s was changed, and is no text\n", inLine(name))
		default:
			_, lines, _ := strings.Cut(string(diff.Diff("trusted "+name, before, "now "+name, after)), "\n") // the first is of the program diff
			fmt.Fprintln(c.out, strings.TrimRight(plain(lines), "\n"))
		}
	}
	fmt.Fprintf(c.out, "digest %s\n", x.Digest())
}

// digests are those of the files of a trust, by name.
func digests(t *policy.Trust) map[string]string {
	files := map[string]string{t.File: t.SHA256}
	for _, pin := range t.Pins {
		files[pin.Path] = pin.SHA256
	}
	for _, load := range t.Loads {
		files[load.Path] = load.SHA256
	}
	return files
}

func isText(data []byte) bool { return utf8.Valid(data) && !bytes.ContainsRune(data, 0) }
