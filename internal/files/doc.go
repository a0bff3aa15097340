// Package files reads, writes and locks files that may be hostile: of another user, half written, huge,
// replaced while they are read, or no file at all.
//
// read.go reads regular files up to a limit and names errors for people, write.go replaces a file at
// once, lock.go locks between processes, owner_unix.go finds the users that can change a file, digest.go names a
// content, stamp.go notices a change without reading, room.go bounds a directory of state, private.go opens
// only files that no other user can replace, and below.go compares names. Home directories are in package home.
package files
