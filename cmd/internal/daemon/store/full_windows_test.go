package store_test

// playFull does nothing: no size of files can be set here.
func playFull(string, string) error { return nil }
