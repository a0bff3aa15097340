package store

// OpenUnsafe opens a store that does not wait for the disk, for tests that open many.
func OpenUnsafe(dir string) (*Store, error) { return Open(dir, &Options{unsafe: true}) }
