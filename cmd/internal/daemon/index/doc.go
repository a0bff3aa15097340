// Package index reads the log of a place: the Records in its journal.
//
//	log := index.Log{State: place.State, Index: place.Index()}
//	for kept, err := range log.Read(ctx, index.Query{Text: "rm"}) {
//
// The journal has all Records. The index is a SQLite database that finds them by their fields and words, and
// has the counts of older ones. It may be behind, or missing: what it does not have is read from the journal,
// so results are always complete. It holds nothing that cannot be made again from the journal, and a damaged or
// missing one is made again.
//
// A daemon has an [Index], which follows the journal while no event arrives, because an index that is updated
// for each event would take more time than the event. All other programs only read.
//
// If an event has two answers with the same decision, the first line in the journal is its Record for every reader, see
// spool.Name. If retention removes that line and not the second, the second becomes the Record when the index is
// made again.
//
// Rows are numbered by their position in the journal, so a number stays the same when the index is made again.
package index
