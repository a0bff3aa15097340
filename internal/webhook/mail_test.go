package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/webhook/webhooktest"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func mailTo(s *webhooktest.MailServer) policyfile.HTTP {
	return policyfile.HTTP{Notify: true, SMTP: &policyfile.SMTP{Server: s.Addr, From: "Grapnel <grapnel@corp.example>", To: []string{"ada@corp.example", "Téam <team@corp.example>"}}}
}

func mailClient(s *webhooktest.MailServer) *outbound.Client {
	return outbound.NewClient(&outbound.Options{RootCAs: s.Roots, Guard: outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
}

// An e-mail arrives over STARTTLS with a password. No text of an event becomes a header, a recipient or the
// end of the e-mail.
func TestMail(t *testing.T) {
	t.Parallel()
	s := webhooktest.NewMailServer(t)
	s.Password = "s3cret"
	s.Start(t)
	h := mailTo(s)
	h.SMTP.User, h.SMTP.Password = "grapnel", "s3cret"
	client := mailClient(s)
	send := func(h policyfile.HTTP, j *Delivery) *webhooktest.Message {
		t.Helper()
		before := len(s.Box.Messages())
		if reply, err := Send(t.Context(), client, &h, j); err != nil {
			t.Errorf("%+v: %v", reply, err)
			return &webhooktest.Message{}
		}
		return &s.Box.Messages()[before]
	}
	j := blocked(t, "rm -rf / # é", "Not here.\n.\n..\nFrom ada")
	m := send(h, j)
	want := "Not here.\n.\n..\nFrom ada\n\nrm -rf / # é\n\nRule: no-rm\nMachine: ada on laptop\nDirectory: /home/ada/rm\nTime: 2026-11-21T20:00:00Z\n"
	if m.Title != "Blocked: Bash in claude-code" || m.Topic != "ada@corp.example team@corp.example" || m.Text != want {
		t.Errorf("%+v", m)
	}
	if m.Header.Get("Message-Id") != "<d1@corp.example>" || m.Header.Get("Auto-Submitted") != "auto-generated" || m.Header.Get("Date") != "Sat, 21 Nov 2026 20:00:00 +0000" {
		t.Errorf("%v", m.Header)
	}
	if again := send(h, j); again.Raw != m.Raw {
		t.Errorf("a repeated delivery differs:\n%s\n%s", again.Raw, m.Raw)
	}
	for name, text := range attacks {
		for _, custom := range []policyfile.HTTP{{}, {Title: `"=?utf-8?Q?=0D=0ABcc:_x?= é " + tool.command`, Text: "tool.command"}} {
			custom.SMTP, custom.Notify = h.SMTP, true
			m := send(custom, blocked(t, text, "stop: "+text))
			if m.Header.Get("Bcc") != "" || len(m.Header) != 9 || strings.ContainsAny(m.Title, "\r\n") || m.Topic != "ada@corp.example team@corp.example" || strings.ContainsAny(m.Text, "\x00\x1b\r\u202e") {
				t.Errorf("%s: %q %q %v", name, m.Title, m.Topic, m.Header)
			}
		}
	}
}

// Each reply of the server is explained, without the password, and only refusals of 500 or more are final.
func TestMailRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*webhooktest.MailServer, *policyfile.SMTP)
		want   string
		status int
	}{
		"unknown user": {func(s *webhooktest.MailServer, _ *policyfile.SMTP) {
			s.Replies = map[string]string{"RCPT": "550 5.1.1 no such user"}
		}, "127.0.0.1 answered with status 550: 5.1.1 no such user", 550},
		"later": {func(s *webhooktest.MailServer, _ *policyfile.SMTP) {
			s.Replies = map[string]string{"MAIL": "451 4.7.1 greylisted"}
		}, "status 451: 4.7.1 greylisted", 451},
		"wrong password": {func(s *webhooktest.MailServer, m *policyfile.SMTP) {
			s.Password, m.User, m.Password = "other", "grapnel", "s3cret-s3cret"
		}, "status 535: 5.7.8 authentication failed for grapnel ***", 535},
		"no password":      {func(s *webhooktest.MailServer, _ *policyfile.SMTP) { s.Password = "other" }, "status 530: 5.7.0 authentication required", 530},
		"no authorization": {func(_ *webhooktest.MailServer, m *policyfile.SMTP) { m.User, m.Password = "grapnel", "s3cret-s3cret" }, "does not accept a user name", 0},
		"STARTTLS fails": {func(s *webhooktest.MailServer, _ *policyfile.SMTP) {
			s.Replies = map[string]string{"STARTTLS": "454 4.7.0 not now"}
		}, "status 454", 454},
		"endless reply": {func(s *webhooktest.MailServer, _ *policyfile.SMTP) {
			s.Replies = map[string]string{"EHLO": "250-" + strings.Repeat("x", 1<<20)}
		}, "sent more than 262144 bytes", 0},
		"forbidden port": {func(_ *webhooktest.MailServer, m *policyfile.SMTP) { m.Server = "127.0.0.1:6379" }, "port 6379 is reserved for another protocol", 0},
		"metadata":       {func(_ *webhooktest.MailServer, m *policyfile.SMTP) { m.Server = "169.254.169.254:25" }, "cloud providers serve credentials there", 0},
		"private":        {func(_ *webhooktest.MailServer, m *policyfile.SMTP) { m.Server = "10.0.0.1:587" }, "10.0.0.1 is private", 0},
		"local name":     {func(_ *webhooktest.MailServer, m *policyfile.SMTP) { m.Server = "localhost:587" }, "is a local name", 0},
		"two addresses": {func(_ *webhooktest.MailServer, m *policyfile.SMTP) {
			m.To = []string{"a@b.example\r\nBcc: c@d.example"}
		}, "to: mail: ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := webhooktest.NewMailServer(t)
			h := mailTo(s)
			tt.change(s, h.SMTP)
			s.Start(t)
			reply, err := Send(t.Context(), mailClient(s), &h, blocked(t, "rm", "no"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") || reply.Status != tt.status || reply.Final != (tt.status >= 500) {
				t.Errorf("%+v, %v, want %s", reply, err, tt.want)
			}
			if _, _, again := Wait(0, reply, 0); again == reply.Final {
				t.Errorf("tried again: %v", again)
			}
		})
	}
}

