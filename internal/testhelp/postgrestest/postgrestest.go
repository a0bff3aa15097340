//go:build unix

// Package postgrestest runs a PostgreSQL server for tests, with the programs of the Debian package
// postgresql. A test fails if they are missing.
package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Password is the password of the role postgres, which may do everything.
const Password = "correct horse"

// A Server is a PostgreSQL server that listens on a socket in a separate directory.
type Server struct {
	Dir  string // has the socket, and the file "passwords" in the format of .pgpass
	Port string // of the socket, and on 127.0.0.1 of a server with TLS

	t    testing.TB
	bin  string
	data string
	cred *syscall.Credential
	cmd  *exec.Cmd
	done chan struct{}
	log  bytes.Buffer
}

// Start runs a server until the test ends. Settings have the form name=value.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := prepare(t)
	s.begin(append([]string{"listen_addresses=''"}, settings...))
	return s
}

// StartTLS runs a server that also listens on 127.0.0.1, where it permits only connections with TLS. cert and key
// are its certificate and private key in PEM format.
func StartTLS(t testing.TB, cert, key []byte) *Server {
	t.Helper()
	s := prepare(t)
	s.Port = freePort(t)
	s.own("server.crt", cert)
	s.own("server.key", key)
	s.own("pg_hba.conf", []byte("local all all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n"))
	s.begin([]string{"listen_addresses='127.0.0.1'", "port=" + s.Port, "ssl=on"})
	return s
}

// freePort returns a port of 127.0.0.1 that no program used a moment ago. PostgreSQL cannot choose one.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// prepare makes the files of a server.
func prepare(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t), Port: "5432"}
	var err error
	if s.Dir, err = os.MkdirTemp("", "pg"); err != nil { //nolint:usetesting // short, because it has a socket
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.Dir) })
	s.data = filepath.Join(s.Dir, "data")
	password := filepath.Join(s.Dir, "password")
	write(t, password, Password+"\n")
	write(t, s.Passwords(), "*:*:*:postgres:"+Password+"\n")
	s.user()
	out, err := s.command("initdb", "--pgdata="+s.data, "--username=postgres", "--auth=scram-sha-256", "--pwfile="+password, "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	return s
}

// own writes a file of the server, which must be its own.
func (s *Server) own(name string, data []byte) {
	s.t.Helper()
	name = filepath.Join(s.data, name)
	write(s.t, name, string(data))
	if s.cred != nil {
		if err := os.Chown(name, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// begin runs a prepared server until the test ends.
func (s *Server) begin(settings []string) {
	s.t.Helper()
	config, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range append([]string{"unix_socket_directories='" + s.Dir + "'", "fsync=off", "max_connections=60", "log_min_messages=fatal"}, settings...) {
		fmt.Fprintln(config, line)
	}
	if err := config.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.Kill)
	s.Run()
}

// programs returns the directory of the newest installed server.
func programs(t testing.TB) string {
	t.Helper()
	if found, err := exec.LookPath("postgres"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil {
			return filepath.Dir(found)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		t.Fatal("PostgreSQL is missing: install the Debian package postgresql")
	}
	return filepath.Dir(slices.Max(found))
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// user gives the files to another user if this process is root, because PostgreSQL refuses root.
func (s *Server) user() {
	if os.Geteuid() != 0 {
		return
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		other, err = user.Lookup("nobody")
	}
	if err != nil {
		s.t.Fatalf("PostgreSQL refuses root, and there is no other user: %v", err)
	}
	uid, _ := strconv.ParseUint(other.Uid, 10, 32)
	gid, _ := strconv.ParseUint(other.Gid, 10, 32)
	s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, name := range []string{s.Dir, filepath.Join(s.Dir, "password")} {
		if err := os.Chown(name, int(uid), int(gid)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil { //nolint:security // the tests connect as another user than the server
		s.t.Fatal(err)
	}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...) //nolint:noctx // Kill ends it
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	return cmd
}

// Passwords returns the path of the password file.
func (s *Server) Passwords() string { return filepath.Join(s.Dir, "passwords") }

// URL returns the address of a database for a user, without a password.
func (s *Server) URL(user, database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%s", user, database, s.Dir, s.Port)
}

// Run starts the server after Kill, and waits until it accepts connections.
func (s *Server) Run() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if s.cmd == nil {
			s.start()
		}
		// pg_isready exits 0 if the server accepts connections.
		if exec.CommandContext(context.Background(), filepath.Join(s.bin, "pg_isready"), "-q", "-h", s.Dir, "-p", s.Port).Run() == nil {
			return
		}
		select {
		case <-s.done: // processes of a killed server still use its memory
			s.cmd = nil
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("the server does not answer:\n%s", s.log.Bytes())
		}
	}
}

func (s *Server) start() {
	s.t.Helper()
	s.log.Reset()
	cmd, done := s.command("postgres", "-D", s.data), make(chan struct{})
	cmd.Stderr = &s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(done) }()
	s.cmd, s.done = cmd, done
}

// Kill kills the server without a chance to clean up. Its other processes end by themselves.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Errorf("cannot kill the server: %v", err)
	}
	<-s.done
	s.cmd = nil
}
