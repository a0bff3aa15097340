package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/records"
)

func newRecord(c *console) *cobra.Command {
	s := &records.Recorder{Console: &c.Console}
	var asked logQuery
	cmd := &cobra.Command{
		Use:   "record [FILE...]",
		Short: "Make tests of what happened",
		Long: "Reads Records, of what was kept here or of files that \"grapnel log --json\" wrote, and\n" +
			"writes tests of the policy: what happened, and what was decided then. Secrets are\n" +
			"masked; the project becomes /repo and your home directory ~. Each test is tried before\n" +
			"it is written. One that does not hold, because the policy is another one now or the\n" +
			"Record does not hold all of the event, says so and is skipped.\n\n" +
			"Without -o the tests are written to standard output. A file that is there gets those\n" +
			"that it does not have, and stays as it is otherwise.\n\n" +
			"Calls, prompts and permissions are taken, and of the rest that of which a hook of the\n" +
			"policy had something to say; --all takes everything. Nothing is run or asked: what\n" +
			"programs and servers answered then stands in the test.",
		Example: "  grapnel record --session 8f2c -o grapnel_test.yaml\n" +
			"  grapnel record --since 1h --decision block --decision ask -o grapnel_test.yaml\n" +
			"  grapnel record --record 019f8d2b1c7a4e55a0c1b2d3e4f5 -o grapnel_test.yaml\n" +
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
			s.All = s.All || cmd.Flags().Changed("event")
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return s.Run(ctx, query)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.Output, "output", "o", "-", "write to this `FILE`, NAME_test.yaml; - is standard output")
	flags.StringVar(&s.Policy, "policy", "", "the policy that a new file tests (default: NAME.yaml beside it, or else your own)")
	flags.StringVar(&s.Record, "record", "", "only the Record with this `ID`")
	flags.IntVar(&s.Last, "last", 0, "only the youngest `N` Records")
	flags.BoolVarP(&s.Follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	flags.BoolVar(&s.All, "all", false, "also what no hook had anything to say of")
	asked.flags(cmd)
	return c.jsonFlag(cmd)
}
