package served

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Use is the resource usage of a daemon.
type Use struct {
	RSS     int64 // bytes in memory
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
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	u.CPU = time.Duration(number(14)+number(15)) * tick
	u.Threads = int(number(20))
	u.RSS = number(24) * int64(os.Getpagesize())
	return u, err
}
