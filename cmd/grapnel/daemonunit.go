package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/atomicfile"
)

func newDaemonUnit(c *console) *cobra.Command {
	var systemd, launchd, write bool
	cmd := &cobra.Command{
		Use:   "unit",
		Short: "Print what systemd or launchd want, to run the daemon from when you log in",
		Long: `Prints a unit for systemd's user manager, or a property list for launchd on macOS. With
--write it goes to where they look for it, and it is said how to switch it on:

  systemd  ~/.config/systemd/user/grapnel.service ($XDG_CONFIG_HOME counts)
  launchd  ~/Library/LaunchAgents/dev.grapnel.daemon.plist

It names this program by its path: write it again once that has moved.`,
		Example: "  grapnel daemon unit\n  grapnel daemon unit --write && systemctl --user enable --now grapnel",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if systemd && launchd {
				return cli.Usage(errors.New("--systemd and --launchd exclude each other"))
			}
			if write && c.Root != "" {
				return cli.Usage(cli.WithHint(errors.New("--write writes into your home directory, and with --root nothing there is touched"), "print it, and put it where you want it"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			args := []string{program, "serve"}
			if c.Root != "" {
				root, err := filepath.Abs(c.Root)
				if err != nil {
					return err
				}
				args = append(args, "--root", root)
			}
			u := systemdUnit(args)
			if launchd || runtime.GOOS == "darwin" && !systemd {
				u = launchdUnit(append(args, "--log", daemonFile(place, "log")))
			} else if strings.ContainsAny(program, `"'\`) {
				return cli.WithHint(fmt.Errorf("systemd runs no program that has a quote or a backslash in its path: %s", program), "move it")
			}
			if bad := slices.IndexFunc(args, func(a string) bool { return strings.ContainsFunc(a, control) }); bad >= 0 {
				return fmt.Errorf("%q has a character that no unit can hold", args[bad])
			}
			if !write {
				_, err := fmt.Fprint(c.Out, u.text)
				return err
			}
			return c.writeUnit(u)
		},
	}
	cmd.Flags().BoolVar(&systemd, "systemd", false, "for systemd's user manager; the default but on macOS")
	cmd.Flags().BoolVar(&launchd, "launchd", false, "for launchd; the default on macOS")
	cmd.Flags().BoolVar(&write, "write", false, "write it to where it belongs, instead of printing it")
	return cmd
}

func control(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

// A unit is what a service manager reads.
type unit struct {
	text string
	file func() (string, error) // where it belongs
	on   string                 // how it is switched on
}

// systemdUnit is a unit of a user. What would need a mount or user namespace is left out
// with purpose: in one, files of root seem to be nobody's, and ssh, for one, refuses its own
// settings then. A user cannot write to the system's files anyway.
func systemdUnit(args []string) unit {
	words := []string{strings.ReplaceAll(systemdWord(args[0]), "$$", "$")} // in the program no variable is looked for
	for _, a := range args[1:] {
		words = append(words, systemdWord(a))
	}
	return unit{
		text: "# " + ourUnit + `
# What you change here is lost at the next --write: systemctl --user edit grapnel

[Unit]
Description=Grapnel, one policy for every AI agent
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
ExecStart=` + strings.Join(words, " ") + `
Restart=on-failure
RestartSec=1
# It ends its workers itself; what is left then is killed.
KillMode=mixed
TimeoutStopSec=20

# Workers and servers that policies name are reached from here, so files and network stay
# open to them. ProtectSystem, ProtectHome, PrivateTmp and the like would put the daemon into
# a user namespace, where files of root seem to be nobody's and programs such as ssh refuse
# them; add them if no worker of yours minds.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native

[Install]
WantedBy=default.target
`,
		file: func() (string, error) {
			config := os.Getenv("XDG_CONFIG_HOME")
			if !filepath.IsAbs(config) {
				home, err := os.UserHomeDir()
				if err != nil {
					return "", err
				}
				config = filepath.Join(home, ".config")
			}
			return filepath.Join(config, "systemd", "user", "grapnel.service"), nil
		},
		on: "systemctl --user daemon-reload && systemctl --user enable --now grapnel",
	}
}

// systemdWord is a word of a command line of a unit: nothing in it is a specifier, a
// variable, a quote or the end of the word.
func systemdWord(word string) string {
	word = strings.NewReplacer(`%`, `%%`, `$`, `$$`, `\`, `\\`, `"`, `\"`).Replace(word)
	if word == "" || strings.ContainsAny(word, " '\\\";") {
		return `"` + word + `"`
	}
	return word
}

// launchdUnit is a property list of a user's agent.
func launchdUnit(args []string) unit {
	var words strings.Builder
	for _, a := range args {
		var b bytes.Buffer
		_ = xml.EscapeText(&b, []byte(a)) // a Buffer takes all
		fmt.Fprintf(&words, "\t\t<string>%s</string>\n", b.String())
	}
	return unit{
		text: `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ` + ourUnit + ` -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>dev.grapnel.daemon</string>
	<key>ProgramArguments</key>
	<array>
` + words.String() + `	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ExitTimeOut</key>
	<integer>20</integer>
</dict>
</plist>
`,
		file: func() (string, error) {
			home, err := os.UserHomeDir()
			return filepath.Join(home, "Library", "LaunchAgents", "dev.grapnel.daemon.plist"), err
		},
		on: "launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/dev.grapnel.daemon.plist",
	}
}

// ourUnit is in every unit that is written, so that none of others is replaced.
const ourUnit = "Written by: grapnel daemon unit"

// writeUnit puts a unit where it belongs.
func (c *console) writeUnit(u unit) error {
	file, err := u.file()
	if err != nil {
		return fmt.Errorf("cannot write the unit: %w", err)
	}
	old, err := os.ReadFile(file)
	switch {
	case err == nil && string(old) == u.text:
		_, err = fmt.Fprintf(c.Out, "%s is current\nswitch it on: %s\n", printable.Line(file), u.on)
		return err
	case err == nil && !bytes.Contains(old, []byte(ourUnit)):
		return cli.WithHint(fmt.Errorf("%s is there, and not from here", file), "move it away, or print the unit and put it where you want it")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot write the unit: %w", err)
	}
	err = os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // as the service managers make it
	if err == nil {
		err = atomicfile.Write(file, []byte(u.text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("cannot write the unit: %w", err)
	}
	_, err = fmt.Fprintf(c.Out, "wrote %s\nswitch it on: %s\n", printable.Line(file), u.on)
	return err
}
