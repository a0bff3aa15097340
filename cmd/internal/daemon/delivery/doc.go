// Package delivery delivers events to webhooks, and retries until they succeed.
//
//	d, err := delivery.New(queue, delivery.Options{Resolve: resolve, Client: client})
//	go d.Run(ctx)   // in a daemon
//	d.Wake()        // whenever jobs were added
//	d.Once(ctx)     // where no daemon runs: all that is due now
//
// The pending jobs and their times are in a [Queue] on disk, so a program that is killed loses
// nothing: a job ends when its receiver has replied with a 2xx and the queue has stored that, or
// when the schedule of package webhook has ended. A receiver may therefore get a job twice, and can
// recognize it by its ID. Addresses and secrets are not stored; they are resolved for each attempt.
//
// The package decides when, how often and in which format to deliver. Package outbound makes the
// connections and decides which servers may be reached.
package delivery
