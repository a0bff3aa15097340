// Package journal is one log that many processes write and many readers read. It knows lines, and nothing
// about what they say.
//
//	w := journal.Writer{Dir: dir}
//	_, err := w.Append([]byte(`{"id":"1"}`)) // one line, in one write
//
//	log, err := journal.Open(dir, time.Time{})
//	for _, s := range log.Segments() {
//		for line, err := range s.Lines(0) {
//
// # Files
//
// The log is a sequence of segments, 00000001.jsonl and so on. Processes append to the newest one. The first
// line of a segment is its header. Each further line is written with a newline before and behind it, so a
// line that was cut, because its process was killed or the disk was full, damages neither of its neighbors.
// Empty lines mean nothing. The last member of a line is a checksum of all before it: a line is complete if
// the checksum is right.
//
// # Who writes where
//
// A process takes a shared lock of the newest segment, looks whether there is a newer one meanwhile, and
// writes. A process that finds the segment too large or too old takes the exclusive lock, without waiting,
// and makes the next one. So a segment that has a successor is closed: its content is final. No file is
// renamed or replaced. A process does not write to a segment without a header: either another process is
// about to write it, or was killed before, and then the next segment is made.
//
// The locks end with their process. A process that is stopped while it holds the shared lock delays no
// append, only the next segment. One that is stopped while it makes the next segment delays appends by a
// tenth of a second; then another process makes it.
//
// # What is not here
//
// Records and their meaning are in package spool. The directory must be on a local disk. The files do not
// protect against a process of the same user.
package journal
