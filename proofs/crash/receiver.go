package main

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
)

// A receiver is a webhook server that records the delivery IDs for each call.
type receiver struct {
	url    string
	server *http.Server

	refuse  atomic.Bool // it answers with an error status
	refused atomic.Int64

	mu    sync.Mutex
	times int
	calls map[string]map[string]bool // delivery IDs, by the ID of the call
}

func listen() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/", calls: map[string]map[string]bool{}}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: limit}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) close() { _ = r.server.Close() }

var callID = regexp.MustCompile(`toolu_[a-z0-9_]+`)

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has died
	}
	if r.refuse.Load() {
		r.refused.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times++
	call := callID.FindString(string(body))
	if r.calls[call] == nil {
		r.calls[call] = map[string]bool{}
	}
	r.calls[call][req.Header.Get("Webhook-Id")] = true
}

// ids returns the number of different delivery IDs under which a call arrived.
func (r *receiver) ids(call string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls[call])
}

func (r *receiver) counts() (calls, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls), r.times
}
