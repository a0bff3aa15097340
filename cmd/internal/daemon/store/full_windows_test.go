package store

// playFull does nothing, because Windows has no limit for file sizes.
func playFull(string, string) error { return nil }
