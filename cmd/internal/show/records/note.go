package records

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// Own is the prefix of the event kinds of Grapnel's own Records, such as a pause or a grant. No hook
// receives these events.
const Own = grapnel.NativePrefix + "grapnel."

// Note adds a Record of Grapnel itself to the log of a place. event is the end of its kind.
func Note(place local.Place, event grapnel.Kind, text string) error {
	_, err := Put(place, event, grapnel.Record{Reasons: []grapnel.Reason{{Hook: "grapnel", Text: text, Cause: grapnel.CauseDecision}}})
	return err
}

// Put is Note for a Record with more than a text. It returns the ID of the Record.
func Put(place local.Place, event grapnel.Kind, note grapnel.Record) (id string, err error) {
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = sp.Close() }()
	return sp.Note(Own+event, note)
}
