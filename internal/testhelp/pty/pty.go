// Package pty opens pseudo terminals for tests of interactive programs. It works only on Linux.
package pty
