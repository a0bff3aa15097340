// Package notes collects the messages for an operator that a test expects.
package notes

import (
	"strings"
	"sync"
)

// Notes are the errors that a function got. The zero value is ready. It is safe for concurrent use.
type Notes struct {
	mu   sync.Mutex
	list []string
}

// Add adds an error.
func (n *Notes) Add(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, err.Error())
}

// String returns the errors, one in each line.
func (n *Notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.list, "\n")
}
