package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
)

func newRecord(c *console) *cobra.Command {
	s := &records.Recorder{Console: &c.Console}
	var asked logQuery
	cmd := &cobra.Command{
		Use:   "record [FILE...]",
		Short: "Create policy tests from recorded events",
		Long: `Read Records from this machine, or from files that "grapnel log --json" wrote, and write tests
of the policy: the event and the decision at that time. Secrets are masked; the project becomes
/repo and your home directory ~. Each test is run before it is written. A test that fails, because
the policy changed or the Record is incomplete, is skipped with a message.

Without -o, the tests are printed. An existing file gets only the tests that it does not have.

A Record becomes a test if a hook of the policy decided, changed the event, added context or failed,
or would have done so in observe mode; so do the calls directly before and after it in its session.
--all, --record, and flags that select events, include the others. Records with prompts or messages
of a person are included only with --prompts or --record. Programs and servers are not called: the
test contains their recorded answers.`,
		Example: "  grapnel record --session 8f2c -o grapnel_test.yaml\n" +
			"  grapnel record --since 1h --decision block --decision ask -o grapnel_test.yaml\n" +
			"  grapnel record --record 019f8d2b1c -o grapnel_test.yaml\n" +
			"  grapnel record -f -o grapnel_test.yaml        # while you work, until interrupted",
		RunE: func(cmd *cobra.Command, files []string) error {
			query, err := asked.query(cmd)
			if err != nil {
				return err
			}
			s.Files = files
			if err := s.Check(query); err != nil {
				return err
			}
			if s.Place, err = c.Place(); err != nil {
				return err
			}
			named := cmd.Flags().Changed("record")
			s.All = s.All || named || asked.selects(cmd)
			s.Prompts = s.Prompts || named
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return s.Run(ctx, query)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.Output, "output", "o", "-", "output `FILE`, NAME_test.yaml; - is standard output")
	flags.StringVar(&s.Policy, "policy", "", "policy `FILE` for a new test file (default: NAME.yaml, else your own policy)")
	flags.StringVar(&s.Record, "record", "", "only the record with this `ID`; see \"grapnel log\"")
	flags.IntVar(&s.Last, "last", 0, "only the newest `N` records")
	flags.BoolVarP(&s.Follow, "follow", "f", false, "continue with new events until interrupted")
	flags.BoolVar(&s.All, "all", false, "include Records that are not near a decision of a hook")
	flags.BoolVar(&s.Prompts, "prompts", false, "include prompts and messages of a person")
	asked.flags(cmd)
	return c.jsonFlag(cmd)
}