// A server must have a trusted certificate. It may do without encryption on loopback only, and then gets a
// password only there.
func TestMailEncryption(t *testing.T) {
	t.Parallel()
	type options = outbound.Options
	for name, tt := range map[string]struct {
		change func(*webhooktest.MailServer, *policyfile.SMTP, *options)
		want   string // error; empty = delivered
	}{
		"clear on loopback": {func(s *webhooktest.MailServer, _ *policyfile.SMTP, _ *options) { s.NoTLS = true }, ""},
		"clear elsewhere": {func(s *webhooktest.MailServer, m *policyfile.SMTP, o *options) {
			s.NoTLS = true
			elsewhere(s, m, o, "587")
		}, "offers no encryption (STARTTLS)"},
		"unknown authority": {func(_ *webhooktest.MailServer, _ *policyfile.SMTP, o *options) { o.RootCAs = nil }, "certificate signed by unknown authority"},
		"other name": {func(s *webhooktest.MailServer, m *policyfile.SMTP, o *options) {
			elsewhere(s, m, o, "587")
			m.Server = "mail.example.org:587"
		}, "not mail.example.org"},
		"STARTTLS elsewhere": {func(s *webhooktest.MailServer, m *policyfile.SMTP, o *options) { elsewhere(s, m, o, "587") }, ""},
		"TLS from the start": {func(s *webhooktest.MailServer, m *policyfile.SMTP, o *options) {
			s.Implicit = true
			elsewhere(s, m, o, "465")
		}, ""},
		"no TLS at 465": {func(s *webhooktest.MailServer, m *policyfile.SMTP, o *options) {
			s.NoTLS = true
			elsewhere(s, m, o, "465")
		}, "example.com: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := webhooktest.NewMailServer(t)
			h := mailTo(s)
			o := &options{RootCAs: s.Roots, Guard: outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
			tt.change(s, h.SMTP, o)
			s.Start(t)
			reply, err := Send(t.Context(), outbound.NewClient(o), &h, blocked(t, "rm", "no"))
			if n := len(s.Box.Messages()); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || n != 1 && tt.want == "" || n != 0 && tt.want != "" {
				t.Errorf("%+v, %v, %d messages, want %q", reply, err, n, tt.want)
			}
		})
	}
}

// elsewhere gives the server a public address and the name of its certificate.
func elsewhere(s *webhooktest.MailServer, m *policyfile.SMTP, o *outbound.Options, port string) {
	addr := s.Addr
	m.Server = "example.com:" + port
	o.Resolver = names{}
	o.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != "93.184.215.14:"+port {
			return nil, fmt.Errorf("dial of %s", to)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}

// A server that says nothing ends the attempt at its timeout.
func TestMailTimeout(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	h := policyfile.HTTP{Timeout: policyfile.Duration(50 * time.Millisecond), SMTP: &policyfile.SMTP{Server: listener.Addr().String(), From: "a@b.example", To: []string{"c@d.example"}}}
	_, err = Send(t.Context(), onLoopback(), &h, blocked(t, "rm", "no"))
	if known, ok := errors.AsType[*outbound.Error](err); !ok || known.Fault != outbound.Timeout {
		t.Errorf("%v", err)
	}
}
