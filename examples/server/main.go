// Command server is an agent behind HTTP. The path of a request is the ID of a session, and each
// request is a turn of the session: one call of the tool "run", which only prints its input here.
//
//	printf 'version: 1\nhooks: [{name: no-rm, on: tool.before, match: {command: rm}, block: Keep it.}]\n' > policy.yaml
//	go run ./examples/server policy.yaml
//	curl -d 'command=sudo rm a' 127.0.0.1:8080/ada
//
// It shows package local/server, whose policies can be edited while the agent runs, sessions that
// last longer than a request, and the order of the calls at the end. An ask is refused, because a
// server has no terminal.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/local/server"
)

// serve answers requests until ctx is done. It then waits for the turns in progress, and ends the
// sessions, the host and the engine, in this order.
func serve(ctx context.Context, ln net.Listener, opts *server.Options, run host.ToolFunc) error {
	engine, err := server.Open(ctx, opts)
	if err != nil {
		return err
	}
	h := host.New(engine.Engine, &host.Options{Tools: []host.ToolInfo{{Name: "run", Class: grapnel.ClassShell}}})
	mu, sessions := sync.Mutex{}, map[string]*host.Session{} // the first request of an ID starts its session
	turn := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		session, err := sessions[r.URL.Path], error(nil)
		if session == nil {
			if _, session, _, err = h.Start(r.Context(), grapnel.Session{ID: r.URL.Path, CWD: engine.Root}, "startup"); err == nil {
				sessions[r.URL.Path] = session
			}
		}
		mu.Unlock()
		if err != nil { // a hook refuses the session
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		input, _ := host.JSON(map[string]string{"command": r.FormValue("command")})
		result, _ := session.Tool(r.Context(), host.Call{Name: "run", Input: input}, run) // an error is in the result, too
		fmt.Fprintln(w, result.Text())
	}
	srv := &http.Server{Handler: http.HandlerFunc(turn)}
	go func() { _ = srv.Serve(ln) }() // until Shutdown
	<-ctx.Done()
	ctx = context.WithoutCancel(ctx)
	err = srv.Shutdown(ctx)
	for _, session := range sessions {
		session.End(ctx, "exit")
	}
	return errors.Join(err, h.Close(ctx), engine.Close(ctx))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	echo := func(_ context.Context, input json.RawMessage) (json.RawMessage, error) { return input, nil }
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:8080")
	if err == nil {
		err = serve(ctx, ln, &server.Options{Policies: os.Args[1:], Agent: "server"}, echo)
	}
	log.Println("closed:", err)
}
