package hookcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/readfile"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
)

// A Delivery is one event for one webhook, or the question whether the webhook is allowed. "grapnel
// deliver" reads it.
type Delivery struct {
	Webhook  hookfiles.Webhook `json:"webhook"`
	Networks []string          `json:"networks,omitempty"` // private networks that are allowed; see [Place.Networks]
	Event    *grapnel.Event    `json:"event,omitempty"`
	Check    bool              `json:"check,omitempty"` // only check the webhook
}

// webhookHook returns the hook that delivers events to a webhook. It starts the program grapnel,
// because network packages would slow down each start of grapnel-hook.
func webhookHook(place local.Place, w hookfiles.Webhook) grapnel.Hook {
	return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		self, err := os.Executable()
		if err != nil {
			return grapnel.Outcome{}, err
		}
		return grapnel.Outcome{}, send(ctx, place, self, w, ev)
	})
}

// A WebhookCheck returns an error if a webhook's address or a header is forbidden. networks are the
// private networks that are allowed. It dials nothing.
type WebhookCheck func(w hookfiles.Webhook, networks []string) error

// checkedWebhook is webhookHook for an address that look permits; without look, that the program
// grapnel permits.
func checkedWebhook(place local.Place, w hookfiles.Webhook, look WebhookCheck) (grapnel.Hook, error) {
	if look == nil {
		look = askedOnce(place, grapnelProgram)
	}
	if look(w, nil) != nil { // reading the networks takes time, and few webhooks need them
		if err := look(w, place.Networks()); err != nil {
			return nil, err
		}
	}
	return webhookHook(place, w), nil
}

// maxChecks limits the stored answers about webhooks. Each edit of a webhook adds one.
const maxChecks = 256

// askedOnce returns a check by the program grapnel. The answer depends only on the webhook and on the
// networks, so it is stored in the state directory, in a file for each content: the error, or nothing.
// A changed file opens nothing, because the delivery checks again.
func askedOnce(place local.Place, program func() (string, error)) WebhookCheck {
	return func(w hookfiles.Webhook, networks []string) error {
		question, err := json.Marshal(Delivery{Webhook: w, Networks: networks, Check: true})
		if err != nil {
			return err
		}
		dir := filepath.Join(place.State, "webhooks")
		kept := filepath.Join(dir, digest.Of(question))
		text, err := readfile.Regular(kept, maxServerReply)
		if err != nil {
			if text, err = askWebhook(program, question, w.Name); err != nil {
				return err
			}
			if old, err := os.ReadDir(dir); err == nil && len(old) >= maxChecks {
				_ = os.RemoveAll(dir)
			}
			if os.MkdirAll(dir, 0o700) == nil {
				_ = atomicfile.Write(kept, text, 0o600) // otherwise the next event asks again
			}
		}
		if len(text) > 0 {
			return errors.New(string(text))
		}
		return nil
	}
}

// askWebhook returns the answer of the program grapnel: the reason why a webhook is forbidden, or
// nothing.
func askWebhook(program func() (string, error), question []byte, name string) ([]byte, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), checkTime, fmt.Errorf("%w of %v", grapnel.ErrTimeout, checkTime))
	defer cancel()
	reply, err := runDeliver(ctx, path, name, question)
	return []byte(reply.Error), err
}

// checkTime is the maximum time of a check, which is the start of a program.
const checkTime = 10 * time.Second

// sendTime is the maximum time of a delivery: the longest timeout of a webhook, which the program
// enforces itself, and the start of the program.
const sendTime = 40 * time.Second

// send runs the program grapnel in the directory of this program to deliver an event.
func send(ctx context.Context, place local.Place, self string, w hookfiles.Webhook, ev *grapnel.Event) error {
	program, err := beside(self)
	if err != nil {
		return err
	}
	networks := place.Networks()
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, fmt.Errorf("%w of %v", grapnel.ErrTimeout, sendTime))
	defer cancel()
	text, err := json.Marshal(Delivery{Webhook: w, Networks: networks, Event: ev})
	if err != nil {
		return err
	}
	_, err = runDeliver(ctx, program, w.Name, text)
	return err
}

// beside returns the path of the program grapnel in the directory of this program, which may be
// this program itself. It does not search PATH, because an agent can control PATH.
func beside(self string) (string, error) {
	ext := ""
	if strings.EqualFold(filepath.Ext(self), ".exe") {
		ext = filepath.Ext(self)
	}
	program := filepath.Join(filepath.Dir(self), "grapnel"+ext)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("the program grapnel is missing in the directory of grapnel-hook: %w (install both into the same directory)", err)
	}
	return program, nil
}
