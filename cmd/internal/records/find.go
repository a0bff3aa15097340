package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
)

// maxNamed is how many Records an error about an ambiguous ID names.
const maxNamed = 5

// FindID returns the ID of the only Record of a log whose ID begins with a prefix. An ID that is
// complete is never ambiguous.
func FindID(ctx context.Context, log store.Log, prefix string) (string, error) {
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
