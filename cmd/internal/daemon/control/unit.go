package control

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

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/local"
)

// NewUnit returns a unit for this system: for launchd on macOS, otherwise for systemd. more are further
// arguments of "grapnel serve".
func NewUnit(place local.Place, root string, more ...string) (Unit, error) {
	if runtime.GOOS == "darwin" {
		return NewLaunchdUnit(place, root, more...)
	}
	return NewSystemdUnit(place, root, more...)
}

// NewSystemdUnit returns a unit that runs this program: for systemd's user manager or, with AllUsers,
// for the machine.
func NewSystemdUnit(_ local.Place, root string, more ...string) (Unit, error) {
	args, err := serveArgs(root, more...)
	if err != nil {
		return Unit{}, err
	}
	if strings.ContainsAny(args[0], `"'\`) {
		return Unit{}, cli.WithHint(fmt.Errorf("systemd cannot run a program with a quote or a backslash in its path: %s", args[0]), "move the program to another directory")
	}
	if slices.Contains(more, AllUsers) {
		return systemUnit(args), checkArgs(args)
	}
	return systemdUnit(args), checkArgs(args)
}

// AllUsers is the argument of "grapnel serve" that makes the daemon one for all users.
const AllUsers = "--all-users"

// NewLaunchdUnit returns a property list for launchd that runs this program.
func NewLaunchdUnit(place local.Place, root string, more ...string) (Unit, error) {
	args, err := serveArgs(root, more...)
	if err != nil {
		return Unit{}, err
	}
	return launchdUnit(append(slices.Clip(args), "--log", service.File(place, "log"))), checkArgs(args)
}

// serveArgs returns the command line that starts a daemon with this program.
func serveArgs(root string, more ...string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return withRoot(append([]string{program, "serve"}, more...), root)
}

// checkArgs returns an error if an argument has a character that units cannot contain.
func checkArgs(args []string) error {
	if bad := slices.IndexFunc(args, func(a string) bool { return strings.ContainsFunc(a, isControl) }); bad >= 0 {
		return fmt.Errorf("%q contains a character that is not allowed in a unit", args[bad])
	}
	return nil
}

// isControl reports whether units cannot contain a character.
func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

// A Unit is the configuration of the daemon for a service manager.
type Unit struct {
	Text string
	file func() (string, error) // path of the unit
	On   string                 // how the user enables it
}

// systemdUnit returns a user unit.
func systemdUnit(args []string) Unit {
	return Unit{
		Text: unitText(args, "systemctl --user edit", "default.target", ""),
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
		On: "systemctl --user daemon-reload && systemctl --user enable --now grapnel",
	}
}

// systemUnit returns a unit of the machine.
func systemUnit(args []string) Unit {
	return Unit{
		Text: unitText(args, "systemctl edit", "multi-user.target", "RuntimeDirectory=grapnel\nStateDirectory=grapnel\n"),
		file: func() (string, error) { return "/etc/systemd/system/grapnel.service", nil },
		On:   "systemctl daemon-reload && systemctl enable --now grapnel",
	}
}

// unitText returns a unit for systemd that is part of a target. It deliberately leaves out the options
// that need a mount or user namespace: in a namespace, files of root seem to have the owner `nobody`,
// and some programs, for example ssh, then refuse their configuration. A user cannot write to system
// files anyway.
func unitText(args []string, edit, target, more string) string {
	words := []string{strings.ReplaceAll(systemdWord(args[0]), "$$", "$")} // systemd does not expand variables in the program path
	for _, a := range args[1:] {
		words = append(words, systemdWord(a))
	}
	return "# " + ourUnit + `
# The next --write overwrites changes in this file. Use: ` + edit + ` grapnel

[Unit]
Description=Grapnel, one policy for every AI agent
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
ExecStart=` + strings.Join(words, " ") + `
Restart=on-failure
RestartSec=1
# The daemon ends its workers itself; systemd kills the processes that remain.
KillMode=mixed
TimeoutStopSec=30
` + more + `
# The daemon starts workers and calls the servers that policies name, so files and network
# stay accessible. ProtectSystem, ProtectHome, PrivateTmp and similar options put the daemon
# into a user namespace, where files of root seem to have no owner and programs such as ssh
# refuse them. Add the options if your workers run with them.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native

[Install]
WantedBy=` + target + `
`
}

// systemdWord quotes a word for the command line of a unit, so that it contains no specifier,
// variable or quote, and stays one word.
func systemdWord(word string) string {
	word = strings.NewReplacer(`%`, `%%`, `$`, `$$`, `\`, `\\`, `"`, `\"`).Replace(word)
	if word == "" || strings.ContainsAny(word, " '\\\";") {
		return `"` + word + `"`
	}
	return word
}

// launchdUnit returns a property list for an agent of the user.
func launchdUnit(args []string) Unit {
	var words strings.Builder
	for _, a := range args {
		var b bytes.Buffer
		_ = xml.EscapeText(&b, []byte(a)) // writing to a Buffer never fails
		fmt.Fprintf(&words, "\t\t<string>%s</string>\n", b.String())
	}
	return Unit{
		Text: `<?xml version="1.0" encoding="UTF-8"?>
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
		On: "launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/dev.grapnel.daemon.plist",
	}
}

// ourUnit is in every unit that Grapnel writes, so that it does not replace other units.
const ourUnit = "Written by: grapnel daemon unit"

// Write writes a unit to its path, and returns the path. It does not write a unit that is already
// up to date.
func (u Unit) Write() (file string, wrote bool, err error) {
	file, err = u.file()
	if err != nil {
		return "", false, fmt.Errorf("cannot write the unit: %w", err)
	}
	old, err := os.ReadFile(file)
	switch {
	case err == nil && string(old) == u.Text:
		return file, false, nil
	case err == nil && !bytes.Contains(old, []byte(ourUnit)):
		return "", false, cli.WithHint(fmt.Errorf("%s already exists and was not created by Grapnel", file), "move the file to another directory, or print the unit and install it yourself")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("cannot write the unit: %w", err)
	}
	err = os.MkdirAll(filepath.Dir(file), 0o755) //nolint:security // the same mode as the service managers use
	if err == nil {
		err = files.Write(file, []byte(u.Text), 0o644)
	}
	if err != nil {
		return "", false, fmt.Errorf("cannot write the unit: %w", err)
	}
	return file, true, nil
}
