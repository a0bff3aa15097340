// Package outbound sends events to URLs and checks every address before it connects.
//
//	client := outbound.NewClient(nil)
//	defer client.Close(ctx)
//	hook, err := client.Webhook(outbound.Config{Name: "team", URL: "https://hooks.example.com/agents"})
//	spec := grapnel.Spec{Name: "team", Phase: grapnel.PhaseObserve, Hook: hook}
//
// The URL often comes from files that other people wrote, and a request from this machine can
// reach services that are not reachable from outside: a service on loopback, a router, or the
// metadata service of a cloud, which returns credentials. Therefore a [Guard] parses the URL
// strictly when a webhook is created. At each delivery, the [Client] looks up the name itself and
// fails if a single address is not public. It connects only to one of the checked addresses, and
// checks that address again. It uses no proxy, follows no redirects and always verifies
// certificates. It sends a second request on a connection only if a long-running program sets
// [Options].KeepIdle.
//
// A [Hook] sends an event to a server and uses the response as its Outcome:
//
//	hook, err := client.Hook(outbound.HookConfig{Name: "policy", URL: "https://policy.example.com/v1/decide", Secrets: keys})
//	spec := grapnel.Spec{Name: "policy", On: kinds, Hook: hook, Timeout: 3 * time.Second, OnError: grapnel.OnErrorClosed}
//
// A [Webhook] sends only a notification that an event happened. It contains no prompt, no tool
// input or output, and no user.
//
// Client.Post sends any body with an ID, signed, and returns the response status. Client.Mail sends an
// e-mail.
//
// The package has no queue. A failed delivery is reported and not retried.
package outbound
