// Package files reads, writes and locks files that may be hostile: of another user, half written, huge,
// replaced while they are read, or no file at all.
//
// read.go reads regular files up to a limit and names errors for people, write.go replaces a file at
// once, lock.go locks between processes, owner_unix.go tells who can change a file, and digest.go names
// a content. Home directories are in package home, directories with a bounded number of files in room.
package files
