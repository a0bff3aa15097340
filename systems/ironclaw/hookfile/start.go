package hookfile

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// AuditLogName and AuditLogPriority are the name and priority of IronClaw's own audit hook.
const (
	AuditLogName     = "builtin.audit_log"
	AuditLogPriority = 25
)

// AuditLog returns the Spec of IronClaw's audit: a step that runs before the others, never has an
// opinion, and writes the hook, the point and the user. The point is IronClaw's name of the event:
// beforeToolCall. It runs before the decision; use [builtin.Audit] to record decisions.
func AuditLog(write func(line []byte) error) grapnel.Spec {
	spec := grapnel.Spec{Name: AuditLogName, Priority: AuditLogPriority - policyfile.DefaultPriority, OnError: grapnel.OnErrorOpen}
	points := map[grapnel.Kind]string{}
	for _, row := range dialect.IronClawEvents() {
		spec.On = append(spec.On, row.Kind)
		points[row.Kind] = row.Native
	}
	spec.Hook = grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		line, err := json.Marshal(struct {
			Hook  string `json:"hook"`
			Point string `json:"point"`
			User  string `json:"user_id"`
		}{AuditLogName, points[ev.Kind], wording.Shorten(ev.Session.User, 256)})
		if err != nil {
			return grapnel.Outcome{}, err
		}
		return grapnel.Outcome{}, write(append(line, '\n'))
	})
	return spec
}

// auditLogFile is the file of the audit in the state directory.
const auditLogFile = "ironclaw-audit.jsonl"

// start returns the hooks that IronClaw itself registers at its start: the audit and, if wanted, the
// session summary. They write below the directory, which they make.
func start(dir string, summary bool) []grapnel.Spec {
	audit := AuditLog(func(line []byte) error {
		return errors.Join(os.MkdirAll(dir, 0o700), builtin.Lines(dir, auditLogFile)(line))
	})
	audit.Hook = builtin.LineWriter(audit.Hook)
	if !summary {
		return []grapnel.Spec{audit}
	}
	write := func(ctx context.Context, ev *grapnel.Event, file, text string) error {
		return errors.Join(os.MkdirAll(dir, 0o700), builtin.InDir(dir)(ctx, ev, file, text))
	}
	return []grapnel.Spec{audit, builtin.SessionSummary(builtin.Conversations{Newest: builtin.Transcript}, builtin.Prompts, write)}
}
