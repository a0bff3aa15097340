// Package postgres keeps the Records of many machines in a PostgreSQL database, 13 or newer. It is no API:
// grapnel uses it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Options name a database.
type Options struct {
	URL string // postgres://..., with the parameters of libpq

	// Credentials is a password file in the format of .pgpass; empty = the usual places of libpq:
	// the environment, a service file, ~/.pgpass.
	Credentials string

	CA string // a PEM file with the certificate authorities of the server; empty = the authorities of the system
}

// connect opens one connection. On other machines the server must have a valid certificate, unless the
// URL or the environment sets another sslmode.
func connect(ctx context.Context, o Options) (*pgx.Conn, error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("cannot read the address of the database: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, o.explain(err)
	}
	return conn, nil
}

func (o Options) config() (*pgx.ConnConfig, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("it is not a URL") // the text of the error could contain a password
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
	if !q.Has("service") && os.Getenv("PGSSLMODE") == "" && remote(u) {
		set("sslmode", "verify-full")
	}
	u.RawQuery = q.Encode()
	return pgx.ParseConfig(u.String())
}

// remote reports whether a URL names a server on another machine.
func remote(u *url.URL) bool {
	host := u.Hostname()
	if host == "" {
		host = u.Query().Get("host")
	}
	ip := net.ParseIP(host)
	return host != "" && host != "localhost" && !strings.HasPrefix(host, "/") && !(ip != nil && ip.IsLoopback())
}

// explain adds what the operator can do about an error of the database.
func (o Options) explain(err error) error {
	var failed *pgconn.PgError
	if !errors.As(err, &failed) {
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
