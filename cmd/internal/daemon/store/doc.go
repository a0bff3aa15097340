// Package store keeps Records, and the deliveries that hooks want, in one SQLite database:
//
//	s, err := store.Open(dir, nil)
//	err = s.Put(ctx, store.Item{Line: line, Jobs: jobs}) // survives this process
//	err = s.Sync()                                       // survives a power cut
//
// One process writes; any number read beside it, or without it, by [OpenReader]. Callers of
// [Store.Put] that wait at the same time share one commit, and callers of [Store.Sync] one
// flush of the disk.
//
// What belongs together is written together: a Record, the deliveries of its firing, and how
// far the file that it came from has been taken in. A [Store] is the queue of package deliver.
//
// Rows are chained by their hashes, and the end of the chain is kept in a file beside the
// database. [Reader.Verify] finds what was changed, removed or cut off by somebody who did
// not know of it, or did not take the trouble. It is no proof against a process of the same
// user: that can compute the chain anew from any row on and write the file, too. Evidence
// against it is a [Head] that was kept elsewhere. What retention removes is a row of the chain,
// too: see [Removal]. Deliveries and the index of words are not
// part of the chain.
//
// The package decides nothing about hooks and dials nothing.
package store
