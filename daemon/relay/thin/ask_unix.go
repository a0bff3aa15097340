//go:build linux || darwin

package thin

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Ask asks the daemon that listens on a socket.
func Ask(socket string, q *Question) (*Answer, error) {
	dir := filepath.Dir(socket)
	var st syscall.Stat_t
	if syscall.Lstat(dir, &st) != nil {
		return nil, errAbsent
	}
	uid := os.Getuid()
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || st.Mode&0o077 != 0 || int(st.Uid) != uid && st.Uid != 0 {
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
	limit(fd, syscall.SO_SNDTIMEO, Beginning)
	limit(fd, syscall.SO_RCVTIMEO, Beginning)
	if syscall.Connect(fd, &syscall.SockaddrUnix{Name: name}) != nil {
		return nil, errAbsent
	}
	peer, err := peerOf(fd)
	if err != nil || peer != 0 && (peer != uid || q.AsRoot) {
		return nil, errStranger
	}
	return exchange(fd, q)
}

// exchange sends a question and reads the answer.
func exchange(fd int, q *Question) (*Answer, error) {
	for text := q.request(); len(text) > 0; {
		n, err := syscall.Write(fd, text)
		if err != nil && err != syscall.EINTR {
			return nil, errGone
		}
		text = text[max(0, n):]
	}
	buf, used := make([]byte, 16<<10), 0
	var end time.Time
	for {
		at := bytes.Index(buf[:used], []byte("\r\n\r\n"))
		if at < 0 {
			if used == len(buf) {
				return nil, errOdd
			}
			n, err := read(fd, buf[used:], end)
			if err != nil {
				return nil, err
			}
			used += n
			continue
		}
		h, ok := readHead(string(buf[:at]))
		used = copy(buf, buf[at+4:used])
		switch {
		case ok && h.status == 102: // it is at work
			limit(fd, syscall.SO_RCVTIMEO, q.Budget)
			end = time.Now().Add(q.Budget)
		case ok && h.status == 409:
			return nil, ErrSelf
		case !ok || !h.whole():
			return nil, errOdd
		default:
			body := make([]byte, h.length)
			for got := copy(body, buf[:used]); got < len(body); {
				n, err := read(fd, body[got:], end)
				if err != nil {
					return nil, err
				}
				got += n
			}
			return &Answer{Stdout: body[:h.stdout], Stderr: body[h.stdout:], Exit: h.exit, Drain: h.drain}, nil
		}
	}
}

func read(fd int, into []byte, end time.Time) (int, error) {
	for {
		n, err := syscall.Read(fd, into)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, errSlow
		case n == 0:
			return 0, errGone
		case !end.IsZero() && time.Now().After(end):
			return 0, errSlow
		}
		return n, nil
	}
}

func limit(fd, option int, d time.Duration) {
	tv := syscall.NsecToTimeval(max(int64(d), int64(time.Millisecond)))
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &tv)
}
