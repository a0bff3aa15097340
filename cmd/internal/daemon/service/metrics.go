package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MetricsAddress returns the TCP address for metrics in a text: a port, or a host and a port. Without a
// host, it is on loopback.
func MetricsAddress(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("invalid address for metrics: %w", err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("invalid address for metrics: %q is not a port (write 9464, or a host and a port)", port)
	}
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
}

func (d *daemon) serveMetrics(ctx context.Context) error {
	return ServeMetrics(ctx, d.opts.Metrics, d.metrics.Handler(), d.log)
}

// ServeMetrics answers Prometheus at an address from [MetricsAddress], until ctx is done. Nothing else is
// reachable there, because the port has no access control. Without an address, it does nothing.
func ServeMetrics(ctx context.Context, address string, metrics http.Handler, log *slog.Logger) error {
	if address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen for metrics: %w", err)
	}
	routes := http.NewServeMux()
	routes.Handle("/metrics", metrics)
	s := &http.Server{
		Handler: routes, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	log.Info("metrics", "url", "http://"+l.Addr().String()+"/metrics")
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	return nil
}
