package webhooktest

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A MailServer is an SMTP server on loopback. Its fields must not change after Start.
type MailServer struct {
	Addr  string         // host:port
	Roots *x509.CertPool // with the Authority

	Authority []byte // the authority of its certificate, in DER

	Box      *Box
	NoTLS    bool              // offers no STARTTLS
	Implicit bool              // speaks TLS from the start
	Password string            // of the user "grapnel"; empty = no authentication
	Replies  map[string]string // replies to commands, such as "RCPT": "550 unknown user"
	config   *tls.Config
	listener net.Listener
}

// NewMailServer returns a server that listens. It answers after Start.
func NewMailServer(t testing.TB) *MailServer {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	s := &MailServer{Box: &Box{}, Roots: x509.NewCertPool(), config: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}}
	s.Roots.AddCert(web.Certificate())
	s.Authority = web.Certificate().Raw
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s.Addr, s.listener = listener.Addr().String(), listener
	return s
}

// Start serves connections until the test ends.
func (s *MailServer) Start(t testing.TB) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			s.serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = s.listener.Close()
		<-done
	})
}

var helloName = regexp.MustCompile(`^(\[[0-9.]+\]|\[IPv6:[0-9a-f:]+\]|[a-z0-9-]+(\.[a-z0-9-]+)+)$`) // RFC 5321, 4.1.1.1

// A talk is the state of one connection.
type talk struct {
	*MailServer
	net.Conn
	lines  *bufio.Reader
	safe   bool // encrypted
	hello  bool
	authed bool
	from   string
	to     []string
}

func (s *MailServer) serve(conn net.Conn) {
	c := &talk{MailServer: s, Conn: conn, lines: bufio.NewReader(conn), safe: s.Implicit}
	if s.Implicit {
		c.secure()
	}
	c.say("220 mail.example.com ESMTP")
	for {
		line, ok := c.line()
		if !ok {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		if reply, ok := s.Replies[verb]; ok {
			c.say(reply)
			continue
		}
		if verb == "QUIT" {
			c.say("221 bye")
			return
		}
		c.say(c.answer(verb, rest))
	}
}

func (c *talk) secure() {
	c.safe, c.hello = true, false
	c.Conn = tls.Server(c.Conn, c.config)
	c.lines = bufio.NewReader(c.Conn)
}

func (c *talk) say(line string) {
	if line != "" {
		fmt.Fprint(c.Conn, line+"\r\n")
	}
}

// line reads a line that ends in CR LF, and has no other CR or LF.
func (c *talk) line() (string, bool) {
	line, err := c.lines.ReadString('\n')
	text, ok := strings.CutSuffix(line, "\r\n")
	if err == nil && (!ok || len(line) > 1000 || strings.Contains(text, "\r")) {
		c.say("500 5.5.2 bare or long line")
		return "", false
	}
	return text, err == nil
}

func (c *talk) answer(verb, rest string) string {
	switch {
	case verb == "EHLO" && !helloName.MatchString(rest):
		return "504 5.5.2 need a fully qualified name or an address literal"
	case verb == "EHLO":
		c.hello = true
		reply := "250-mail.example.com\r\n"
		if !c.safe && !c.NoTLS {
			reply += "250-STARTTLS\r\n"
		}
		if c.Password != "" {
			reply += "250-AUTH PLAIN\r\n"
		}
		return reply + "250 8BITMIME"
	case !c.hello:
		return "503 5.5.1 EHLO first"
	case verb == "STARTTLS" && !c.safe && !c.NoTLS:
		c.say("220 go ahead")
		c.secure()
		return ""
	case !c.safe && !c.NoTLS:
		return "530 5.7.0 must issue STARTTLS first"
	case verb == "AUTH":
		token, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
		if c.authed = c.Password != "" && string(token) == "\x00grapnel\x00"+c.Password; !c.authed {
			return "535 5.7.8 authentication failed for " + string(token)
		}
		return "235 ok"
	case c.Password != "" && !c.authed:
		return "530 5.7.0 authentication required"
	case verb == "MAIL" && strings.HasPrefix(rest, "FROM:<"):
		c.from, _, _ = strings.Cut(rest[6:], ">")
		return "250 ok"
	case verb == "RCPT" && strings.HasPrefix(rest, "TO:<") && c.from != "":
		c.to = append(c.to, strings.TrimSuffix(rest[4:], ">"))
		return "250 ok"
	case verb == "DATA" && len(c.to) > 0:
		c.say("354 end with .")
		return c.data()
	}
	return "503 5.5.1 bad sequence of commands"
}

// data reads an e-mail and checks its form.
func (c *talk) data() string {
	var raw strings.Builder
	for {
		line, ok := c.line()
		if !ok {
			return "500 5.5.2 incomplete"
		}
		if line == "." {
			break
		}
		raw.WriteString(strings.TrimPrefix(line, ".") + "\r\n")
	}
	m, err := mail.ReadMessage(strings.NewReader(raw.String()))
	if err != nil {
		return "554 5.6.0 not a message"
	}
	for name, values := range m.Header {
		if len(values) > 1 {
			return "554 5.6.0 twice: " + name
		}
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	subject, wrong := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	from, noFrom := m.Header.AddressList("From")
	to, noTo := m.Header.AddressList("To")
	_, noDate := m.Header.Date()
	kind, _, noKind := mime.ParseMediaType(m.Header.Get("Content-Type"))
	for _, err := range []error{err, wrong, noFrom, noTo, noDate, noKind} {
		if err != nil {
			return "554 5.6.0 " + err.Error()
		}
	}
	if kind != "text/plain" || len(from) != 1 || from[0].Address != c.from || len(to) != len(c.to) || m.Header.Get("Message-Id") == "" {
		return "554 5.6.0 wrong header"
	}
	c.Box.add(Message{Topic: strings.Join(c.to, " "), Title: subject, Text: strings.ReplaceAll(string(text), "\r\n", "\n"), Header: map[string][]string(m.Header), Raw: raw.String()})
	c.from, c.to = "", nil
	return "250 2.0.0 queued"
}
