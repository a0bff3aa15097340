package answer

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/spool"
)

// startDrain starts this program once more, detached, to run the observing hooks
// that the answer left behind. What cannot be started now waits for the next event.
func startDrain(inv invocation) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"--drain"}
	switch {
	case inv.root != "":
		args = append(args, "--root", inv.root)
	case inv.id != "":
		args = append(args, "--id", inv.id)
	}
	return spool.StartDrain(self, args)
}

// drain runs what waits, until nothing is left.
func drain(inv invocation, stderr io.Writer) int {
	err := runPending(inv)
	if err != nil {
		fmt.Fprintf(stderr, "grapnel: error: drain: %v\n", err)
		return exitFailure
	}
	return 0
}

func runPending(inv invocation) error {
	place, err := Locate(inv.root, inv.id)
	if err != nil {
		return err
	}
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return err
	}
	err = sp.Drain(context.Background(), func(ctx context.Context, p spool.Pending) error {
		spec, err := findPending(place, p)
		if err != nil {
			return err
		}
		timeout := spec.Timeout
		if timeout == 0 {
			timeout = policy.DefaultTimeout
		}
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
		defer cancel()
		_, err = spec.Hook.Handle(ctx, p.Event)
		return err
	})
	return err
}

// findPending finds the hook as it was when it was put off: by the content of its
// file then, which is kept, not by what the file says now.
func findPending(place Place, p spool.Pending) (grapnel.Spec, error) {
	file := policy.File{Path: p.File, Must: true}
	if p.Scope == grapnel.ScopeProject.String() {
		trust, err := place.Trusts().Of(p.File)
		if err != nil {
			return grapnel.Spec{}, err
		}
		file.Scope, file.Trust = grapnel.ScopeProject, trust != nil // else a command line names it
	}
	req := place.Request([]policy.File{file}, runner(place))
	req.Frozen = map[string]string{p.File: p.Digest}
	set := policy.Load(req)
	for _, spec := range set.Specs {
		if spec.Name == p.Hook && spec.Source.Name == p.Source && spec.Source.Digest == p.Digest {
			return spec, nil
		}
	}
	return grapnel.Spec{}, fmt.Errorf("hook %q of %s is not to be found any more, put off at %s", p.Hook, p.Source, p.Time.Format(time.RFC3339))
}
