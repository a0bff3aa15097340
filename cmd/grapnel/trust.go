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

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/review"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func newTrust(c *console) *cobra.Command {
	var digest string
	var list bool
	cmd := &cobra.Command{
		Use:   "trust [FILE] | --list",
		Short: "Review and trust a project's policy",
		Long: `Show what the policy of a project would do and what changed since it was last trusted, then
ask. Without FILE, it is the policy of the project in the working directory. Trust pins the
content of the file, of the hook files that it loads, and of the project files that its command
lines name. It does not pin files that these files load.

Without a terminal, the command cannot ask: pass the digest that was shown on a terminal, or
add it under "trust" in your own policy. Below the process of an agent, the command only shows the
policy, because a person should decide. Exit code 0: the policy is trusted now.

--list shows everything that was trusted and its state. Exit code 0: nothing changed.`,
		Example: `  grapnel trust
  grapnel trust app/grapnel.yaml
  grapnel trust grapnel.yaml --digest sha256:3d1f...
  grapnel trust --list`,
		Args: usageArgs(func(cmd *cobra.Command, args []string) error {
			if list {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			if list && digest != "" {
				return cli.Usage(errors.New("--list and --digest cannot be used together"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if list {
				return c.listTrusted(place)
			}
			file, err := policyToTrust(place, args)
			if err != nil {
				return err
			}
			return c.trust(place, file, digest)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list trusted policies and their state")
	cmd.Flags().StringVar(&digest, "digest", "", "trust the policy without confirmation if it has this `DIGEST`")
	return c.jsonFlag(cmd)
}

// trust shows the effects of a project's policy and asks the user to trust it.
func (c *console) trust(place local.Place, file, digest string) error {
	x, wrong := load.Examine(file, local.ProjectRoot(filepath.Dir(file)), packs.All())
	if len(wrong) > 0 {
		for _, e := range wrong {
			fmt.Fprintln(c.Err, c.located(check.BadPolicy(e), typeset.Red))
		}
		return cli.ErrFailed
	}
	trusts := place.Trusts()
	old, oldErr := trusts.Of(file)
	same := old != nil && old.Digest() == x.Digest()
	if !c.JSON {
		c.printExamined(x)
		if oldErr != nil {
			fmt.Fprintf(c.Out, "%s %v\n", c.Paint(typeset.Yellow, "warning:"), oldErr)
		} else if old != nil && !same {
			c.printChanges(trusts, old, x)
		}
		if c.interactive() {
			fmt.Fprintf(c.Out, "digest %s\n", x.Digest())
		}
	}
	err := c.keepTrust(place, x, digest, same)
	if c.JSON {
		return errors.Join(c.PrintJSON(review.NewReport(x, err == nil)), err)
	}
	switch {
	case err != nil:
		return err
	case x.Vouched:
		fmt.Fprintf(c.Out, "%s %s, because your own policy trusts it\n", c.Paint(typeset.Green, "trusted"), file)
	case same:
		fmt.Fprintf(c.Out, "%s is already trusted and unchanged\n", file)
	default:
		fmt.Fprintf(c.Out, "%s %s\n", c.Paint(typeset.Green, "trusted"), file)
	}
	return nil
}

// keepTrust stores the trust in a policy, unless the same content is trusted already. It
// returns an error if the policy must not be trusted.
func (c *console) keepTrust(place local.Place, x *load.Examined, digest string, same bool) error {
	if same {
		return nil
	}
	// Without an explicit --digest, a user or managed policy that vouches replaces the
	// question. The two cases are stored separately: a person's trust stays valid if a policy
	// stops vouching.
	x.Vouched = digest == "" && place.Request(place.Files(nil, nil), policy.Runners{}).Vouches(x.File, x.Digest())
	if !x.Vouched {
		if err := c.confirmTrust(x, digest); err != nil {
			return err
		}
	}
	x.Time = time.Now().UTC()
	return place.Trusts().Keep(x)
}

// policyToTrust returns the file in the arguments of a command or, without one, the only policy of the
// project in the working directory that is not trusted as it is.
func policyToTrust(place local.Place, args []string) (string, error) {
	if len(args) > 0 {
		return projectPolicy(place, args[0])
	}
	dir, err := cli.WorkDir()
	if err != nil {
		return "", err
	}
	var there, open []string
	for _, d := range place.DirsOf(dir) {
		file := filepath.Join(d.Path, local.ProjectPolicy)
		if _, err := os.Lstat(file); err != nil || file == place.Policy {
			continue
		}
		there = append(there, file)
		x, wrong := load.Examine(file, local.ProjectRoot(d.Path), packs.All())
		if old, err := place.Trusts().Of(file); err != nil || len(wrong) > 0 || old == nil || old.Digest() != x.Digest() {
			open = append(open, file)
		}
	}
	switch {
	case len(there) == 0:
		return "", cli.Usage(cli.WithHint(fmt.Errorf("the project of %s has no %s", dir, local.ProjectPolicy), "name the FILE, or use --list"))
	case len(open) == 1:
		return projectPolicy(place, open[0])
	case len(open) == 0:
		return projectPolicy(place, there[0])
	}
	return "", cli.Usage(cli.WithHint(errors.New("several policies of this project are not trusted"), "name one: "+strings.Join(open, ", ")))
}

// projectPolicy returns the path that identifies a project's policy. A file that Grapnel would
// never load as a project's policy is an error.
func projectPolicy(place local.Place, name string) (string, error) {
	file, err := local.ProjectFile(name)
	if err != nil {
		return "", err
	}
	if filepath.Base(file) != local.ProjectPolicy {
		return "", cli.Usage(cli.WithHint(fmt.Errorf("%s: the policy of a project must be named %s", file, local.ProjectPolicy), "use another file with --policy FILE, which needs no trust"))
	}
	user, noUser := os.Stat(place.Policy)
	info, noFile := os.Stat(file)
	if noUser == nil && noFile == nil && os.SameFile(info, user) {
		return "", cli.Usage(fmt.Errorf("%s is your own policy and needs no trust", file))
	}
	return file, nil
}

// interactive reports whether a person can answer questions at the terminal.
func (c *console) interactive() bool {
	ci := os.Getenv("CI")
	return cli.Terminal(c.In) && cli.Terminal(c.Out) && !c.JSON && (ci == "" || ci == "false")
}

// confirmTrust asks the person. It returns an error if the policy is not trusted. The error
// never has the digest, because a person or a model that pastes it has not read the policy.
func (c *console) confirmTrust(x *load.Examined, digest string) error {
	if err := c.notByAgent("trust a policy"); err != nil {
		return err
	}
	switch {
	case strings.TrimPrefix(digest, "sha256:") == strings.TrimPrefix(x.Digest(), "sha256:"):
		return nil
	case digest != "":
		return cli.WithHint(fmt.Errorf("cannot trust %s: its digest differs", x.File), "review it again at a terminal")
	case !c.interactive():
		return cli.WithHint(fmt.Errorf("cannot trust %s: confirmation needs a terminal", x.File), "run the command at a terminal, or pass the --digest that it shows there, or add it under `trust` in your own policy")
	case !c.Ask("trust this?"):
		return errors.New("the policy was not trusted")
	}
	return nil
}

func (c *console) printExamined(x *load.Examined) {
	r := review.NewReport(x, false)
	fmt.Fprintln(c.Out, c.Paint(typeset.Bold, printable.Line(x.File)))
	file := ""
	for _, h := range r.Hooks {
		if h.File != file {
			file = h.File
			fmt.Fprintln(c.Out, c.Paint(typeset.Bold, printable.Line(file)))
		}
		fmt.Fprintf(c.Out, "  %s %s\n    %s\n", c.Paint(typeset.Bold, printable.Line(h.Name)), printable.Text(strings.Join(h.On, ", ")), cli.Indent(h.Does, "    ")[4:])
	}
	for _, f := range x.Foreign {
		for _, e := range append(slices.Clone(f.Errors), f.Notes...) {
			fmt.Fprintf(c.Out, "%s %s\n", c.Paint(typeset.Yellow, "warning:"), printable.Text(e.Error()))
		}
	}
	if len(x.Pins)+len(x.Loads) > 0 {
		fmt.Fprintln(c.Out, "pinned files")
	}
	for _, load := range x.Loads {
		fmt.Fprintf(c.Out, "  %s (%s)\n", printable.Line(load.Path), load.Format)
	}
	for _, pin := range x.Pins {
		there := ""
		if pin.SHA256 == "" {
			there = " (does not exist, and must not exist)"
		}
		fmt.Fprintf(c.Out, "  %s%s\n", printable.Line(pin.Path), there)
	}
	if len(x.Pins) > 0 || len(x.Unpinned) > 0 {
		fmt.Fprintln(c.Out, "not pinned")
		for _, text := range x.Unpinned {
			fmt.Fprintf(c.Out, "  %s\n", printable.Text(text))
		}
		fmt.Fprintln(c.Out, "  files that these programs load")
	}
}

// printChanges shows the differences between the trusted files and the current ones.
func (c *console) printChanges(trusts load.Trusts, old *load.Trust, x *load.Examined) {
	was, is := digests(old), digests(&x.Trust)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[name]; !still {
			fmt.Fprintf(c.Out, "%s is no longer in the policy, so it is not pinned\n", printable.Line(name))
			c.printDiff(trusts, name, was[name], nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		before, both := was[name]
		switch {
		case both && before == is[name]:
			continue
		case !both && is[name] != "":
			fmt.Fprintf(c.Out, "%s is now in the policy\n", printable.Line(name))
		case both && is[name] == "":
			fmt.Fprintf(c.Out, "%s was deleted\n", printable.Line(name))
		}
		c.printDiff(trusts, name, before, x.Content(is[name]))
	}
}

// printDiff shows the difference between a file and its trusted content.
func (c *console) printDiff(trusts load.Trusts, name, was string, after []byte) {
	before, err := []byte(nil), error(nil)
	if was != "" {
		before, err = trusts.Content(was)
	}
	switch {
	case err != nil:
		fmt.Fprintf(c.Out, "%s was changed (%v)\n", printable.Line(name), err)
	case !isText(before) || !isText(after):
		fmt.Fprintf(c.Out, "%s was changed and is not text\n", printable.Line(name))
	default:
		c.printTextDiff("trusted "+name, before, "now "+name, after)
	}
}

// printTextDiff shows the difference between two texts.
func (c *console) printTextDiff(oldName string, before []byte, name string, after []byte) {
	_, lines, _ := strings.Cut(string(diff.Diff(oldName, before, name, after)), "\n") // skip the first line, which names the diff program
	if lines != "" {
		fmt.Fprintln(c.Out, strings.TrimRight(printable.Text(lines), "\n"))
	}
}

// digests returns the digests of the files of a trust, by name.
func digests(t *load.Trust) map[string]string {
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
