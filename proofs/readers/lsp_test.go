//go:build e2e

package readers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
)

// An editor talks to the YAML language server like Neovim and VS Code: it opens files and gets
// diagnostics.
type editor struct {
	mu      sync.Mutex // guards in
	in      io.Writer
	next    int
	answers sync.Map // id: chan json.RawMessage
	seen    chan published
	schemas map[string][]string // for "yaml.schemas"
	stderr  strings.Builder
}

type published struct {
	URI         string
	Diagnostics []diagnostic
}

type diagnostic struct {
	Range struct {
		Start struct{ Line, Character int }
	}
	Severity int
	Message  string
}

type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// patience is the longest time that an editor waits for a message of the server.
const patience = 3 * time.Minute

// fileURL returns a path in the form that editors use.
func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// newEditor starts a server with the settings in docs/install.md, except for the addresses of
// schemas, which the test cannot reach.
func newEditor(t *testing.T, schemas map[string][]string) *editor {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tools.Node(t), tools.LanguageServer.Path(t), "--stdio")
	cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e := &editor{in: in, seen: make(chan published, 1000), schemas: schemas}
	cmd.Stderr = &e.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.read(bufio.NewReader(out))
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	e.ask(t, "initialize", map[string]any{
		"processId": nil, "rootUri": nil,
		"capabilities": map[string]any{
			"workspace": map[string]any{"configuration": true, "didChangeConfiguration": map[string]any{"dynamicRegistration": true}},
			"textDocument": map[string]any{
				"publishDiagnostics": map[string]any{},
				"hover":              map[string]any{"contentFormat": []string{"markdown"}},
				"completion":         map[string]any{"completionItem": map[string]any{"snippetSupport": true, "documentationFormat": []string{"markdown"}}},
			},
		},
	}, nil)
	e.notify("initialized", map[string]any{})
	return e
}

func (e *editor) write(m message) {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(body), body)
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (e *editor) notify(method string, params any) {
	e.write(message{Method: method, Params: raw(params)})
}

// ask sends a request, waits for the answer, and decodes it into result.
func (e *editor) ask(t *testing.T, method string, params, result any) {
	t.Helper()
	e.mu.Lock()
	e.next++
	id := strconv.Itoa(e.next)
	e.mu.Unlock()
	answer := make(chan message, 1)
	e.answers.Store(id, answer)
	e.write(message{ID: json.RawMessage(id), Method: method, Params: raw(params)})
	select {
	case m := <-answer:
		if m.Error != nil {
			t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil && string(m.Result) != "null" {
			if err := json.Unmarshal(m.Result, result); err != nil {
				t.Fatalf("%s: %v: %s", method, err, m.Result)
			}
		}
	case <-time.After(patience):
		t.Fatalf("no answer to %s\n%s", method, e.stderr.String())
	}
}

// read handles the messages of the server until it ends.
func (e *editor) read(r *bufio.Reader) {
	for {
		head, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			return
		}
		n, err := strconv.Atoi(head.Get("Content-Length"))
		if err != nil {
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			return
		}
		switch {
		case m.Method == "":
			if answer, ok := e.answers.LoadAndDelete(string(m.ID)); ok {
				answer.(chan message) <- m
			}
		case m.Method == "textDocument/publishDiagnostics":
			var p published
			if json.Unmarshal(m.Params, &p) == nil {
				e.seen <- p
			}
		case m.Method == "workspace/configuration":
			var asked struct{ Items []struct{ Section string } }
			_ = json.Unmarshal(m.Params, &asked)
			settings := make([]any, len(asked.Items))
			for i, item := range asked.Items {
				if item.Section == "yaml" {
					settings[i] = map[string]any{"schemas": e.schemas, "hover": true, "completion": true, "validate": true}
				}
			}
			e.write(message{ID: m.ID, Result: raw(settings)})
		case m.ID != nil:
			e.write(message{ID: m.ID, Result: raw(nil)})
		}
	}
}

// open shows files to the server, and returns its diagnostics for each file.
func (e *editor) open(t *testing.T, files map[string]string) map[string][]diagnostic {
	t.Helper()
	waits := map[string]string{}
	for name, text := range files {
		waits[fileURL(name)] = name
		e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": fileURL(name), "languageId": "yaml", "version": 1, "text": text}})
	}
	diagnostics := map[string][]diagnostic{}
	late := time.After(patience)
	for len(diagnostics) < len(files) {
		select {
		case p := <-e.seen:
			if name, ok := waits[p.URI]; ok {
				diagnostics[name] = p.Diagnostics
			}
		case <-late:
			t.Fatalf("the server said something of %d of %d files\n%s", len(diagnostics), len(files), e.stderr.String())
		}
	}
	return diagnostics
}

// at returns a position in a file.
func at(name string, line, char int) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": fileURL(name)}, "position": map[string]any{"line": line, "character": char}}
}
