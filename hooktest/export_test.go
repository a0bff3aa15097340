package hooktest

// Exported for tests outside of the package.
var (
	Failure = failure
	Passed  = passed
)
