//go:build linux || darwin

package client

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Ask sends a question to the daemon that listens on a socket, and returns its answer. On any error
// the program must answer by itself. The daemon must run as the same user or as root, and in a
// directory that no other user can access. The directory of [All] is for all users, and only root can
// write to it.
func Ask(socket string, q *Question) (*Answer, error) {
	dir := filepath.Dir(socket)
	var st syscall.Stat_t
	if syscall.Lstat(dir, &st) != nil {
		return nil, errAbsent
	}
	uid := os.Getuid()
	others, owner := 0o077, uid // what others may not do there
	if socket == All {
		others, owner = 0o022, 0
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(st.Mode)&others != 0 || int(st.Uid) != owner && st.Uid != 0 {
		return nil, errStranger
	}
	name, done, err := short(socket)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|closeOnExec, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(fd) }()
	limit(fd, syscall.SO_SNDTIMEO, Beginning) // also limits connecting
	if syscall.Connect(fd, &syscall.SockaddrUnix{Name: name}) != nil {
		return nil, errAbsent
	}
	peer, err := peerOf(fd)
	if err != nil || peer != 0 && (peer != uid || q.AsRoot) {
		return nil, errStranger
	}
	return exchange(fd, q)
}

// A line is a connection with a deadline for the whole exchange. Each step may use only the
// remaining time, so that a daemon that sends single bytes cannot delay longer than a silent one.
type line struct {
	fd  int
	end time.Time
}

// exchange sends a question and reads the answer.
func exchange(fd int, q *Question) (*Answer, error) {
	l := line{fd, time.Now().Add(Beginning)}
	for text := q.request(); len(text) > 0; {
		if err := l.limit(syscall.SO_SNDTIMEO); err != nil {
			return nil, err
		}
		n, err := syscall.Write(fd, text)
		if err != nil && err != syscall.EINTR {
			return nil, errGone
		}
		text = text[max(0, n):]
	}
	buf, used, working := make([]byte, 16<<10), 0, false
	for {
		at := bytes.Index(buf[:used], []byte("\r\n\r\n"))
		if at < 0 {
			if used == len(buf) {
				return nil, errOdd
			}
			n, err := l.read(buf[used:])
			if err != nil {
				return nil, err
			}
			used += n
			continue
		}
		h, ok := readHead(string(buf[:at]))
		used = copy(buf, buf[at+4:used])
		switch {
		case ok && h.status == 102: // the daemon is working
			if !working {
				working, l.end = true, time.Now().Add(q.Budget)
			}
		case ok && h.status == 409:
			return nil, ErrSelf
		case !ok || !h.whole() || used > h.length:
			return nil, errOdd
		default:
			body := make([]byte, h.length)
			for got := copy(body, buf[:used]); got < len(body); {
				n, err := l.read(body[got:])
				if err != nil {
					return nil, err
				}
				got += n
			}
			return &Answer{Stdout: body[:h.stdout], Stderr: body[h.stdout:], Exit: h.exit, Drain: h.drain}, nil
		}
	}
}

func (l *line) read(into []byte) (int, error) {
	for {
		if err := l.limit(syscall.SO_RCVTIMEO); err != nil {
			return 0, err
		}
		n, err := syscall.Read(l.fd, into)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, errSlow
		case n == 0:
			return 0, errGone
		}
		return n, nil
	}
}

// limit sets the timeout of the next step to the remaining time.
func (l *line) limit(option int) error {
	left := time.Until(l.end)
	if left <= 0 {
		return errSlow
	}
	limit(l.fd, option, left)
	return nil
}

func limit(fd, option int, d time.Duration) {
	tv := syscall.NsecToTimeval(max(int64(d), int64(time.Millisecond)))
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &tv)
}
