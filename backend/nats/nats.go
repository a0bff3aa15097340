// Package nats keeps the Records of many machines in a stream of NATS JetStream. It is not an API: grapnel
// uses it. Each machine has a subject of its own, grapnel.records.ID, and each line is a message with these headers:
//
//	Grapnel-Key     the ID and the decision of a Record, or the ID and the digest of a late line, as in a URL
//	Grapnel-Seq     the row in the log of the machine
//	Grapnel-Digest  the SHA-256 of the line, in hex
//	Grapnel-Missed  Records that the machine removed before it could send them; only if there are any
//
// The last message of a subject is the position of its machine. A batch names the message that it expects
// to be the last one, so the server stores it once or not at all, however late it arrives. A window of message IDs
// would forget them after an outage.
package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/grapnel-dev/grapnel/internal/certs"
	"github.com/grapnel-dev/grapnel/internal/forward"
)

// DefaultStream is the stream if the URL names none.
const DefaultStream = "GRAPNEL"

// subjects begins the subject of each machine.
const subjects = "grapnel.records."

// The headers of a message.
const (
	keyHeader    = "Grapnel-Key"
	seqHeader    = "Grapnel-Seq"
	digestHeader = "Grapnel-Digest"
	missedHeader = "Grapnel-Missed"
)

// Options name a stream.
type Options struct {
	// URL is nats://HOST[:PORT][/STREAM]. tls=no permits a server on another machine without TLS. synced=yes
	// states that the server flushes each message before it acknowledges it.
	URL string

	// Credentials is a credentials file; empty = the file in NATS_CREDS, or none.
	Credentials string

	CA string // a PEM file with the certificate authorities of the server; empty = the authorities of the system
}

// An address is a parsed URL.
type address struct {
	server, stream string
	secure, synced bool
}

func (o Options) address() (a address, err error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return a, errors.New("cannot read the address of the stream: it is not a URL")
	}
	a.server = "nats://" + u.Host
	a.stream = cmp.Or(strings.Trim(u.Path, "/"), DefaultStream)
	if strings.ContainsAny(a.stream, ". *>/\\") {
		return a, fmt.Errorf("%q is no name of a stream: write letters, digits, - and _", a.stream)
	}
	ip := net.ParseIP(u.Hostname())
	a.secure = u.Query().Get("tls") != "no" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
	a.synced = u.Query().Get("synced") == "yes"
	return a, nil
}

// connect opens a connection. It does not connect again by itself: the Forwarder does that. Answers arrive below
// the subject inbox, which only this machine needs to read; empty = below _INBOX.
func connect(ctx context.Context, o Options, inbox string) (*nats.Conn, address, error) {
	a, err := o.address()
	if err != nil {
		return nil, a, err
	}
	options := []nats.Option{nats.Name("grapnel"), nats.NoReconnect(), nats.ErrorHandler(closeRefused)}
	if end, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(min(time.Until(end), 10*time.Second)))
	}
	if file := cmp.Or(o.Credentials, os.Getenv("NATS_CREDS")); file != "" {
		options = append(options, nats.UserCredentials(file))
	}
	if o.CA != "" {
		roots, err := certs.Roots(x509.NewCertPool(), []string{o.CA})
		if err != nil {
			return nil, a, err
		}
		options = append(options, nats.Secure(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
	}
	if a.secure {
		options = append(options, nats.Secure())
	}
	if inbox != "" {
		options = append(options, nats.CustomInboxPrefix(inbox))
	}
	conn, err := nats.Connect(a.server, options...)
	if err != nil {
		return nil, a, explain(err, a)
	}
	return conn, a, nil
}

// closeRefused ends a connection that may not publish: the server does not answer such a request.
func closeRefused(conn *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		conn.Close()
	}
}

// explain adds what the operator can do about an error of the server.
func explain(err error, a address) error {
	hint := certs.Hint(err)
	switch {
	case hint != "":
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrPermissionViolation):
		hint = "the server refuses the credentials: check the credentials file (credentials: or NATS_CREDS), and that it permits " + subjects + "ID and the other subjects that docs/many-machines.md lists"
	case errors.Is(err, nats.ErrSecureConnWanted):
		hint = "the server has no TLS: give it a certificate, or add ?tls=no to the address"
	case errors.Is(err, jetstream.ErrStreamNotFound):
		hint = "create the stream with: grapnel forward setup " + a.server + "/" + a.stream
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		hint = "the server or the account has no JetStream: enable it"
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, context.DeadlineExceeded):
		hint = "cannot reach the server at " + a.server
	}
	if hint == "" {
		return fmt.Errorf("the NATS server reports: %w", err)
	}
	return fmt.Errorf("%s (%w)", hint, err)
}

