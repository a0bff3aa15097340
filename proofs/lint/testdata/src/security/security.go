// Package security has modes of files that give other users access.
package security

import "os"

const public = 0o644

func modes(mode os.FileMode) {
	_ = os.WriteFile("f", nil, 0o600)
	_ = os.WriteFile("f", nil, public) // want `mode 0644 is more than 0600`
	_ = os.MkdirAll("d", 0o755)        // want `mode 0755 is more than 0700`
	_ = os.Mkdir("d", os.ModePerm)     // want `mode 0777 is more than 0700`
	_, _ = os.OpenFile("f", 0, 0o666)  // want `mode 0666 is more than 0600`
	_ = os.Chmod("f", mode)
}
