//go:build e2e && linux

package machines

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A stream is a NATS server with JetStream.
type stream struct {
	t    *testing.T
	dir  string
	args []string
	cmd  *exec.Cmd
	port string
	ca   string // a file with the authority of a server with TLS, whose certificate is for localhost
}

// startNATS runs a server until the test ends. config are lines of its configuration file.
func startNATS(t *testing.T, config string) *stream {
	t.Helper()
	s := &stream{t: t, dir: t.TempDir(), port: "-1"} // any free port
	file := filepath.Join(s.dir, "nats.conf")
	if err := os.WriteFile(file, []byte("jetstream { store_dir: "+filepath.Join(s.dir, "data")+" }\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--config", file, "--addr", "127.0.0.1", "--ports_file_dir", s.dir}
	s.run()
	t.Cleanup(s.kill)
	return s
}

// run starts the server after kill, on the same port.
func (s *stream) run() {
	s.t.Helper()
	s.cmd = exec.Command(natsServer, append(s.args, "--port", s.port)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ports := filepath.Join(s.dir, fmt.Sprintf("nats-server_%d.ports", s.cmd.Process.Pid))
	var found struct{ Nats []string }
	await.Until(s.t, "the ports of the NATS server", func() bool {
		data, err := os.ReadFile(ports)
		return err == nil && json.Unmarshal(data, &found) == nil && len(found.Nats) > 0
	})
	u, err := url.Parse(found.Nats[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.port = u.Port()
}

func (s *stream) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}

func (s *stream) url() string { return "nats://127.0.0.1:" + s.port }

// client returns a connection to the server until the test ends.
func (s *stream) client(t *testing.T, options ...jetstream.JetStreamOpt) jetstream.JetStream {
	t.Helper()
	address, with := s.url(), nats.Name("test")
	if s.ca != "" {
		address, with = "nats://localhost:"+s.port, nats.RootCAs(s.ca)
	}
	conn, err := nats.Connect(address, with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, options...)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