// Setup creates the stream, or changes the time for which it keeps messages. 0 days = as before, at first 90. The
// stream has one replica; "nats stream edit" changes that and all else. It permits direct reads, because their
// subjects name the machine: so the server can permit each machine to read its own messages only.
func Setup(ctx context.Context, o Options, days int) (created bool, err error) {
	conn, a, err := connect(ctx, o, "")
	if err != nil {
		return false, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return false, err
	}
	const day = 24 * time.Hour
	stream, err := js.Stream(ctx, a.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: a.stream, Description: "Records of Grapnel, a subject for each machine", Subjects: []string{subjects + "*"}, Storage: jetstream.FileStorage,
			MaxAge: time.Duration(cmp.Or(days, 90)) * day, Duplicates: time.Minute, AllowAtomicPublish: true, AllowDirect: true, DenyDelete: true,
		})
		if err == nil {
			return true, nil
		}
	}
	if err == nil {
		config := stream.CachedInfo().Config
		config.AllowAtomicPublish, config.AllowDirect = true, true
		if days > 0 {
			config.MaxAge = time.Duration(days) * day
		}
		_, err = js.UpdateStream(ctx, config)
	}
	if err != nil {
		return false, fmt.Errorf("cannot prepare the stream %s: %w", a.stream, explain(err, a))
	}
	return false, nil
}

// A Target stores the Records of one machine. It implements [forward.Target].
type Target struct {
	conn    *nats.Conn
	stream  jetstream.Stream
	address address
	subject string
	atomic  bool
	last    uint64          // number of the last message of the subject
	have    map[string]bool // keys of the subject; only after Rewind
}

var _ forward.Target = (*Target)(nil)

// validMachine permits only IDs that cannot change the meaning of a subject.
var validMachine = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Open connects to a stream for a machine.
func Open(ctx context.Context, o Options, machine string) (*Target, error) {
	if !validMachine.MatchString(machine) {
		return nil, fmt.Errorf("%q is no ID of a machine", machine)
	}
	conn, a, err := connect(ctx, o, nats.InboxPrefix+machine)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	var stream jetstream.Stream
	if err == nil {
		stream, err = js.Stream(ctx, a.stream)
	}
	if err != nil {
		conn.Close()
		return nil, explain(err, a)
	}
	return &Target{conn: conn, stream: stream, address: a, subject: subjects + machine, atomic: stream.CachedInfo().Config.AllowAtomicPublish}, nil
}

// Close ends the connection.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Warning tells if the server can lose messages that it has acknowledged.
func (t *Target) Warning() string {
	switch config := t.stream.CachedInfo().Config; {
	case config.Storage == jetstream.MemoryStorage:
		return fmt.Sprintf("the stream %s is in memory: a restart of the server loses its Records; use the storage \"file\"", t.address.stream)
	case config.Replicas >= 3 || t.address.synced:
		return ""
	}
	return fmt.Sprintf("the stream %s has one copy, and NATS flushes acknowledged messages only every two minutes by default: a power cut of the server can lose Records. "+
		"Give the stream 3 replicas, or set sync_interval: always in the server and then add ?synced=yes to the address", t.address.stream)
}

// Position returns the position that is in the last message.
func (t *Target) Position(ctx context.Context) (p forward.Position, err error) {
	t.last = 0
	m, err := t.stream.GetLastMsgForSubject(ctx, t.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return p, nil
	}
	if err != nil {
		return p, explain(err, t.address)
	}
	t.last = m.Sequence
	p.Seq, err = strconv.ParseInt(m.Header.Get(seqHeader), 10, 64)
	if n, failed := hex.Decode(p.Digest[:], []byte(m.Header.Get(digestHeader))); err != nil || failed != nil || n != len(p.Digest) {
		return forward.Position{Seq: -1}, nil //nolint:nilerr // another program wrote it: Rewind finds what is there
	}
	return p, nil
}

