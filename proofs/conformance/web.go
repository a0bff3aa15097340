package conformance

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/outbound"
)

// A web is everything that the webhooks of a case can reach: one server on loopback, which
// answers for every name and every address.
type web struct {
	script   script
	roots    *x509.CertPool
	listener net.Listener
	server   *http.Server

	mu       sync.Mutex
	lookups  int
	dialled  []string // addresses with ports
	requests []request
	open     int // requests in progress
	most     int // highest number of concurrent requests
	read     atomic.Int64
}

// A script describes the behavior of the name service and the server.
type script struct {
	DNS      []string          // addresses of every name; nil = a public one
	LaterDNS []string          // addresses from the second lookup on; nil = DNS
	NoDNS    bool              // lookups fail
	DNSDelay time.Duration     // duration of a lookup
	Delay    time.Duration     // delay before the response
	Status   int               // status of the response; 0 = 200
	Headers  map[string]string // headers of the response
	Body     int64             // size of the response body in bytes
	Expanded int64             // size of the body in bytes before compression
	Drip     time.Duration     // delay between two bytes

	CertNames  []string // names in the certificate; if CertIPs is empty too = the requested host
	CertIPs    []string
	SelfSigned bool // the certificate has no trusted root
}

// header returns a header of the response. The name is not case-sensitive.
func (s *script) header(name string) string {
	for key, value := range s.Headers {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// A request is a request that the server received.
type request struct {
	method string
	header http.Header
	body   []byte
	all    []byte
}

// somePublicAddress is the address of names without DNS entries in the script.
const somePublicAddress = "93.184.216.34"

// newWeb starts the server. The caller must close the web.
func newWeb(s script) (*web, error) {
	w := &web{script: s, roots: x509.NewCertPool()}
	certificate, err := w.certificates()
	if err != nil {
		return nil, err
	}
	if w.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	w.server = &http.Server{
		Handler: http.HandlerFunc(w.serve), ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = w.server.ServeTLS(w.listener, "", "") }()
	return w, nil
}

func (w *web) close() {
	_ = w.server.Close()
	_ = w.listener.Close()
}

// deliver sends an event to a webhook. The client can only reach the web.
func (w *web) deliver(ctx context.Context, guard outbound.Guard, cfg outbound.Config) error {
	client := outbound.NewClient(&outbound.Options{Guard: guard, RootCAs: w.roots, Resolver: w, Dial: w.dial})
	hook, err := client.Webhook(cfg)
	if err != nil {
		return err
	}
	return hook.Deliver(ctx, &grapnel.Event{Kind: grapnel.SessionStart})
}

// LookupNetIP is the web's name service.
func (w *web) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	select {
	case <-time.After(w.script.DNSDelay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.script.NoDNS {
		return nil, errors.New("the lookup failed")
	}
	texts := w.script.DNS
	w.mu.Lock()
	w.lookups++
	if w.lookups > 1 && w.script.LaterDNS != nil {
		texts = w.script.LaterDNS
	}
	w.mu.Unlock()
	if texts == nil {
		texts = []string{somePublicAddress}
	}
	addrs := make([]netip.Addr, len(texts))
	for i, text := range texts {
		var err error
		if addrs[i], err = netip.ParseAddr(text); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}

// dial records the address, and connects to the server.
func (w *web) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, w.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, read: &w.read}, nil
}

// countedConn counts the bytes that the client reads.
type countedConn struct {
	net.Conn
	read *atomic.Int64
}

// Read reads from the connection and counts the bytes.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// got returns the requests so far.
func (w *web) got() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// hosts returns the dialed addresses so far, without ports.
func (w *web) hosts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	hosts := make([]string, len(w.dialled))
	for i, address := range w.dialled {
		hosts[i], _, _ = net.SplitHostPort(address)
	}
	return hosts
}

// direct reports whether the client dialed only the port of the URL, at the address of its
// host.
func (w *web) direct(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	host := somePublicAddress
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		host = addr.Unmap().String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.dialled, func(to string) bool {
		return to != net.JoinHostPort(host, cmp.Or(strings.TrimLeft(u.Port(), "0"), "443"))
	})
}

func (w *web) serve(out http.ResponseWriter, in *http.Request) {
	var all bytes.Buffer
	body, _ := io.ReadAll(in.Body)
	in.Body = io.NopCloser(bytes.NewReader(body))
	_ = in.Write(&all)
	w.mu.Lock()
	w.requests = append(w.requests, request{in.Method, in.Header, body, all.Bytes()})
	w.open++
	w.most = max(w.most, w.open)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.open--
		w.mu.Unlock()
	}()
	s := w.script
	if !wait(in.Context(), s.Delay) {
		return
	}
	for name, value := range s.Headers {
		out.Header().Set(name, value)
	}
	out.WriteHeader(cmp.Or(s.Status, http.StatusOK))
	_ = http.NewResponseController(out).Flush()
	switch {
	case s.Drip > 0:
		for range cmp.Or(s.Body, 1<<20) {
			if _, err := out.Write([]byte("x")); err != nil || http.NewResponseController(out).Flush() != nil || !wait(in.Context(), s.Drip) {
				return
			}
		}
	case s.Expanded > 0:
		for member := zeroMember(); s.Expanded > 0; s.Expanded -= memberSize {
			if _, err := out.Write(member); err != nil {
				return
			}
		}
	default:
		_, _ = io.CopyN(out, zeros{}, s.Body)
	}
}

// wait waits for d. It returns false if ctx is done before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// memberSize is the expanded size of a zeroMember in bytes.
const memberSize = 1 << 20

// zeroMember is a gzip member. Any number of members, one after the other, is a valid gzip
// file.
var zeroMember = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.CopyN(z, zeros{}, memberSize)
	_ = z.Close()
	return b.Bytes()
})

// zeros is an endless reader.
type zeros struct{}

// Read fills p with zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// certificates returns a function that makes the server's certificates, and adds their root to
// the web's roots.
func (w *web) certificates() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // the server's key
	if err != nil {
		return nil, err
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		}
	}
	root := template("root")
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		return nil, err
	}
	if root, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	w.roots.AddCert(root)
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		leaf, parent, parentKey := template("server"), root, rootKey
		leaf.DNSNames = w.script.CertNames
		for _, ip := range w.script.CertIPs {
			leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(ip))
		}
		switch {
		case len(leaf.DNSNames)+len(leaf.IPAddresses) > 0:
		case hello.ServerName != "":
			leaf.DNSNames = []string{hello.ServerName}
		default: // for an address, clients send no name: use the last dialed address
			hosts := w.hosts()
			leaf.IPAddresses = []net.IP{net.ParseIP(hosts[len(hosts)-1])}
		}
		if w.script.SelfSigned {
			parent, parentKey = leaf, key
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, parent, &key.PublicKey, parentKey)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
	}, nil
}
