// Package outbound sends events to URLs, and guards every address that is dialled
// for it.
//
//	client := outbound.NewClient(nil)
//	defer client.Close(ctx)
//	hook, err := client.Webhook(outbound.Config{Name: "team", URL: "https://hooks.example.com/agents"})
//	spec := grapnel.Spec{Name: "team", Phase: grapnel.PhaseObserve, Hook: hook}
//
// A URL often comes with files that somebody else has written, and a request that
// leaves this machine can reach what nobody outside can: a service on loopback, a
// router, the address at which a cloud gives out credentials. So a [Guard] reads the
// URL strictly when a webhook is made, the [Client] looks the name up itself at each
// delivery and gives up if a single address is not public, and what is dialled is one
// of the addresses that were checked, which is checked once more. There is no proxy,
// no redirect and no way to switch the check of certificates off, and no second request
// on a connection unless a program that lives long asks for it with [Options].KeepIdle.
//
// A [Hook] asks a server and waits for its answer, which counts:
//
//	hook, err := client.Hook(outbound.HookConfig{Name: "policy", URL: "https://policy.example.com/v1/decide", Secrets: keys})
//	spec := grapnel.Spec{Name: "policy", On: kinds, Hook: hook, Timeout: 3 * time.Second, OnError: grapnel.OnErrorClosed}
//
// What a [Webhook] sends says that something happened, and not what: no prompt, no
// input and no output of a tool, no user.
//
// Client.Post sends any body that has an identity, signed, and returns the status.
//
// The package is no queue. What cannot be delivered is reported, and not tried again.
package outbound