// Rewind reads the keys of the messages of this machine.
func (t *Target) Rewind(ctx context.Context) error {
	consumer, err := t.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{t.subject}, HeadersOnly: true})
	if err != nil {
		return explain(err, t.address)
	}
	have := map[string]bool{}
	for {
		batch, err := consumer.FetchNoWait(10_000)
		if err != nil {
			return explain(err, t.address)
		}
		n := 0
		for m := range batch.Messages() {
			n++
			have[m.Headers().Get(keyHeader)] = true
		}
		if batch.Error() != nil {
			return explain(batch.Error(), t.address)
		}
		if n == 0 {
			t.have = have
			return nil
		}
	}
}

// Send stores the lines that the stream does not have.
func (t *Target) Send(ctx context.Context, _ forward.Position, lines []forward.Line, missed int64) error {
	var messages []*nats.Msg
	for i := range lines {
		key := url.PathEscape(lines[i].Key()) // a header cannot contain all characters
		if t.have[key] {
			continue
		}
		m := nats.NewMsg(t.subject)
		m.Data = lines[i].Text
		m.Header.Set(keyHeader, key)
		m.Header.Set(seqHeader, strconv.FormatInt(lines[i].Seq, 10))
		m.Header.Set(digestHeader, hex.EncodeToString(lines[i].Digest[:]))
		if missed > 0 {
			m.Header.Set(missedHeader, strconv.FormatInt(missed, 10))
			missed = 0
		}
		messages = append(messages, m)
	}
	if t.atomic && len(messages) > 1 {
		return t.batch(ctx, messages)
	}
	for _, m := range messages {
		if err := t.publish(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// publish sends a message, and expects the subject to be as it was.
func (t *Target) publish(ctx context.Context, m *nats.Msg) error {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(t.last, 10))
	ack, err := t.request(ctx, m)
	if err == nil {
		t.last = ack.Sequence
	}
	return err
}

// batch sends messages as a unit. A server permits only some batches at once, so a batch may have to be
// sent again.
func (t *Target) batch(ctx context.Context, messages []*nats.Msg) error {
	for {
		err := t.batchOnce(ctx, messages)
		if !errors.Is(err, errBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return explain(ctx.Err(), t.address)
		case <-time.After(50*time.Millisecond + rand.N(200*time.Millisecond)):
		}
	}
}

// batchOnce sends a batch, see ADR-50 of NATS. The server answers the first message, and the last
// one with the result.
func (t *Target) batchOnce(ctx context.Context, messages []*nats.Msg) error {
	id := nats.NewInbox()[len(nats.InboxPrefix):]
	for i, m := range messages {
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		m.Header.Del("Nats-Batch-Commit")
		var err error
		switch {
		case i == 0:
			m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(t.last, 10))
			_, err = t.request(ctx, m)
		case i < len(messages)-1:
			err = t.conn.PublishMsg(m)
		default:
			m.Header.Set("Nats-Batch-Commit", "1")
			var ack *jetstream.PubAck
			if ack, err = t.request(ctx, m); err == nil {
				t.last = ack.Sequence
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errBusy is the error of a batch that can be sent again.
var errBusy = errors.New("the server has too many batches at once")

// The codes of errors of the server.
const (
	wrongLastSequence     = 10071
	wrongLastSequenceText = 10164 // without the number
	batchIncomplete       = 10176
	tooManyBatches        = 10210
)

// request sends a message and waits for the answer of the stream. The answer to the first message of a
// batch is empty.
func (t *Target) request(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	answer, err := t.conn.RequestMsgWithContext(ctx, m)
	if last := t.conn.LastError(); err != nil && errors.Is(last, nats.ErrPermissionViolation) {
		err = last
	}
	if err != nil {
		return nil, explain(err, t.address)
	}
	ack, err := readAck(answer.Data)
	var failed *jetstream.APIError
	switch {
	case err == nil:
		return ack, nil
	case !errors.As(err, &failed):
	case failed.ErrorCode == wrongLastSequence, failed.ErrorCode == wrongLastSequenceText:
		return nil, forward.ErrMoved
	case failed.ErrorCode == batchIncomplete, failed.ErrorCode == tooManyBatches:
		return nil, errBusy
	}
	return nil, explain(err, t.address)
}
