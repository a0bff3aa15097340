package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

const (
	scrapeTime = 5 * time.Second
	maxScrape  = 8 << 20 // bytes from one user
)

// metrics returns the handler for the metrics of all users. Each series has the label user.
func (d *daemon) metrics() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(d.gather), promhttp.HandlerOpts{MaxRequestsInFlight: 2, ErrorHandling: promhttp.ContinueOnError})
}

// gather asks the processes of all users at the same time.
func (d *daemon) gather() ([]*dto.MetricFamily, error) {
	d.mu.Lock()
	users := slices.Collect(maps.Values(d.users))
	d.mu.Unlock()
	up := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "grapnel_user_up", Help: "Whether the daemon of a user answers, with \"grapnel serve --all-users\"."}, []string{"user"})
	own := prometheus.NewRegistry()
	own.MustRegister(up)
	var mu sync.Mutex
	all := prometheus.Gatherers{own}
	var asking sync.WaitGroup
	for _, u := range users {
		asking.Go(func() {
			name, families, err := u.scrape()
			if name == "" {
				return // never started
			}
			mu.Lock()
			defer mu.Unlock()
			up.WithLabelValues(name).Set(0)
			if err == nil {
				up.WithLabelValues(name).Set(1)
				all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil }))
			}
		})
	}
	asking.Wait()
	return all.Gather()
}

// scrape returns the metrics of the user's process.
func (u *user) scrape() (name string, families []*dto.MetricFamily, err error) {
	u.mu.Lock()
	name = u.name
	u.mu.Unlock()
	client := http.Client{Timeout: scrapeTime, Transport: &http.Transport{DialContext: u.dial, DisableKeepAlives: true}}
	resp, err := client.Get("http://grapnel/metrics") //nolint:noctx // the client has a timeout
	if err != nil {
		return name, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return name, nil, fmt.Errorf("metrics of user %s: %s", name, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxScrape))
	if err != nil {
		return name, nil, fmt.Errorf("metrics of user %s: %w", name, err)
	}
	label := "user"
	for _, f := range parsed {
		for _, m := range f.Metric {
			m.Label = append(m.Label, &dto.LabelPair{Name: &label, Value: &name})
		}
		families = append(families, f)
	}
	return name, families, nil
}

// dial returns a connection to the user's process.
func (u *user) dial(context.Context, string, string) (net.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.channel == nil {
		return nil, errors.New("the daemon of this user does not run")
	}
	near, far, err := server.NewChannel()
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(far)
	if err = errors.Join(err, far.Close()); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	if err := server.Pass(u.channel, conn.(*net.UnixConn)); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return near, nil
}
