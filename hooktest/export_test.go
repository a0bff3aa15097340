package hooktest

// Failure is failure, for tests outside of the package.
var Failure = failure
