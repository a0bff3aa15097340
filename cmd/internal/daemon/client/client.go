// Package client sends one event to the daemon, for a program that starts, asks and ends:
//
//	answer, err := client.Ask(client.Socket(state), &client.Question{Agent: "codex", Payload: payload})
//	// on any error the program answers by itself: the bytes are the same
//
// The package implements HTTP/1.1 over a unix socket itself, because the initialization of net/http
// takes longer than the whole exchange. It trusts only a daemon of the same user or of root, and
// only one that begins to answer within [Beginning].
package client

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Socket returns the path of the socket on which the daemon of a state directory listens.
func Socket(state string) string { return filepath.Join(state, "daemon", "socket") }

// All is the path of the socket on which the daemon for all users listens. Root runs it.
const All = "/run/grapnel/socket"

// Version is the version of the protocol. The client and the daemon must have the same version.
const Version = "1"

// Path is the path of the request.
const Path = "/v1/answer"

// The headers of a request and of its answer. Values are percent-encoded.
const (
	HeaderVersion = "Grapnel-Version" // version of the program and of the protocol
	HeaderAgent   = "Grapnel-Agent"
	HeaderEvent   = "Grapnel-Event"
	HeaderID      = "Grapnel-Installation"
	HeaderRoot    = "Grapnel-Root"
	HeaderHome    = "Grapnel-Home"
	HeaderPolicy  = "Grapnel-Policy" // one header for each file
	HeaderFiring  = "Grapnel-Firing"
	HeaderParent  = "Traceparent"

	ContentType = "application/octet-stream"

	HeaderExit   = "Grapnel-Exit"
	HeaderStdout = "Grapnel-Stdout" // number of bytes of the body that are standard output; the rest is standard error
	HeaderDrain  = "Grapnel-Drain"  // observing hooks are waiting, and the program must start their drain
)

// A Question is an event for which an agent started a program, with the program's parameters.
type Question struct {
	Version  string // of the program
	Agent    string // from the command line, like the members below
	Event    string
	ID, Root string
	Policies []string
	Home     string // home directory of the user, if Root is set; empty = from the user database
	Firing   string // the ID of the firing, which stays the same if the program answers by itself
	Parent   string // the agent's trace, in the format of W3C traceparent
	Payload  []byte

	AsRoot bool          // trust only a daemon of root
	Budget time.Duration // time limit for the whole answer, once the daemon is working
}

// An Answer is the reply that the program passes to the agent.
type Answer struct {
	Stdout, Stderr []byte
	Exit           int
	Drain          bool
}

// ErrSelf is the error if a daemon exists but declines to answer, so that the program must answer
// by itself.
var ErrSelf = errors.New("the daemon declined to answer: the program must answer itself")

// Reasons for not using a daemon. No message shows them, because the program answers by itself.
var (
	errAbsent   = errors.New("no daemon listens")
	errStranger = errors.New("users other than this one and root listen or can listen there")
	errGone     = errors.New("the daemon closed the connection")
	errSlow     = errors.New("the daemon did not answer in time")
	errOdd      = errors.New("invalid response from the daemon")
)

// Beginning is the time limit for the daemon's first response: the answer, or the status that it is
// working.
const Beginning = 400 * time.Millisecond

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 64 << 20

// request encodes the complete request.
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

// A head is the parsed head of an answer.
type head struct {
	status, exit, length, stdout int
	drain                        bool
}

// readHead parses the head of an answer, without the empty line at its end.
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

// whole reports whether the head describes a valid answer.
func (h *head) whole() bool {
	return h.status == 200 && h.exit >= 0 && h.exit <= 255 && h.length >= 0 && h.length <= maxAnswer && h.stdout >= 0 && h.stdout <= h.length
}
