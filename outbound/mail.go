package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/smtp"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A Mail is an e-mail with the server that accepts it.
type Mail struct {
	Server         string        // host:port; port 465 = TLS from the start
	From           string        // address of the sender, with or without a name
	To             []string      // addresses of the recipients
	User, Password string        // empty = no authentication
	Data           []byte        // header and body
	Timeout        time.Duration // limit from the lookup to the last reply; 0 = DefaultHookTimeout
}

// The schemes of e-mail servers, in plain text until STARTTLS, or with TLS from the start.
const (
	schemeSMTP  = "smtp"
	schemeSMTPS = "smtps"
)

// mailPorts are the ports that are forbidden for URLs, but are the ports of e-mail.
var mailPorts = []uint16{25, 465, 587}

// maxMailTalk is the maximum number of bytes that an e-mail server may send.
const maxMailTalk = 256 << 10

// CheckMail checks an e-mail without a lookup: its server like the host of a URL, and its addresses. The
// error is an [*Error].
func (g Guard) CheckMail(m Mail) error {
	_, _, _, err := g.checkMail(m)
	return err
}

func (g Guard) checkMail(m Mail) (server *url.URL, from string, to []string, err error) {
	host, portText, err := net.SplitHostPort(m.Server)
	port, noPort := strconv.ParseUint(portText, 10, 16)
	if err != nil || noPort != nil || host == "" {
		return nil, "", nil, fault(BadURL, "e-mail server %q: want host:port", m.Server)
	}
	u, err := g.CheckURL("https://" + strings.TrimSuffix(net.JoinHostPort(host, ""), ":") + "/")
	switch {
	case err != nil:
		return nil, "", nil, fmt.Errorf("e-mail server: %w", err)
	case slices.Contains(forbiddenPorts, uint16(port)) && !slices.Contains(mailPorts, uint16(port)):
		return nil, "", nil, fault(ForbiddenPort, "e-mail server: port %d is reserved for another protocol", port)
	}
	server = &url.URL{Scheme: schemeSMTP, Host: net.JoinHostPort(u.Hostname(), portText)}
	if port == 465 {
		server.Scheme = schemeSMTPS
	}
	for _, address := range append([]string{m.From}, m.To...) {
		parsed, err := mail.ParseAddress(address)
		if err != nil {
			return nil, "", nil, fault(BadHeader, "e-mail address %q: %w", address, err)
		}
		to = append(to, parsed.Address)
	}
	if len(to) < 2 {
		return nil, "", nil, fault(BadHeader, "the e-mail has no recipient")
	}
	return server, to[0], to[1:], nil
}

// Mail sends an e-mail. The server must have a valid certificate for its name, unless it is on loopback
// and offers no encryption. The error is an [*Error], together with the Reply if there is one. With a
// status of 500 or more, the Reply is Final; lower ones are temporary. If the server refuses one recipient, no
// recipient gets the e-mail.
func (c *Client) Mail(ctx context.Context, m Mail) (Reply, error) {
	server, from, to, err := c.Guard().checkMail(m)
	timeout := cmp.Or(m.Timeout, DefaultHookTimeout)
	switch {
	case err != nil:
		return Reply{}, err
	case timeout < 0 || timeout > MaxTimeout:
		return Reply{}, fault(BadTimeout, "timeout %v: must be more than 0 and at most %v", m.Timeout, MaxTimeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
	defer cancel()
	err = c.mail(ctx, server, from, to, &m)
	refused, ok := errors.AsType[*textproto.Error](err)
	if !ok {
		return Reply{}, explain(ctx, server.Hostname(), err)
	}
	reply := Reply{Status: refused.Code, Text: excerpt(refused.Msg, []string{m.Password}), Final: refused.Code >= 500}
	kind := Refused
	if reply.Final {
		kind = Rejected
	}
	return reply, fault(kind, "%s answered with status %d: %s", server.Hostname(), reply.Status, reply.Text)
}

func (c *Client) mail(ctx context.Context, server *url.URL, from string, to []string, m *Mail) error {
	conn, err := c.connect(ctx, server)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.tcp.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		_ = conn.tcp.Close()
	}()
	talk, err := smtp.NewClient(&shortConn{Conn: conn, left: maxMailTalk}, server.Hostname())
	if err != nil {
		return err
	}
	if err := talk.Hello(literal(conn.LocalAddr())); err != nil {
		return err
	}
	if server.Scheme == schemeSMTP {
		if err := c.startTLS(talk, server.Hostname(), conn.addr); err != nil {
			return err
		}
	}
	if m.User != "" {
		if ok, _ := talk.Extension("AUTH"); !ok {
			return fault(Rejected, "%s does not accept a user name", server.Hostname())
		}
		if err := talk.Auth(smtp.PlainAuth("", m.User, m.Password, server.Hostname())); err != nil {
			return err
		}
	}
	if err := talk.Mail(from); err != nil {
		return err
	}
	for _, address := range to {
		if err := talk.Rcpt(address); err != nil {
			return err
		}
	}
	return send(talk, m.Data)
}

// send sends the text of an e-mail. After the server's reply to it, the e-mail is delivered, and further
// errors do not matter.
func send(talk *smtp.Client, data []byte) error {
	w, err := talk.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = talk.Quit()
	return nil
}

// startTLS encrypts a connection. An attacker on the way could remove the server's offer, so only a server
// on loopback may lack it.
func (c *Client) startTLS(talk *smtp.Client, host string, addr netip.Addr) error {
	if offered, _ := talk.Extension("STARTTLS"); !offered {
		if addr.Unmap().IsLoopback() {
			return nil
		}
		return fault(TLS, "%s offers no encryption (STARTTLS): use its port for TLS, 465", host)
	}
	config, err := c.tlsConfig(host)
	if err != nil {
		return err
	}
	err = talk.StartTLS(config)
	if _, refused := errors.AsType[*textproto.Error](err); err != nil && !refused {
		return fault(TLS, "%s: %w", host, err)
	}
	return err
}

// literal returns an address in the form in which a client without a name introduces itself (RFC 5321,
// section 4.1.3).
func literal(local net.Addr) string {
	at, err := netip.ParseAddrPort(local.String())
	switch addr := at.Addr().Unmap(); {
	case err != nil:
		return "localhost"
	case addr.Is4():
		return "[" + addr.String() + "]"
	default:
		return "[IPv6:" + addr.WithZone("").String() + "]"
	}
}

// A shortConn is a connection that ends after a number of read bytes, because package smtp reads lines of
// any length.
type shortConn struct {
	net.Conn
	left int
}

func (c *shortConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fault(Unreachable, "the e-mail server sent more than %d bytes", maxMailTalk)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
