package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const (
	// mailSubject keeps the encoded line below 998 bytes, the limit of RFC 5322: a byte of text becomes
	// at most four.
	mailSubject = 150
	mailText    = 32 << 10
)

// Mail returns the e-mail of a delivery. The same delivery always has the same bytes, with the ID of the
// delivery in the Message-ID, so that receivers recognize a repeated one.
func Mail(h *policyfile.HTTP, j *Delivery) (outbound.Mail, error) {
	s := h.SMTP
	m := outbound.Mail{Server: s.Server, From: s.From, To: s.To, User: s.User, Password: s.Password, Timeout: time.Duration(h.Timeout)}
	ev, origin, err := read(j)
	if err != nil {
		return m, err
	}
	n, err := noticeOf(h, j, ev, origin)
	if err != nil {
		return m, err
	}
	from, err := mail.ParseAddress(s.From)
	if err != nil {
		return m, fmt.Errorf("from: %w", err)
	}
	var to []string
	for _, text := range s.To {
		address, err := mail.ParseAddress(text)
		if err != nil {
			return m, fmt.Errorf("to: %w", err)
		}
		to = append(to, address.String())
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	var b bytes.Buffer
	// None of the values can have a line break. "=?" in a title would be read as encoded text.
	for _, line := range [][2]string{
		{"From", from.String()},
		{"To", strings.Join(to, ",\r\n ")},
		{"Subject", mime.QEncoding.Encode("utf-8", strings.ReplaceAll(fit(n.title, mailSubject, nil), "=?", "= ?"))},
		{"Date", j.Created.UTC().Format(time.RFC1123Z)},
		{"Message-ID", "<" + strings.Map(atom, j.ID) + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: no vacation replies
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(line[0] + ": " + line[1] + "\r\n")
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, err = w.Write([]byte(n.lines(mailText) + "\n"))
	err = errors.Join(err, w.Close())
	m.Data = b.Bytes()
	return m, err
}

// atom replaces the characters that a Message-ID cannot contain.
func atom(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '-'
}

func sendMail(ctx context.Context, c *outbound.Client, h *policyfile.HTTP, j *Delivery) (outbound.Reply, error) {
	m, err := Mail(h, j)
	if err != nil {
		return outbound.Reply{}, err
	}
	return c.Mail(ctx, m)
}
