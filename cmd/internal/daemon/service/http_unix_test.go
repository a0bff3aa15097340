//go:build linux || darwin

package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/internal/await"
	"github.com/grapnel-dev/grapnel/local"
)

// overHTTP installs Grapnel into a separate Claude Code over HTTP. It returns the request of the
// installation and the address.
func overHTTP(t *testing.T) (install.Request, string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "grapnel-hook")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	req := install.Request{
		Agents: []string{"claude-code"}, Via: install.ViaHTTP, Root: filepath.Join(dir, "r"), Home: filepath.Join(dir, "home"), Program: program,
		Env: func(string) string { return "" }, Versions: map[string]string{"claude-code": "2.1.329"},
	}
	if _, err := install.Install(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	addresses, err := install.ReadAddresses(filepath.Join(req.Root, "state"))
	if err != nil {
		t.Fatal(err)
	}
	return req, addresses.Host()
}

// The daemon listens while an installation uses HTTP, retries a port that another process has,
// and closes the port when it ends.
func TestHTTPListener(t *testing.T) {
	t.Parallel()
	req, host := overHTTP(t)
	place, err := local.Locate(req.Root, "")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp4", host)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{place: place, log: slog.New(slog.DiscardHandler)}
	d.warm = hookcmd.NewWarm(hookcmd.WarmOptions{State: place.State})
	defer func() { _ = d.warm.Close(context.Background()) }()
	shut := d.open(t.Context())
	defer shut()
	await.Until(t, "the listener says that the port is taken", func() bool { h := d.http.health(); return h != nil && strings.Contains(h.Error, "in use") })
	_ = taken.Close()
	await.Until(t, "it listens", func() bool { h := d.http.health(); return h != nil && h.Address == host && h.Error == "" })

	asks := func() bool {
		conn, err := net.DialTimeout("tcp", host, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	status := func() int {
		resp, err := http.Post("http://"+host+"/v1/hooks/claude-code?installation=x", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(); got != http.StatusUnauthorized {
		t.Errorf("got %d", got)
	}

	// If other users can read the file of secrets, every request is refused.
	file := install.AddressesFile(place.State)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the listener is shut", func() bool { return !asks() })
	if h := d.http.health(); h == nil || !strings.Contains(h.Error, "other users can read it") {
		t.Errorf("the listener says %+v", h)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it listens again", asks)

	if _, err := install.Uninstall(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "nobody listens any more", func() bool { return !asks() && d.http.health() == nil })
	if _, err := install.Install(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	addresses, err := install.ReadAddresses(place.State)
	if err != nil {
		t.Fatal(err)
	}
	host = addresses.Host()
	await.Until(t, "it listens for another", asks)
	shut()
	if asks() {
		t.Error("somebody listens after the end")
	}
}
