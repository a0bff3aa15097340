// Package queue stores the deliveries that hooks request, in a database of their own:
//
//	q, err := queue.Open(dir, nil)
//	err = q.Put(ctx, jobs...) // survives this process
//	err = q.Flush()           // survives a power cut
//
// A [Queue] is a queue for package delivery. One process writes. Any number of processes can read at
// the same time, with or without a writer, by [OpenReader].
//
// The event of a job is not masked, so it is deleted as soon as the job is delivered. A dead job keeps
// its event for [Queue.Retry]. If the database is removed or damaged, the waiting deliveries are lost:
// [Queue.Condition] counts that.
package queue
