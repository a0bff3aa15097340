package doctor

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
)

// A target that refuses deliveries is a warning with the command that shows more.
func TestJudgeDeliveries(t *testing.T) {
	t.Parallel()
	got := judgeDeliveries(&facts{refused: []queue.Refusal{
		{Target: "/home/ann/grapnel.yaml::slack", Status: 400, Error: "hooks.slack.com answered with status 400: no_text"},
		{Target: "team", Status: 410, Error: "it accepts no more deliveries", Off: true},
	}})
	const why = "it does not get the events; Slack, Teams and ntfy need body: slack, teams or ntfy"
	want := []Finding{
		{ID: "notify.refused", Level: Warn, Subject: "/home/ann/grapnel.yaml::slack", What: "hook /home/ann/grapnel.yaml::slack: its target refuses deliveries: hooks.slack.com answered with status 400: no_text", Why: why, Hint: "grapnel deliveries test slack"},
		{ID: "notify.refused", Level: Warn, Subject: "team", What: "hook team: its target refuses deliveries: it accepts no more deliveries", Why: why, Hint: "grapnel deliveries on team"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := judgeDeliveries(&facts{refusedErr: errors.New("locked")}); len(got) != 1 || got[0].Level != Warn || judgeDeliveries(&facts{}) != nil {
		t.Errorf("%+v", got)
	}
}
