//go:build system

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/grapnel-dev/grapnel/internal/await"
)

// post sends a request like an agent with HTTP hooks in its settings, and stores the answer in
// the file posted: post STATUS SETTINGS EVENT PAYLOAD. It waits for a daemon that does not
// listen yet. The status 0 waits until no daemon listens.
func post(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: post STATUS SETTINGS EVENT PAYLOAD")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	text, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	var settings struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Type, URL string
				Headers   map[string]string
			}
		}
	}
	ts.Check(json.Unmarshal(text, &settings))
	groups := settings.Hooks[args[2]]
	if len(groups) != 1 || len(groups[0].Hooks) != 1 || groups[0].Hooks[0].Type != "http" {
		ts.Fatalf("%s does not ask over http at %s: %+v", args[1], args[2], groups)
	}
	hook := groups[0].Hooks[0]
	payload, err := os.ReadFile(ts.MkAbs(args[3]))
	ts.Check(err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPost, hook.URL, bytes.NewReader(payload))
		ts.Check(err)
		for name, value := range hook.Headers {
			req.Header.Set(name, value)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		var body []byte
		got := 0
		if err == nil {
			got = resp.StatusCode
			body, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if refused := errors.Is(err, syscall.ECONNREFUSED); err == nil && got == want || refused && want == 0 {
			ts.Check(os.WriteFile(ts.MkAbs("posted"), body, 0o600))
			return
		} else if err == nil && want != 0 || time.Now().After(deadline) {
			ts.Fatalf("got %d %v, want %d\n%s", got, err, want, body)
		}
	}
}
