package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestVerified: a server on another machine needs a valid certificate, however the URL or the environment names
// it.
func TestVerified(t *testing.T) {
	for name, c := range map[string]struct {
		url, env string
		verified bool
	}{
		"host":                    {"postgres://db.example.com/x", "", true},
		"host with a user":        {"postgres://u@db.example.com:6432/x", "", true},
		"address":                 {"postgres://192.0.2.1/x", "", true},
		"parameter":               {"postgres:///x?host=db.example.com", "", true},
		"parameter before host":   {"postgres://localhost/x?host=db.example.com", "", true},
		"second host":             {"postgres://localhost,db.example.com/x", "", true},
		"second after a socket":   {"postgres:///x?host=/tmp,db.example.com", "", true},
		"environment":             {"postgres:///x?connect_timeout=5", "db.example.com", true},
		"loopback":                {"postgres://127.0.0.1/x", "", false},
		"loopback, version 6":     {"postgres://[::1]/x", "", false},
		"localhost":               {"postgres://localhost/x", "", false},
		"socket":                  {"postgres:///x?host=/tmp", "", false},
		"local before the others": {"postgres://localhost/x", "db.example.com", false},
		"another mode":            {"postgres://db.example.com/x?sslmode=require", "", false},
	} {
		t.Setenv("PGHOST", c.env)
		t.Setenv("PGSSLMODE", "")
		config, err := Options{URL: c.url}.config()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all := append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
		all = slices.DeleteFunc(all, func(f *pgconn.FallbackConfig) bool { return strings.HasPrefix(f.Host, "/") })
		verified := len(all) > 0 && !slices.ContainsFunc(all, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil || f.TLSConfig.InsecureSkipVerify })
		if verified != c.verified {
			t.Errorf("%s: verified is %v, want %v", name, verified, c.verified)
		}
	}
}
