package hookcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// containWord is the first argument of grapnel-hook when it runs a shell line in a sandbox. The
// action `contain:` of a policy writes such command lines.
const containWord = "contain"

const containUsage = `usage: grapnel-hook contain [--read PATH]... [--write PATH]... [--net none|any|PORT,...]
                            [--root DIR] [--name HOOK] [--reason TEXT] -- LINE

Runs a shell line in a sandbox. A policy with "contain:" writes this command line. It needs
Linux 6.12 or later.

  --read PATH    the line may read PATH, in addition to the system's files; repeatable.
                 {root} is the project, {cwd} the working directory, tmp is /tmp and /var/tmp
  --write PATH   the line may also write PATH, in addition to its own TMPDIR; repeatable
  --net NET      none: no network (default); any: all destinations; or a list of TCP ports
  --root DIR     the project; default: the working directory
  --name HOOK    name of the hook, for messages
  --reason TEXT  reason of the hook, for messages

The exit code is the exit code of the line. If the sandbox cannot be set up, the line does not
run and the exit code is 1.
`

// containment is a parsed command line of "grapnel-hook contain".
type containment struct {
	box          process.Sandbox
	line         process.Contained
	name, reason string
	help         bool
}

func parseContain(args []string) (*containment, error) {
	c := &containment{}
	for len(args) > 0 {
		arg, rest := args[0], args[1:]
		name, value, hasValue := strings.Cut(arg, "=")
		switch {
		case arg == "--" && len(rest) != 1:
			return nil, fmt.Errorf("want one shell line after --, not %d", len(rest))
		case arg == "--":
			c.line.Line = rest[0]
			return c, nil
		case arg == "--help" || arg == "-h":
			c.help = true
			return c, nil
		case !strings.HasPrefix(arg, "--"):
			return nil, fmt.Errorf("unknown argument %q", arg)
		case !hasValue && len(rest) == 0:
			return nil, fmt.Errorf("%s needs a value", name)
		case !hasValue:
			value, rest = rest[0], rest[1:]
		}
		if err := c.flag(name, value); err != nil {
			return nil, err
		}
		args = rest
	}
	return nil, errors.New("the shell line after -- is missing")
}

func (c *containment) flag(name, value string) (err error) {
	switch name {
	case "--read":
		c.box.Read = append(c.box.Read, value)
	case "--write":
		c.box.Write = append(c.box.Write, value)
	case "--net":
		c.box.Net, c.box.Ports, err = parseNet(value)
	case "--root":
		c.line.Root = value
	case "--name":
		c.name = value
	case "--reason":
		c.reason = value
	default:
		err = fmt.Errorf("unknown flag %s", name)
	}
	return err
}

func parseNet(value string) (everywhere bool, ports []uint16, err error) {
	switch value {
	case "none":
		return false, nil, nil
	case "any":
		return true, nil, nil
	}
	for text := range strings.SplitSeq(value, ",") {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return false, nil, fmt.Errorf("--net %s: want none, any or a list of ports", value)
		}
		ports = append(ports, uint16(port))
	}
	return false, ports, nil
}

// contain runs a shell line in a sandbox and returns its exit code.
func contain(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c, err := parseContain(args)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "grapnel: error: %v\ngrapnel: hint: run \"grapnel-hook contain --help\"\n", err)
		return exitUsage
	case c.help:
		fmt.Fprint(stdout, containUsage)
		return 0
	}
	c.line.Stdin, c.line.Stdout, c.line.Stderr = stdin, stdout, stderr
	exit, err := c.box.Contain(&c.line)
	if err != nil {
		fmt.Fprintf(stderr, "grapnel: error: the command did not run, because %s requires a sandbox: %v\n", c.hook(), err)
		return exitFailure
	}
	if stoppable(exit) {
		fmt.Fprintln(stderr, c.note())
	}
	return exit
}

// stoppable reports whether the sandbox may be the cause of an exit code. Signals of other
// processes are not; the kernel sends SIGSYS for a forbidden system call.
func stoppable(exit int) bool {
	const signals, sigsys = 128, 31 // package syscall of Windows has no SIGSYS
	return exit > 0 && exit < signals || exit == signals+sigsys
}

func (c *containment) hook() string {
	if c.name == "" {
		return "its policy"
	}
	return fmt.Sprintf("the hook %q", c.name)
}

// note returns the line that a failed command writes after its own messages.
func (c *containment) note() string {
	reads, writes, example := append([]string{"the system's files"}, c.box.Read...), c.box.Write, ""
	switch {
	case c.line.Temp:
		writes, example = append([]string{"its TMPDIR"}, writes...), ", for example by writing to $TMPDIR"
	case len(writes) == 0:
		writes = []string{"nothing"}
	}
	net := "none"
	switch {
	case c.box.Net:
		net = "any"
	case len(c.box.Ports) > 0:
		net = "TCP ports " + strings.Trim(fmt.Sprint(c.box.Ports), "[]")
	}
	because := ""
	if c.reason != "" {
		because = " (" + wording.Shorten(strings.Join(strings.Fields(c.reason), " "), 500) + ")"
	}
	text := fmt.Sprintf("grapnel: this command ran in a sandbox of %s%s. It could read %s; write %s; network: %s. "+
		"If the sandbox made it fail, stay within these limits%s, or ask the user to run the command or to change the hook.",
		c.hook(), because, strings.Join(reads, ", "), strings.Join(writes, ", "), net, example)
	text = strings.NewReplacer(policyfile.ProjectRoot, cmp.Or(c.line.Root, "the project")).Replace(text)
	return policyfile.OneLine(text)
}
