// Package pty opens pseudo terminals for tests of programs that ask a person. It does so
// on Linux only.
package pty
