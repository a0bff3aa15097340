// Package delivery tells webhooks of events until they have heard.
//
//	d, err := delivery.New(queue, delivery.Options{Resolve: resolve, Client: client})
//	go d.Run(ctx)   // in a daemon
//	d.Wake()        // whenever jobs were added
//	d.Once(ctx)     // where no daemon runs: all that is due now
//
// What waits, and since when, is in a [Queue] on disk, so a program that dies loses
// nothing: a job ends when its receiver has answered with a 2xx and that is written
// down, or when the [Schedule] is over. A receiver may therefore hear of a job twice, and
// knows it again by its ID. Addresses and secrets are not kept; they are resolved for
// each try.
//
// The package decides when and how often, and in which words. How a server is reached,
// and which may not be, is that of package outbound.
package delivery
