package hookcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
)

// A Delivery is one event for one webhook: what "grapnel deliver" reads.
type Delivery struct {
	Webhook  hookfiles.Webhook `json:"webhook"`
	Networks []string          `json:"networks,omitempty"` // that were opened; see [Place.Networks]
	Event    *grapnel.Event    `json:"event"`
}

// webhookHook tells a webhook of events. grapnel-hook cannot do that itself: what
// connects to a server would make every start of it slower.
func webhookHook(place local.Place, w hookfiles.Webhook) grapnel.Hook {
	return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		self, err := os.Executable()
		if err != nil {
			return grapnel.Outcome{}, err
		}
		return grapnel.Outcome{}, send(ctx, place, self, w, ev)
	})
}

// sendTime is how long a delivery may take at most: as long as the longest timeout of a
// webhook, which the program keeps itself, and what its start takes.
const sendTime = 40 * time.Second

// send lets the program grapnel that lies beside this one deliver an event.
func send(ctx context.Context, place local.Place, self string, w hookfiles.Webhook, ev *grapnel.Event) error {
	program, err := beside(self)
	if err != nil {
		return err
	}
	networks := place.Networks()
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, fmt.Errorf("%w of %v", grapnel.ErrTimeout, sendTime))
	defer cancel()
	text, err := json.Marshal(Delivery{w, networks, ev})
	if err != nil {
		return err
	}
	_, err = runDeliver(ctx, program, w.Name, text)
	return err
}

// beside returns the program grapnel in the directory of this one, or this one if it is
// that. No other is looked for: what PATH leads to is an agent's to say.
func beside(self string) (string, error) {
	ext := ""
	if strings.EqualFold(filepath.Ext(self), ".exe") {
		ext = filepath.Ext(self)
	}
	program := filepath.Join(filepath.Dir(self), "grapnel"+ext)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("the program grapnel is needed for that, and it is not beside this one: %w (install grapnel and grapnel-hook into the same directory)", err)
	}
	return program, nil
}
