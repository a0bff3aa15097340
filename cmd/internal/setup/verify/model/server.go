// Package model replaces the model of a real agent: an HTTP server on loopback that plays a plan.
// It supports the protocols of Anthropic Messages (Claude Code), Gemini generateContent (Gemini
// CLI), OpenAI Responses (Codex) and OpenAI chat completions (all other agents).
//
//	srv, err := model.Start()            // srv.URL goes into the agent's environment
//	prompt := model.Prompt("Go on.",     // the task of the agent
//		model.Do(model.Call{Tool: "Bash", Input: map[string]any{"command": "touch a"}}),
//		model.Say("all done"))
//	...                                  // run the agent
//	srv.Log().ToolResults()              // the results that the model received
//
// The server keeps no state between requests except its log. The request alone determines the next
// step: the plan is in the prompt, and the later tool results show the progress. So requests for
// titles, retries, sub-agents and concurrent agents do not interfere.
//
// It has no model, checks no key, and answers only the requests of these agents. Every other
// request gets an error and is listed by [Log.Unknown].
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Server is a running fake model. Its methods are safe for concurrent use.
type Server struct {
	URL string // base of every path: http://127.0.0.1:PORT

	http *http.Server
	done chan struct{} // closed when the server has stopped
	ids  atomic.Int64

	mu  sync.Mutex
	log Log
}

// Start starts a server on a free loopback port. It runs until Close.
func Start() (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start model server: %w", err)
	}
	s := &Server{URL: "http://" + ln.Addr().String(), done: make(chan struct{})}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ErrorLog:          log.New(io.Discard, "", 0), // killed agents leave broken connections behind
		ReadHeaderTimeout: time.Minute,
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln) // returns ErrServerClosed
	}()
	return s, nil
}

// Close stops the server and closes every connection to it.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

// Log returns the requests received so far. A request is added before its response is sent.
func (s *Server) Log() Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// maxBody is the maximum size of a request body in bytes. Agents send about 50 kB.
const maxBody = 64 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	req := Request{Method: r.Method, Path: r.URL.Path, Step: -1}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil && len(body) > 0 {
		if json.Valid(body) {
			req.Body = body
		} else {
			err = errors.New("not JSON")
		}
	}

	var ans answer
	switch {
	case r.Method == http.MethodConnect, r.URL.IsAbs():
		// The server is also configured as the proxy, so that requests to other hosts are logged
		// here.
		req.Path = r.Host
		req.Problem = "traffic to another host"
	case err != nil:
		req.Problem = "unreadable body: " + err.Error()
	default:
		ans, err = s.answer(&req)
		if err != nil {
			req.Problem = err.Error()
		}
	}

	s.mu.Lock()
	s.log = append(s.log, req)
	s.mu.Unlock()

	if req.Problem != "" {
		refuse(w, req.Problem)
		return
	}
	w.Header().Set("Content-Type", ans.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(ans.body)))
	_, _ = w.Write(ans.body) // the client may have closed the connection
}

// refuse answers with an error that every agent understands and does not retry.
func refuse(w http.ResponseWriter, problem string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("x-should-retry", "false")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(rawjson.Must(map[string]any{
		"type":  "error",
		"error": map[string]any{"type": "not_found_error", "code": http.StatusNotFound, "status": "NOT_FOUND", "message": "model server: " + problem},
	}))
}

// An answer is a complete HTTP response body.
type answer struct {
	contentType string
	body        []byte
}

func plainJSON(v any) answer { return answer{"application/json", rawjson.Must(v)} }

// A conversation is the part of a request's history that is needed to choose the next step. It is
// the same for all protocols.
type conversation struct {
	tools   bool   // the request offers tools, so it is a turn of an agent's loop
	side    *Step  // response to a side call; nil = the default response of the protocol
	stream  bool   // the client requests server-sent events
	model   string // as named in the request
	roles   []string
	texts   []string
	results []ToolResult

	plan    []Step // of the last prompt with a plan; nil = none
	since   int    // tool results after that prompt
	answers int    // the model's own turns without a call after that prompt
}

// prompt processes a text of the user. If it contains a plan, the counters start at zero, because
// earlier results are from an earlier prompt.
func (c *conversation) prompt(text string) {
	if plan, ok := parsePlan(text); ok {
		c.plan, c.since, c.answers = plan, 0, 0
	}
}

func (c *conversation) result(r ToolResult) {
	c.results = append(c.results, r)
	c.since++
}

// heard stores the text of a message for the log.
func (c *conversation) heard(role, text string) { c.texts = append(c.texts, role+": "+text) }

// next returns the next step and its index in the plan, or -1 if the plan is used up. After the end
// it repeats the last text, so that an agent that was made to continue can end.
func (c *conversation) next() (Step, int) {
	i := due(c.plan, c.since, c.answers)
	if i < len(c.plan) {
		return c.plan[i], i
	}
	for _, step := range slices.Backward(c.plan) {
		if len(step.Calls) == 0 {
			return step, -1
		}
	}
	return Answer("nothing left to do"), -1
}

// answer fills in the interpretation of req and returns the response to it.
func (s *Server) answer(req *Request) (answer, error) {
	var (
		read  func([]byte) (*conversation, error)
		write func(*Server, *conversation, Step) answer
		side  Step
	)
	verb := "" // of a Gemini path: models/NAME:verb
	if name, ok := strings.CutPrefix(req.Path, "/v1beta/models/"); ok {
		_, verb, _ = strings.Cut(name, ":")
	}
	switch {
	case req.Method == http.MethodHead && req.Path == "/":
		return answer{contentType: "text/plain"}, nil
	case req.Method == http.MethodGet && req.Path == "/v1/models":
		return plainJSON(map[string]any{"object": "list", "data": []any{map[string]any{"id": "fake-1", "object": "model"}}}), nil
	case req.Method != http.MethodPost:
		return answer{}, errors.New("unknown request")
	case req.Path == "/v1/messages/count_tokens":
		return plainJSON(map[string]any{"input_tokens": 50}), nil
	case verb == "countTokens":
		return plainJSON(map[string]any{"totalTokens": 50}), nil
	case req.Path == "/v1/messages":
		read, write = readAnthropic, writeAnthropic
		side = Answer("side call")
	case verb == "generateContent" || verb == "streamGenerateContent":
		read, write = readGemini, writeGemini
		side = Answer(`{"reasoning":"side call","model_choice":"flash"}`) // also satisfies Gemini CLI's model router
	case req.Path == "/v1/responses":
		read, write = readResponses, writeResponses
		side = Answer("side call")
	case req.Path == "/v1/chat/completions":
		read, write = readChat, writeChat
		side = Answer(`{"ok":true}`) // also satisfies Qwen Code's prompt hooks
	default:
		return answer{}, errors.New("unknown request")
	}

	conv, err := read(req.Body)
	if err != nil {
		return answer{}, fmt.Errorf("unreadable body: %w", err)
	}
	if verb != "" {
		conv.stream = verb == "streamGenerateContent"
	}
	req.Main, req.Roles, req.Texts, req.Results = conv.tools, conv.roles, conv.texts, conv.results
	step := side
	switch {
	case conv.tools:
		step, req.Step = conv.next()
	case conv.side != nil:
		step = *conv.side
	}
	return write(s, conv, step), nil
}

// newID returns a unique identifier for a call or message of this server. It has no punctuation,
// because OpenClaw removes punctuation before it sends a call back.
func (s *Server) newID(kind string) string {
	return kind + strconv.FormatInt(s.ids.Add(1), 10)
}
