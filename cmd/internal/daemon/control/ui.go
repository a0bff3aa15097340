package control

import (
	"context"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/local"
)

// Page asks the daemon of a place for a link to its browser page.
func Page(ctx context.Context, place local.Place) (link string, err error) {
	var reply struct{ Link string }
	err = post(ctx, client.Socket(place.State), "/v1/ui", struct{}{}, &reply)
	return reply.Link, err
}

// ConfirmBrowser lets the browser that shows a code approve calls, and returns the browser's
// description of itself.
func ConfirmBrowser(ctx context.Context, place local.Place, code string) (name string, err error) {
	var reply struct{ Browser string }
	err = post(ctx, client.Socket(place.State), "/v1/ui/confirm", map[string]string{"code": code}, &reply)
	return reply.Browser, err
}
