package records

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// maxNamed is how many Records an error about an ambiguous ID names.
const maxNamed = 5

// Last names the newest Record instead of an ID.
const Last = "last"

// FindID returns the ID of the only Record of a log whose ID begins with a prefix, or of the newest
// Record of an agent's event for [Last]. An ID that is complete is never ambiguous.
func FindID(ctx context.Context, log index.Log, prefix string) (string, error) {
	if prefix == Last {
		return newest(ctx, log)
	}
	ids := log.IDs(ctx)
	defer ids.Close()
	found, err := ids.Find(ctx, prefix, maxNamed+1)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0 || prefix == "":
		return "", noRecord(prefix)
	case len(found) > 1 && found[0] != prefix:
		for i, id := range found {
			found[i] = ids.Short(ctx, id)
		}
		return "", ambiguous(prefix, found)
	}
	return found[0], nil
}

// newest returns the ID of the newest Record of an agent's event.
func newest(ctx context.Context, log index.Log) (id string, err error) {
	for _, since := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(-24 * time.Hour), {}} { // in most cases it is recent
		for k, err := range log.Read(ctx, index.Query{Filter: spool.Filter{Since: since}, Lean: true}) {
			if err == nil && !k.Late && !strings.HasPrefix(string(k.Entry.Record.Event), Own) {
				id = k.ID
			}
		}
		if id != "" {
			return id, nil
		}
	}
	return "", cli.WithHint(errors.New("no event is recorded"), "\"grapnel doctor\" checks that the agents use the hooks")
}

// Names reports whether a text could name a Record: as Last, or as the beginning of an ID.
func Names(text string) bool {
	return text == Last || len(text) >= 4 && strings.Trim(text, "0123456789abcdef-") == ""
}

func noRecord(id string) error {
	err := fmt.Errorf("no record %s found", printable.Line(id))
	if id == "" {
		err = errors.New("the ID of a record is empty")
	}
	return cli.WithHint(err, "\"grapnel log\" lists records with their IDs")
}

// ambiguous returns the error for a prefix of several IDs.
func ambiguous(prefix string, ids []string) error {
	count := printable.Count(len(ids), "record")
	if len(ids) > maxNamed {
		count, ids = fmt.Sprintf("more than %d records", maxNamed), ids[:maxNamed]
	}
	return cli.WithHint(fmt.Errorf("the ID %s is ambiguous: %s begin with it", printable.Line(prefix), count), "use more digits: "+printable.Line(strings.Join(ids, ", ")))
}
