//go:build unix

package server

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// members returns the members of an object in openapi.yaml.
func members(t *testing.T, n *yaml.Node) map[string]*yaml.Node {
	t.Helper()
	if n == nil || n.Kind != yaml.Map {
		t.Fatalf("%+v is no object", n)
	}
	all := map[string]*yaml.Node{}
	for _, p := range n.Pairs {
		all[p.Key.Text] = p.Value
	}
	return all
}

// described returns the routes in openapi.yaml, such as "GET /v1/health", with the statuses of
// their answers.
func described(t *testing.T) map[string][]string {
	t.Helper()
	root, err := yaml.Parse(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string][]string{}
	for path, item := range members(t, members(t, root)["paths"]) {
		for method, route := range members(t, item) {
			m := members(t, route)
			if m["summary"] == nil || m["summary"].Text == "" {
				t.Errorf("%s %s has no summary", method, path)
			}
			routes[strings.ToUpper(method)+" "+path] = slices.Sorted(maps.Keys(members(t, m["responses"])))
		}
	}
	if len(routes) < 8 {
		t.Fatalf("only %d routes are described", len(routes))
	}
	return routes
}

// openapi.yaml describes exactly the routes of the code.
func TestOpenAPIOfRoutes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	routed := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			method, path, ok := strings.Cut(text, " ")
			switch {
			case !ok || !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method):
			case path == "": // "POST "+client.Path
				routed[text+client.Path] = true
			case strings.HasPrefix(path, "/"):
				routed[text] = true
			}
			return true
		})
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(described(t))), slices.Sorted(maps.Keys(routed))); diff != "" {
		t.Errorf("(-described +routed)\n%s", diff)
	}
}

// Every described route answers with a described status, and rejects other methods.
func TestOpenAPIOfAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := index.Log{State: filepath.Join(dir, "state"), Index: filepath.Join(dir, "index")}.Keep(nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(filepath.Join(t.TempDir(), "queue"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Close(), q.Close()); err != nil {
			t.Error(err)
		}
	}()
	stopping := make(chan struct{})
	close(stopping) // so that streams end at once
	some := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) })
	opts := Options{Version: "1", Answer: echo, Policy: some, Metrics: some, Page: some, Stopping: stopping}
	opts.WithLog(s)
	opts.WithQueue(q)
	handler := Handler(opts)
	ask := func(method, path, body string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	routes := described(t)
	for route, statuses := range routes {
		method, path, _ := strings.Cut(route, " ")
		for _, body := range []string{"", "{", `{"target":"nobody","ids":["x"]}`, `{"type":"event","id":"1","event":{}}`} {
			for _, kind := range []string{"application/json", "application/octet-stream"} {
				w := ask(method, path, body, "Content-Type", kind, client.HeaderVersion, "1/"+client.Version)
				if !slices.Contains(statuses, strconv.Itoa(w.Code)) {
					t.Errorf("%s, told %q, answers %d, described are %v: %s", route, body, w.Code, statuses, w.Body)
				}
			}
		}
		for _, other := range []string{"GET", "POST", "PUT", "DELETE"} {
			if _, both := routes[other+" "+path]; both {
				continue
			}
			if w := ask(other, path, ""); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s answers %d, want %d", other, path, w.Code, http.StatusMethodNotAllowed)
			}
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/answer/", "/v1/deliveries/nosuch", "/debug/pprof/"} {
		if w := ask("GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("GET %s answers %d, want %d", path, w.Code, http.StatusNotFound)
		}
	}
	if w := ask("GET", "/v1/openapi.yaml", ""); w.Body.String() != string(openAPI) {
		t.Error("the page about itself is another")
	}
	for path, want := range map[string]int{
		"/v1/records?text=%22%20-": 400, "/v1/records?text=%22a": 200, "/v1/records?limit=-1": 400, "/v1/records?limit=1001": 400, "/v1/records?since=yesterday": 400,
		"/v1/records?decision=x": 400, "/v1/events?after=-1": 400, "/v1/events?after=x": 400, "/v1/events?after=99999999999999999999": 400, "/v1/deliveries?state=x": 400,
	} {
		if w := ask("GET", path, ""); w.Code != want {
			t.Errorf("GET %s answers %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	if w := ask("POST", client.Path, `{"type":"hello"}`, "Content-Type", "application/json"); w.Code != http.StatusBadRequest {
		t.Errorf("a message that asks nothing is answered %d: %s", w.Code, w.Body)
	}
}
