// Package store keeps Records in one SQLite database:
//
//	s, err := store.Open(dir, nil)
//	err = s.Put(ctx, store.Item{Line: line}) // survives this process
//	err = s.Sync()                           // survives a power cut
//
// One process writes. Any number of processes can read at the same time, with or without a
// writer, by [OpenReader]. Concurrent calls of [Store.Put] share one commit, and concurrent calls
// of [Store.Sync] share one flush of the disk.
//
// A Record and the position in the file that it came from are written in one commit.
//
// Rows are chained by their hashes, and the head of the chain is stored in a file next to the
// database. [Reader.Verify] finds rows that were changed, removed or cut off without an update of
// the chain. The chain does not protect against a process of the same user: such a process can
// recompute the chain from any row on and rewrite the file. To detect that, keep a [Head] in
// another place. A removal by retention is also a row of the chain: see [Removal]. The word index
// is not part of the chain.
//
// The package makes no decisions about hooks and opens no network connections.
package store
