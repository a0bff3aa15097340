package main

import "golang.org/x/sys/unix"

// forks are the system calls that always start a process.
var forks = []uint32{unix.SYS_FORK, unix.SYS_VFORK}
