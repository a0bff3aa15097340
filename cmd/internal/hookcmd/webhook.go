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
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Delivery is one event for one webhook, or the question whether the webhook is allowed. "grapnel
// deliver" reads it.
type Delivery struct {
	Webhook policyfile.Webhook `json:"webhook"`
	policyfile.Reach
	Event json.RawMessage `json:"event,omitempty"` // the JSON form of package wire, with its origin
	Check bool            `json:"check,omitempty"` // only check the webhook
}

// webhookHook returns the hook that delivers events to a webhook. It starts the program grapnel,
// because network packages would slow down each start of grapnel-hook.
func webhookHook(place local.Place, w policyfile.Webhook) grapnel.Hook {
	return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		self, err := os.Executable()
		if err != nil {
			return grapnel.Outcome{}, err
		}
		return grapnel.Outcome{}, send(ctx, place, self, w, ev)
	})
}

// A WebhookCheck returns an error if a webhook's address or a header is forbidden. It dials
// nothing.
type WebhookCheck func(w policyfile.Webhook, reach policyfile.Reach) error

// checkedWebhook is webhookHook for an address that look permits; without look, that the program
// grapnel permits.
func checkedWebhook(place local.Place, w policyfile.Webhook, look WebhookCheck) (grapnel.Hook, error) {
	var err error
	switch {
	case look == nil:
		err = askedOnce(place, w, grapnelProgram)
	case look(w, policyfile.Reach{}) != nil: // reading the policies takes time, and few webhooks need them
		err = look(w, place.Reach())
	}
	if err != nil {
		return nil, err
	}
	return webhookHook(place, w), nil
}

// maxAllowed limits the stored answers about webhooks. Each edit of a webhook adds one.
const maxAllowed = 256

// askedOnce returns an error if the program grapnel forbids a webhook. That depends only on the webhook
// and on the servers that the policies open, so the state directory has an empty file for each webhook that is allowed. A
// forged file opens nothing, because the delivery checks again. A refusal is not stored, because a
// forged one could take away a webhook.
func askedOnce(place local.Place, w policyfile.Webhook, program func() (string, error)) error {
	ask := Delivery{Webhook: w, Check: true}
	dir := filepath.Join(place.State, "webhooks")
	_, file, err := allowedFile(dir, ask)
	if err != nil || files.Exists(file) {
		return err
	}
	ask.Reach = place.Reach()
	question, file, err := allowedFile(dir, ask)
	if err != nil || files.Exists(file) {
		return err
	}
	path, err := program()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), checkTime, fmt.Errorf("%w of %v", grapnel.ErrTimeout, checkTime))
	defer cancel()
	switch reply, err := runDeliver(ctx, path, w.Name, question); {
	case err != nil:
		return err
	case reply.Error != "":
		return errors.New(reply.Error)
	}
	if old, err := os.ReadDir(dir); err == nil && len(old) >= maxAllowed {
		_ = os.RemoveAll(dir)
	}
	if os.MkdirAll(dir, 0o700) == nil {
		_ = files.Write(file, nil, 0o600) // otherwise the next event asks again
	}
	return nil
}

// allowedFile returns the file that marks a webhook as allowed, and the question about it.
func allowedFile(dir string, ask Delivery) (question []byte, file string, err error) {
	question, err = json.Marshal(ask)
	return question, filepath.Join(dir, files.Digest(question)), err
}

// checkTime is the maximum time of a check, which is the start of a program.
const checkTime = 10 * time.Second

// sendTime is the maximum time of a delivery: the longest timeout of a webhook, which the program
// enforces itself, and the start of the program.
const sendTime = 40 * time.Second

// send runs the program grapnel in the directory of this program to deliver an event.
func send(ctx context.Context, place local.Place, self string, w policyfile.Webhook, ev *grapnel.Event) error {
	program, err := beside(self)
	if err != nil {
		return err
	}
	reach := place.Reach()
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, fmt.Errorf("%w of %v", grapnel.ErrTimeout, sendTime))
	defer cancel()
	event, err := rawjson.Marshal(wire.Of(ev))
	if err == nil {
		event, err = wire.Originated(event, wire.OriginFrom(ctx))
	}
	if err != nil {
		return err
	}
	text, err := rawjson.Marshal(Delivery{Webhook: w, Reach: reach, Event: event})
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
