//go:build e2e && linux

package machines

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	backend "github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// remote is an address that leads to loopback, and that Grapnel treats as another machine.
const remote = "0.0.0.0"

// An authority signs the certificates of servers.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // has its certificate in PEM format
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	root := template(name)
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign
	var data []byte
	data, a.key = a.sign(root, nil)
	write(t, a.file, data)
	block, _ := pem.Decode(data)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
	}
}

// sign returns a certificate in PEM format, and its key. Without a certificate of the authority, it is signed with its own key.
func (a *authority) sign(cert, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	by := a.key
	if parent == nil {
		parent, by = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// server returns the certificate and the key of a server in PEM format. It is valid for "localhost" and remote, but not
// for 127.0.0.1.
func (a *authority) server() (cert, key []byte) {
	a.t.Helper()
	leaf := template("server")
	leaf.DNSNames, leaf.IPAddresses = []string{"localhost"}, []net.IP{net.ParseIP(remote)}
	cert, private := a.sign(leaf, a.cert)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A secured world has both servers, with certificates of an authority of its own.
type secured struct {
	own *authority
	db  *postgrestest.Server
	n   *stream
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{own: newAuthority(t, "Authority of the Tests")}
	cert, key := s.own.server()
	s.db = postgrestest.StartTLS(t, cert, key)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cert.pem"), cert)
	write(t, filepath.Join(dir, "key.pem"), key)
	s.n = startNATS(t, fmt.Sprintf("tls { cert_file: %[1]s/cert.pem, key_file: %[1]s/key.pem }\n", dir))
	s.n.ca = s.own.file
	return s
}

// database returns the address of the database on a host.
func (s *secured) database(host string) string {
	return "postgres://postgres@" + net.JoinHostPort(host, s.db.Port) + "/postgres"
}

// stream returns the address of the stream on a host.
func (s *secured) stream(host string) string { return "nats://" + net.JoinHostPort(host, s.n.port) }

// policy returns a policy that forwards to both servers on a host; ca can be empty.
func (s *secured) policy(host, parameters, ca string) string {
	if ca != "" {
		ca = ", ca: " + ca
	}
	return fmt.Sprintf("records: {forward: [{to: %q, credentials: %s%s}, {to: %q%s}]}\n", s.database(host)+parameters, s.db.Passwords(), ca, s.stream(host), ca)
}

// TestTLS: Records go through TLS to servers whose certificates a private authority has signed. All other servers are
// refused, with a way out.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	admin := newMachine(t, "")
	for _, args := range [][]string{{s.database("localhost"), "--credentials", s.db.Passwords()}, {s.stream("localhost")}} {
		if out, err := admin.do(t, append([]string{"forward", "setup", "--ca", s.own.file}, args...)...); err != nil {
			t.Fatalf("setup: %v: %s", err, out)
		}
	}
	for i, policy := range []string{s.policy("localhost", "?sslmode=verify-full", s.own.file), s.policy("localhost", "", s.own.file), s.policy(remote, "", s.own.file)} {
		m := newMachine(t, policy)
		m.event(t, i)
		if out, err := m.do(t, "forward"); err != nil || strings.Count(out, "it has all Records") != 2 {
			t.Errorf("forward with %s: %v: %s", policy, err, out)
		}
		if got := count(t, s.db); got != i+1 {
			t.Errorf("%d Records in the database, want %d", got, i+1)
		}
		if got := strings.Count(strings.Join(bodies(t, s.n), "\n"), `"event":"tool.before"`); got != i+1 {
			t.Errorf("%d Records in the stream, want %d", got, i+1)
		}
		if out, err := m.do(t, "machines", "--credentials", s.db.Passwords()); err != nil || !strings.Contains(out, fmt.Sprintf("%d machine", i+1)) {
			t.Errorf("machines of the database of the policy: %v: %s", err, out)
		}
	}
	const unknown = `the authority "CN=Authority of the Tests", which is not trusted: if it is yours, name the file with its certificate (ca: in the policy`
	for policy, want := range map[string]string{
		s.policy("localhost", "?sslmode=verify-full", ""):         unknown,
		s.policy(remote, "", ""):                                  unknown,
		s.policy("127.0.0.1", "?sslmode=verify-full", s.own.file): "the certificate of the server is for another name",
	} {
		m := newMachine(t, policy)
		m.event(t, 1)
		if out, err := m.do(t, "forward"); err == nil || strings.Count(out, want) < 2 {
			t.Errorf("forward with %s: %v: %s, want %s of both servers", policy, err, out, want)
		}
		for _, r := range m.reports(t) {
			if !strings.Contains(r.Error, want) || r.Behind == 0 {
				t.Errorf("status with %s: %+v, want %s", policy, r, want)
			}
		}
	}
}

// TestTLSUsed: the servers see TLS, and permit nothing else.
func TestTLSUsed(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	options := postgres.Options{URL: s.database(remote), Credentials: s.db.Passwords(), CA: s.own.file}
	target, err := postgres.Open(t.Context(), options, one)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	var encrypted []bool
	if err := connect(t, s.db).QueryRow(t.Context(), "SELECT array_agg(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'grapnel'").Scan(&encrypted); err != nil || len(encrypted) != 1 || !encrypted[0] {
		t.Errorf("connections of Grapnel that use TLS: %v, %v", encrypted, err)
	}
	options.URL += "?sslmode=disable"
	if _, err := postgres.Open(t.Context(), options, one); err == nil || !strings.Contains(err.Error(), "no encryption") {
		t.Errorf("the database without TLS: %v", err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+s.n.port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if hello, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(hello, `"tls_required":true`) {
		t.Errorf("the NATS server says %s, %v", hello, err)
	}
}

// TestTLSRefused: servers with a wrong certificate, and files that are no authorities, are refused with a way out.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	s, stranger := newSecured(t), newAuthority(t, "Authority of the Tests")
	damaged := filepath.Join(t.TempDir(), "damaged.pem")
	write(t, damaged, []byte("-----BEGIN CERTIFICATE-----\nx"))
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for name, c := range map[string]struct{ host, ca, want string }{
		"another name":                     {"127.0.0.1", s.own.file, "the certificate of the server is for another name"},
		"an authority with the same name":  {"localhost", stranger.file, `the authority "CN=Authority of the Tests", which is not trusted`},
		"the same for another machine":     {remote, stranger.file, "which is not trusted"},
		"a missing file":                   {"localhost", missing, "cannot read the certificate authorities in " + missing},
		"a damaged file":                   {"localhost", damaged, "cannot read the certificate authorities in " + damaged},
		"no authority for another machine": {remote, "", "which is not trusted"},
	} {
		for server, open := range map[string]func() (io.Closer, error){
			"PostgreSQL": func() (io.Closer, error) {
				return postgres.Open(t.Context(), postgres.Options{URL: s.database(c.host), Credentials: s.db.Passwords(), CA: c.ca}, one)
			},
			"NATS": func() (io.Closer, error) {
				return backend.Open(t.Context(), backend.Options{URL: s.stream(c.host), CA: c.ca}, one)
			},
		} {
			target, err := open()
			if err == nil {
				_ = target.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", server, name, err, c.want)
			}
		}
	}
}

// TestNoDowngrade: a server on another machine that says that it has no TLS gets no login.
func TestNoDowngrade(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan int64, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer conn.Close()
		_, _ = io.CopyN(io.Discard, conn, 8) // the request for TLS
		_, _ = conn.Write([]byte("N"))
		n, _ := io.Copy(io.Discard, conn)
		got <- n
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err = postgres.Open(context.Background(), postgres.Options{URL: "postgres://ann:hunter2@" + remote + ":" + port + "/x"}, one)
	if err == nil || !strings.Contains(err.Error(), "the server has no TLS") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a database without TLS: %v", err)
	}
	if n := <-got; n != 0 {
		t.Errorf("a server without TLS gets %d bytes, want 0", n)
	}
}
