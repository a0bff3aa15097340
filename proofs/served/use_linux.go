package served

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Use is the resource usage of a daemon.
type Use struct {
	RSS     int64 // bytes in memory
	Private int64 // bytes of RSS that are not pages of files: the kernel maps 64 KB of a program at once, and can drop them
	Handles int
	Threads int
	CPU     time.Duration // since its start
}

// Use returns the daemon's current resource usage.
func (d *Daemon) Use() (u Use, err error) {
	dir := "/proc/" + strconv.Itoa(d.PID())
	handles, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return u, err
	}
	u.Handles = len(handles)
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, err
	}
	// The name of the program can contain any character. The third field begins after the last
	// ")".
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	number := func(field int) int64 {
		if field-3 >= len(fields) {
			err = fmt.Errorf("%s/stat has %d fields", dir, len(fields)+2)
			return 0
		}
		n, errParse := strconv.ParseInt(fields[field-3], 10, 64)
		if errParse != nil {
			err = errParse
		}
		return n
	}
	u.Threads = int(number(20))
	u.RSS = number(24) * int64(os.Getpagesize())
	var clock unix.Timespec // stat has ticks of 10 ms, which an idle process rarely meets
	if err := errors.Join(err, unix.ClockGettime(int32(^d.PID()<<3|cpuClock), &clock)); err != nil {
		return u, err
	}
	u.CPU = time.Duration(clock.Nano())
	memory, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return u, err
	}
	var size, resident, shared int64
	_, err = fmt.Sscan(string(memory), &size, &resident, &shared)
	u.Private = (resident - shared) * int64(os.Getpagesize())
	return u, err
}

// cpuClock is the kind of the clock of a process's CPU time, see clock_getcpuclockid(3).
const cpuClock = 2
