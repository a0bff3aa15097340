// A worker that blocks edits of generated files, because the next run of the generator would undo
// them. It looks for the marker line that Go and other generators write.
//
//	worker: [/usr/local/bin/generated]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

type object map[string]any

var mark = regexp.MustCompile(`(?m)^(?://|#|--|/\*|<!--) .*(?i:code generated|@generated).*$`)

func judge(event json.RawMessage) (object, error) {
	var ev struct {
		Session struct{ CWD string }
		Tool    struct{ Paths []struct{ Path, Use string } }
	}
	err := json.Unmarshal(event, &ev)
	for _, p := range ev.Tool.Paths {
		if p.Use == "read" {
			continue
		}
		name := p.Path
		if !filepath.IsAbs(name) {
			name = filepath.Join(ev.Session.CWD, name)
		}
		f, err := os.Open(name)
		if err != nil {
			continue // a missing file was not generated
		}
		head, _ := bufio.NewReader(f).Peek(1 << 10)
		_ = f.Close()
		if line := mark.Find(head); line != nil {
			return object{"decision": "block", "reason": fmt.Sprintf("%s is generated (%q). Change its source instead.", p.Path, line)}, nil
		}
	}
	return object{}, err // no opinion
}

func main() {
	var saying sync.Mutex
	send := func(m object) {
		saying.Lock()
		defer saying.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(m) // if Grapnel no longer reads the output, it has closed the input, too
	}
	send(object{"grapnel": 1, "type": "hello", "name": "generated", "concurrency": 8, "kinds": []string{"tool.before"}})
	var judging sync.WaitGroup
	defer judging.Wait() // answer all received events after the end of the input
	for in := json.NewDecoder(os.Stdin); ; {
		var m struct {
			Type, ID string
			Event    json.RawMessage
		}
		if in.Decode(&m) != nil {
			return
		}
		if m.Type != "event" {
			continue // ignore hello, cancel and future message types
		}
		judging.Go(func() {
			answer := object{"type": "answer", "id": m.ID}
			if outcome, err := judge(m.Event); err != nil {
				answer["error"] = err.Error() // could not decide: on_error of the policy selects the decision
			} else {
				answer["outcome"] = outcome
			}
			send(answer)
		})
	}
}
