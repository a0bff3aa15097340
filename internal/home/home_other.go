//go:build !unix || darwin

// Package home finds the home directory of this user in the user database. It never uses HOME,
// because an agent's project settings can set it. Call [Dir].
package home

import "os/user"

// Dir returns the home directory from the user database. On macOS and Windows, os/user uses the
// system and never the environment.
func Dir() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// User returns the name of this user.
func User() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username, nil
}
