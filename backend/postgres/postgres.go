// Package postgres keeps the Records of many machines in a PostgreSQL database, 13 or newer. It is not an API:
// grapnel uses it.
package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnel-dev/grapnel/internal/certs"
)

// Options name a database.
type Options struct {
	URL string // postgres://..., with the parameters of libpq

	// Credentials is a password file in the format of .pgpass; empty = the usual places of libpq:
	// the environment, a service file, ~/.pgpass.
	Credentials string

	CA string // a PEM file with the certificate authorities of the server; empty = the authorities of the system
}

// connect opens one connection.
func connect(ctx context.Context, o Options) (*pgx.Conn, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, o.explain(err)
	}
	return conn, nil
}

// config returns the configuration of a connection. With a CA, and on other machines, the server must have a
// valid certificate, unless the URL or the environment sets another sslmode.
func (o Options) config() (*pgx.ConnConfig, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("cannot read the address of the database: it is not a URL") // the text of the error could contain a password
	}
	q := u.Query()
	set := func(name, value string) {
		if value != "" && !q.Has(name) {
			q.Set(name, value)
		}
	}
	set("passfile", o.Credentials)
	set("sslrootcert", o.CA)
	set("application_name", "grapnel")
	if o.CA != "" {
		if _, err := certs.Roots(x509.NewCertPool(), []string{o.CA}); err != nil {
			return nil, err
		}
	}
	u.RawQuery = q.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err == nil && !q.Has("sslmode") && !q.Has("service") && os.Getenv("PGSSLMODE") == "" && (o.CA != "" || remote(config)) {
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
		config, err = pgx.ParseConfig(u.String())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the address of the database: %w", err)
	}
	return config, nil
}

// remote reports whether a server is on another machine. A parameter of the URL or the environment can name
// servers, too.
func remote(config *pgx.ConnConfig) bool {
	hosts := []string{config.Host}
	for _, f := range config.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		network, _ := pgconn.NetworkAddress(host, config.Port)
		ip := net.ParseIP(host)
		if network != "unix" && host != "localhost" && !(ip != nil && ip.IsLoopback()) {
			return true
		}
	}
	return false
}

// explain adds what the operator can do about an error of the database.
func (o Options) explain(err error) error {
	var failed *pgconn.PgError
	if !errors.As(err, &failed) {
		if hint := certs.Hint(err); hint != "" {
			return fmt.Errorf("%s (%w)", hint, err)
		}
		if strings.Contains(err.Error(), "server refused TLS connection") { // pgx has no other sign
			return fmt.Errorf("the server has no TLS: give it a certificate, or add sslmode=disable to the address (%w)", err)
		}
		if config := (*pgconn.ConnectError)(nil); errors.As(err, &config) {
			return fmt.Errorf("cannot reach the database (check the address, and whether the server runs): %w", err)
		}
		return fmt.Errorf("the connection to the database failed: %w", err)
	}
	hint := ""
	switch failed.Code {
	case "28P01", "28000":
		hint = "the database refuses the login: check the user in the URL, and the password file (credentials:, PGPASSFILE or ~/.pgpass)"
	case "3D000":
		hint = "create the database, then run: " + o.setup()
	case "3F000", "42883", "42P01":
		hint = "the database is not prepared for Records: run as its owner: " + o.setup()
	case "42501":
		hint = "the login lacks a right: GRANT grapnel_writer TO it, or grapnel_reader to read"
	case "25006":
		hint = "this server only reads: name the primary server, or add target_session_attrs=read-write to a URL with several hosts"
	case "53100":
		hint = "the disk of the database is full"
	}
	if hint == "" {
		return fmt.Errorf("the database reports: %w", err)
	}
	return fmt.Errorf("%s (%w)", hint, err)
}

// setup returns the command that prepares the database.
func (o Options) setup() string {
	u, err := url.Parse(o.URL)
	if err != nil {
		return "grapnel forward setup URL"
	}
	u.User = nil // setup needs the login of the owner
	return "grapnel forward setup " + u.String()
}
