package load

// AddChecksum and CheckChecksum are for tests that damage stored files.
var (
	AddChecksum   = addChecksum
	CheckChecksum = checkChecksum
)

// Tests change policies without waiting. A file is settling there only while its time is in the
// future.
func init() { settleTime = 0 }
