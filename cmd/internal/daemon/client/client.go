// Package client asks the daemon about one event, as a program does that starts, asks and
// ends:
//
//	answer, err := client.Ask(client.Socket(state), &client.Question{Agent: "codex", Payload: payload})
//	// on any error the program answers by itself: the bytes are the same
//
// It writes HTTP/1.1 over a unix socket by hand, since what net/http does before main
// takes longer than the whole exchange. It believes nobody but a daemon of the same user
// or of root, and nobody who takes longer than a moment to begin.
package client

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Socket is where the daemon of a state directory listens.
func Socket(state string) string { return filepath.Join(state, "daemon", "socket") }

// Version is that of what both say: one that speaks another is not asked.
const Version = "1"

// Path is that of the request.
const Path = "/v1/answer"

// The headers of a request and of its answer. Values are percent-encoded.
const (
	HeaderVersion = "Grapnel-Version" // of the program and of what both say
	HeaderAgent   = "Grapnel-Agent"
	HeaderEvent   = "Grapnel-Event"
	HeaderID      = "Grapnel-Installation"
	HeaderRoot    = "Grapnel-Root"
	HeaderHome    = "Grapnel-Home"
	HeaderPolicy  = "Grapnel-Policy" // once for each
	HeaderFiring  = "Grapnel-Firing"
	HeaderParent  = "Traceparent"

	ContentType = "application/octet-stream"

	HeaderExit   = "Grapnel-Exit"
	HeaderStdout = "Grapnel-Stdout" // how many bytes of the body are standard output; the others are standard error
	HeaderDrain  = "Grapnel-Drain"  // observing hooks wait, and the program is to start their drain
)

// A Question is an event that an agent has started a program for, with what the program
// was started with.
type Question struct {
	Version  string // of the program
	Agent    string // of the command line, as all that follows
	Event    string
	ID, Root string
	Policies []string
	Home     string // of the person who works below a Root; empty = what the user database says
	Firing   string // the ID of the firing, the same if the program has to answer by itself
	Parent   string // the trace that the agent is in, as W3C writes it
	Payload  []byte

	AsRoot bool          // only a daemon of root is believed
	Budget time.Duration // for all, once the daemon is at work
}

// An Answer is what the program gives the agent.
type Answer struct {
	Stdout, Stderr []byte
	Exit           int
	Drain          bool
}

// ErrSelf is why a program answers by itself although there is a daemon.
var ErrSelf = errors.New("the program answers by itself")

// Why a daemon is not believed. Nobody reads more of it: the program answers by itself.
var (
	errAbsent   = errors.New("no daemon listens")
	errStranger = errors.New("others than this user and root can listen there, or do")
	errGone     = errors.New("the daemon has gone")
	errSlow     = errors.New("the daemon does not answer in time")
	errOdd      = errors.New("the daemon says what is no answer")
)

// Beginning is how long a daemon may take to begin: then it has answered, or says that it is
// at work.
const Beginning = 400 * time.Millisecond

// maxAnswer is the size in bytes of the largest answer.
const maxAnswer = 64 << 20

// request is what is sent.
func (q *Question) request() []byte {
	b := make([]byte, 0, 512+len(q.Payload))
	b = append(b, "POST "+Path+" HTTP/1.1\r\nHost: grapnel\r\nConnection: close\r\nContent-Type: "+ContentType+"\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(q.Payload)), 10)
	b = append(b, "\r\n"...)
	b = addHeader(b, HeaderVersion, q.Version+"/"+Version)
	b = addHeader(b, HeaderAgent, q.Agent)
	b = addHeader(b, HeaderEvent, q.Event)
	b = addHeader(b, HeaderID, q.ID)
	b = addHeader(b, HeaderRoot, q.Root)
	b = addHeader(b, HeaderHome, q.Home)
	for _, file := range q.Policies {
		b = addHeader(b, HeaderPolicy, file)
	}
	b = addHeader(b, HeaderFiring, q.Firing)
	b = addHeader(b, HeaderParent, q.Parent)
	b = append(b, "\r\n"...)
	return append(b, q.Payload...)
}

func addHeader(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(b, name...), ": "...)
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c == '%' || c > '~' {
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		} else {
			b = append(b, c)
		}
	}
	return append(b, "\r\n"...)
}

// A head is that of an answer.
type head struct {
	status, exit, length, stdout int
	drain                        bool
}

// readHead reads the head of an answer, which ends before the empty line.
func readHead(text string) (h head, ok bool) {
	line, rest, _ := strings.Cut(text, "\r\n")
	status, found := strings.CutPrefix(line, "HTTP/1.1 ")
	if !found || len(status) < 3 || len(status) > 3 && status[3] != ' ' {
		return h, false
	}
	h.length, h.exit, h.stdout = -1, -1, -1
	var err error
	if h.status, err = strconv.Atoi(status[:3]); err != nil {
		return h, false
	}
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		into := (*int)(nil)
		switch {
		case strings.EqualFold(name, HeaderExit):
			into = &h.exit
		case strings.EqualFold(name, HeaderStdout):
			into = &h.stdout
		case strings.EqualFold(name, "Content-Length"):
			into = &h.length
		case strings.EqualFold(name, HeaderDrain):
			h.drain = true
		}
		if into != nil {
			if *into, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return h, false
			}
		}
	}
	return h, true
}

// whole reports whether it is an answer to go by.
func (h *head) whole() bool {
	return h.status == 200 && h.exit >= 0 && h.exit <= 255 && h.length >= 0 && h.length <= maxAnswer && h.stdout >= 0 && h.stdout <= h.length
}
