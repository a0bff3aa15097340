package served

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

// A Caller sends questions to a daemon, one after another, over one connection, like an agent
// that uses HTTP directly. It is not safe for concurrent use.
type Caller struct {
	conn net.Conn
	w    *bufio.Writer
	r    *bufio.Reader
}

// Call connects to the daemon.
func (d *Daemon) Call(ctx context.Context) (*Caller, error) {
	conn, err := server.Dial(ctx, d.Socket())
	if err != nil {
		return nil, err
	}
	return &Caller{conn, bufio.NewWriter(conn), bufio.NewReader(conn)}, nil
}

// Ask sends an event and returns the daemon's answer.
func (c *Caller) Ask(q *client.Question) (*client.Answer, error) {
	fmt.Fprintf(c.w, "POST %s HTTP/1.1\r\nHost: grapnel\r\nContent-Type: %s\r\nContent-Length: %d\r\n", client.Path, client.ContentType, len(q.Payload))
	for _, h := range [][2]string{
		{client.HeaderVersion, q.Version + "/" + client.Version}, {client.HeaderAgent, q.Agent}, {client.HeaderRoot, q.Root}, {client.HeaderHome, q.Home}, {client.HeaderFiring, q.Firing},
	} {
		fmt.Fprintf(c.w, "%s: %s\r\n", h[0], url.PathEscape(h[1]))
	}
	_, _ = io.WriteString(c.w, "\r\n")
	_, _ = c.w.Write(q.Payload)
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	for err == nil && resp.StatusCode == http.StatusProcessing {
		resp, err = http.ReadResponse(c.r, nil)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	stdout, err := strconv.Atoi(resp.Header.Get(client.HeaderStdout))
	if err != nil || resp.StatusCode != http.StatusOK || stdout > len(body) {
		return nil, fmt.Errorf("the daemon returned %s: %s", resp.Status, body)
	}
	exit, err := strconv.Atoi(resp.Header.Get(client.HeaderExit))
	return &client.Answer{Stdout: body[:stdout], Stderr: body[stdout:], Exit: exit}, err
}

// Close ends the connection.
func (c *Caller) Close() error { return c.conn.Close() }
