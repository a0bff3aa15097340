//go:build !unix || darwin

// Package home finds the home directory of this user where an agent's project
// settings cannot move it: in the user database. Call [Dir]. It never looks at HOME.
package home

import "os/user"

// Dir returns the home directory of the user database. On macOS and
// Windows os/user asks the system and never the environment.
func Dir() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}
