package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/bundle"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/staging"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
)

func newBundle(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Sign a policy and bring it to many machines",
		Long: `Sign a policy, publish it on any HTTPS server, and let machines pull it as a managed policy.
A machine accepts only policies that are signed by its keys, newer than the last one, and not
expired. Signatures and keys have the format of minisign, which can make and verify them too.`,
		Example: "  grapnel bundle keygen\n  grapnel bundle sign policy.yaml\n  grapnel bundle verify policy.yaml --keys grapnel.pub",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBundleKeygen(c), newBundleSign(c), newBundleVerify(c), newBundlePull(c))
	return cmd
}

func newBundleKeygen(c *console) *cobra.Command {
	var name, passwordFile string
	var open bool
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a key pair that signs policies",
		Long: `Write a secret key to NAME.key, readable only for you, and its public key to NAME.pub. The
command never replaces a file. At a terminal it asks for a password, which encrypts the secret key.

Exit code 0: both files were written; 1: a file exists, or cannot be written.`,
		Example: "  grapnel bundle keygen\n  grapnel bundle keygen --out company-2 --password-file pw.txt",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if open && passwordFile != "" {
				return cli.Usage(errors.New("--no-password and --password-file cannot be used together"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			password, err := c.newPassword(passwordFile, open)
			if err != nil {
				return err
			}
			id, err := bundle.Generate(name, password)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "key %s: secret key in %s, public key in %s\n", id, printable.Line(name+".key"), printable.Line(name+".pub"))
			fmt.Fprintf(c.Out, "next: keep the secret key away from the server, copy the public key to %s on each machine, then \"grapnel bundle sign FILE --key %s\"\n", bundle.KeysFile(place), printable.Line(name+".key"))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "out", "grapnel", "`NAME` of the files, without .key and .pub")
	cmd.Flags().BoolVar(&open, "no-password", false, "do not encrypt the secret key")
	passwordFlag(cmd, &passwordFile)
	return cmd
}

func passwordFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "password-file", "", "read the password of the secret key from the first line of this `FILE`")
}

// newPassword returns the password of a new key; "" = not encrypted.
func (c *console) newPassword(file string, open bool) (string, error) {
	if open {
		return "", nil
	}
	ask := bundle.PasswordOf(&c.Console, file)
	password, err := ask()
	if err == nil && file == "" {
		var again string
		fmt.Fprintln(c.Err, "again, to find typing errors:")
		if again, err = ask(); err == nil && again != password {
			return "", errors.New("the two passwords differ")
		}
	}
	if err == nil && password == "" {
		err = cli.WithHint(errors.New("the password is empty"), "--no-password makes a key without encryption")
	}
	return password, err
}

func newBundleSign(c *console) *cobra.Command {
	var key, passwordFile, old string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "sign FILE",
		Short: "Check a policy and sign it",
		Long: `Check a policy like "grapnel check", and write its signature to FILE.minisig. The policy needs
"revision:" and "expires:". The signature is for the name of the file, too: publish it under
the same name.

--diff OLD refuses a revision that is not greater than the one of OLD. It shows the changed lines,
and re-evaluates the recorded events of this machine to show which verdicts change if the policy
replaces OLD as the signed policy.

Exit code 0: the policy was signed; 1: the policy, the key or the revision is wrong.`,
		Example: "  grapnel bundle sign policy.yaml --key grapnel.key\n  grapnel bundle sign policy.yaml --diff published.yaml --dry-run",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			data, err := c.checkBundle(place, args[0])
			if err != nil {
				return err
			}
			if old != "" {
				if err := c.compareBundle(cmd.Context(), place, args[0], data, old); err != nil {
					return err
				}
			}
			if dryRun {
				return nil
			}
			return c.sign(args[0], data, key, passwordFile)
		},
	}
	cmd.Flags().StringVar(&key, "key", "grapnel.key", "secret key in this `FILE`")
	passwordFlag(cmd, &passwordFile)
	cmd.Flags().StringVar(&old, "diff", "", "compare with this `OLD` policy, which the policy replaces")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check and compare without signing")
	cmd.ValidArgsFunction = completeYAML
	return cmd
}

// checkBundle reads a policy and prints its mistakes. It returns an error if one is serious. Files
// that the policy names may be on the machines only, so it is not loaded here.
func (c *console) checkBundle(place local.Place, file string) ([]byte, error) {
	data, err := files.Read(file, yaml.MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("cannot read the policy %s: %s", file, files.Reason(err))
	}
	all := check.File(file, place, false)
	if err := printChecked(c, all); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, check.Result.Bad) {
		return nil, cli.ErrFailed
	}
	return data, nil
}

