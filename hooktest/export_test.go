package hooktest

// For tests outside of the package.
var (
	Failure = failure
	Passed  = passed
)
