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
// # The chain
//
// The file manifest.jsonl has a line for each closed segment, with its SHA-256, for each removal by retention,
// and for each change of the limits. Each line has the hash of the line before. [Seal] and [Retire] add lines
// while they hold the lock of manifest.lock. No append waits for them, and none needs the manifest. A last line
// without a newline is the rest of a killed process, and the next one cuts it off. If any other line does not
// fit, nothing is sealed or removed any more, so that the evidence stays. Appends continue.
//
// A [Head] is the hash of the newest manifest line and of the first bytes of the first segment that is not
// sealed. So it covers all before. The file head has the newest one. It exists as soon as the manifest has a
// line. [Verify] compares the segments with the manifest and with heads.
//
//	n, err := journal.Seal(dir)
//	head, err := journal.ReadHead(dir) // store it elsewhere
//	report, err := journal.Verify(ctx, dir, journal.VerifyOptions{Heads: []journal.Head{head}})
//
// The lines of the open segment behind the newest head are protected by their checksums alone, which show
// damage, and no attacks. To Verify, such a line is torn.
//
// # Retention
//
// [Retire] removes whole segments, the oldest first, and states each removal before it removes a file. It counts
// only sealed segments. So Verify can check later that the limits were exceeded at that time. The manifest keeps
// the lines about removed segments: 400 bytes for each.
//
// # What is not here
//
// Records and their meaning are in package spool. The directory must be on a local disk. The files do not
// protect against a process of the same user, which can rebuild them all: only a head that was stored elsewhere
// shows that.
package journal