// compareBundle shows the changes by a policy.
func (c *console) compareBundle(ctx context.Context, place local.Place, file string, data []byte, old string) error {
	before, err := files.Read(old, yaml.MaxSize+1)
	if err != nil {
		return fmt.Errorf("cannot read the policy before: %w", err)
	}
	if err := bundle.Replaces(file, data, before); err != nil {
		return err
	}
	c.printTextDiff(old, before, file, data)
	result, err := staging.Play(ctx, &records.Source{Console: &c.Console, Place: place}, &staging.Options{Place: place, Policy: file, Against: old, Managed: bundle.Active(place)})
	if err != nil {
		return err
	}
	return c.printReplay(result)
}

// sign writes the signature of a policy.
func (c *console) sign(file string, data []byte, key, passwordFile string) error {
	if err := c.notByAgent("sign a policy"); err != nil {
		return err
	}
	secret, err := bundle.ReadSecret(key, bundle.PasswordOf(&c.Console, passwordFile))
	if err != nil {
		return err
	}
	signed, err := bundle.Sign(secret, file, data, time.Now())
	if err != nil {
		return err
	}
	if err := files.WriteSync(file+bundle.Suffix, signed.Signature(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s %s\n", c.Paint(typeset.Green, "signed"), describeSigned(file, signed))
	fmt.Fprintf(c.Out, "next: publish %s and %s under these names\n", printable.Line(filepath.Base(file)), printable.Line(filepath.Base(file)+bundle.Suffix))
	return nil
}

func describeSigned(file string, s *bundle.Signed) string {
	return fmt.Sprintf("%s: revision %d, expires %s, key %s", printable.Line(file), s.Revision, s.Expires.Format(time.RFC3339), s.Key)
}

func newBundleVerify(c *console) *cobra.Command {
	var keys string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify the signature of a policy",
		Long: `Verify the signature in FILE.minisig, and that the policy has not expired. The public keys are the
ones of this machine, in /etc/grapnel/keys.pub, or of another file.

Exit code 0: the signature is valid; 1: it is not, or the policy has expired.`,
		Example: "  grapnel bundle verify policy.yaml --keys grapnel.pub\n  grapnel bundle verify /etc/grapnel/policy.d/signed.yaml --json",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			signed, err := bundle.Verify(place, keys, args[0], time.Now())
			if err != nil {
				return c.bundleFailure(err)
			}
			if c.JSON {
				return c.PrintJSON(signed)
			}
			fmt.Fprintf(c.Out, "%s %s\n", c.Paint(typeset.Green, "valid"), describeSigned(args[0], signed))
			return nil
		},
	}
	cmd.Flags().StringVar(&keys, "keys", "", "public keys in this `FILE` instead of the ones of this machine")
	cmd.ValidArgsFunction = completeYAML
	return c.jsonFlag(cmd)
}

// bundleFailure returns an error, and prints it as JSON if that is wanted.
func (c *console) bundleFailure(err error) error {
	if !c.JSON {
		return err
	}
	return errors.Join(err, c.PrintJSON(struct {
		Error string `json:"error"`
		Hint  string `json:"hint,omitempty"`
	}{err.Error(), cli.HintOf(err)}))
}

func newBundlePull(c *console) *cobra.Command {
	var networks, authorities []string
	cmd := &cobra.Command{
		Use:   "pull URL",
		Short: "Bring a signed policy from a server to this machine",
		Long: `Download a policy and its signature by HTTPS, and put the policy in force as a managed policy in
/etc/grapnel/policy.d/signed.yaml. Run the command as root, from a timer.

The policy must be signed by a key in /etc/grapnel/keys.pub, newer than the last one, not expired,
and valid for this version of Grapnel. Otherwise the last policy stays in force.

Exit code 0: the policy of the server is in force; 1: it is not.`,
		Example: "  grapnel bundle pull https://config.example.com/grapnel/policy.yaml\n  grapnel bundle pull https://10.1.2.3/policy.yaml --network 10.1.2.0/24 --ca /etc/ssl/corp.pem",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			guard, err := outbound.ParseGuard(networks)
			if err != nil {
				return cli.Usage(fmt.Errorf("--network: %w", err))
			}
			puller := &bundle.Puller{Place: place, Client: outbound.NewClient(&outbound.Options{Guard: guard, CA: authorities}), Now: time.Now, Wait: briefly}
			got, err := puller.Pull(cmd.Context(), args[0])
			if err != nil {
				return c.bundleFailure(err)
			}
			if c.JSON {
				return c.PrintJSON(got)
			}
			state := "is in force now"
			if !got.Changed {
				state = "is already in force"
			}
			fmt.Fprintf(c.Out, "revision %d %s: %s (expires %s, key %s)\n", got.Revision, state, printable.Line(got.File), got.Expires.Format(time.RFC3339), got.Key)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&networks, "network", nil, "private `NETWORK` or name of the server, such as 10.1.2.0/24 or *.corp.internal; repeatable")
	cmd.Flags().StringArrayVar(&authorities, "ca", nil, "trust the certificate authorities in this PEM `FILE`, too; repeatable")
	return c.jsonFlag(cmd)
}

// briefly waits until a server has probably replaced both of its files.
func briefly(ctx context.Context) error {
	select {
	case <-time.After(5 * time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
