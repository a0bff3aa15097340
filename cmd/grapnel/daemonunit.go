package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

func newDaemonUnit(c *console) *cobra.Command {
	var systemd, launchd, write, allUsers bool
	var metrics string
	cmd := &cobra.Command{
		Use:   "unit",
		Short: "Print a systemd unit or launchd plist that starts the daemon at login",
		Long: `Print a unit for the user manager of systemd, or a property list for launchd on macOS. With
--write, Grapnel writes the file and prints the command that enables it:

  systemd  ~/.config/systemd/user/grapnel.service ($XDG_CONFIG_HOME is honored)
  launchd  ~/Library/LaunchAgents/dev.grapnel.daemon.plist

With --all-users, it is a unit for the system manager of systemd, for one daemon for all users:
/etc/systemd/system/grapnel.service.

The file contains the path of this program. Write it again after you move the program.`,
		Example: "  grapnel daemon unit\n  grapnel daemon unit --write && systemctl --user enable --now grapnel",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if systemd && launchd {
				return cli.Usage(errors.New("--systemd and --launchd cannot be used together"))
			}
			if allUsers && (launchd || c.Root != "") {
				return cli.Usage(errors.New("--all-users cannot be used with --launchd or --root"))
			}
			if write && c.Root != "" {
				return cli.Usage(cli.WithHint(errors.New("--write changes your home directory, which --root must not change"), "print the unit and save it yourself"))
			}
			var more []string
			if metrics != "" {
				more = []string{"--metrics", metrics}
			}
			if allUsers {
				more = append(more, control.AllUsers)
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			build := control.NewUnit
			switch {
			case systemd, allUsers:
				build = control.NewSystemdUnit
			case launchd:
				build = control.NewLaunchdUnit
			}
			u, err := build(place, c.Root, more...)
			if err != nil {
				return err
			}
			if !write {
				_, err := fmt.Fprint(c.Out, u.Text)
				return err
			}
			file, wrote, err := u.Write()
			if err != nil {
				return err
			}
			text := "wrote %s\nswitch it on: %s\n"
			if !wrote {
				text = "%s is current\nswitch it on: %s\n"
			}
			_, err = fmt.Fprintf(c.Out, text, printable.Line(file), u.On)
			return err
		},
	}
	cmd.Flags().BoolVar(&systemd, "systemd", false, "print a systemd unit (default except on macOS)")
	cmd.Flags().BoolVar(&launchd, "launchd", false, "print a launchd property list (default on macOS)")
	cmd.Flags().BoolVar(&allUsers, "all-users", false, "print a unit of the system that runs one daemon for all users")
	cmd.Flags().BoolVar(&write, "write", false, "write the file instead of printing it")
	metricsFlag(cmd, &metrics, "let the daemon serve metrics on this TCP `ADDR`, see \"grapnel serve\"")
	return cmd
}
