package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/proofs/bench/disk"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// The number of clients of the daemon, each with a separate connection, and the number of Records
// that each client makes in one run.
const (
	durableClients = 64
	durableBurst   = 16
)

// setupDurable sets up clients that ask a daemon at once. Each reply has a Record. The floor
// is a server that appends each line to a file. The disk is measured in the same run.
func setupDurable(ctx context.Context, s *setup) error {
	synced, unsynced := s.paths[0], s.paths[1]
	policy := policyFile(10, watchNothing)
	synced.subject, synced.err = s.durable(ctx, "synced", policy+"records: {sync: true}\n")
	unsynced.subject, unsynced.err = s.durable(ctx, "unsynced", policy)
	for _, with := range []struct {
		path *path
		mode []string
	}{{synced, []string{"sync"}}, {unsynced, nil}} {
		if with.path.err != nil {
			continue
		}
		name := strings.Join(append([]string{"durable"}, with.mode...), "-")
		socket, file := filepath.Join(s.dir, name+".sock"), filepath.Join(s.dir, name+".jsonl")
		if err := s.peer(ctx, append([]string{socket, file}, with.mode...)...); err != nil {
			return err
		}
		floor, err := s.lines(ctx, socket)
		if err != nil {
			return err
		}
		with.path.floor = floor
	}
	appends, err := s.disk()
	if err != nil {
		return err
	}
	s.beside = append(s.beside, appends)
	s.note = func() string {
		if appends.err != nil || appends.runs == 0 {
			return ""
		}
		return fmt.Sprintf("disk: %.0f fdatasync/s for appends of 200 bytes", 1e6/appends.min)
	}
	return nil
}

// disk measures one small append and its sync in the directory of the durable rows, in
// microseconds.
func (s *setup) disk() (*series, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "disk"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s.atEnd(f.Close)
	line := []byte(strings.Repeat("x", 199) + "\n")
	return newSeries("fdatasync", func() (float64, error) {
		const syncs = 10
		begin := time.Now()
		for range syncs {
			if _, err := f.Write(line); err != nil {
				return 0, err
			}
			if err := disk.Sync(f); err != nil {
				return 0, err
			}
		}
		return inMicroseconds(time.Since(begin)) / syncs, nil
	}), nil
}

func inMicroseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }

// burst measures the time of one Record while all clients ask, in microseconds. connect
// returns how one client asks.
func burst(name string, connect func() (ask func() error, end func() error, err error)) *series {
	return newSeries(name, func() (float64, error) {
		var asks []func() error
		var errs []error
		for range durableClients {
			ask, end, err := connect()
			if err != nil {
				return 0, err
			}
			defer func() { _ = end() }() // nothing is left to read or write
			asks = append(asks, ask)
		}
		errs = make([]error, len(asks))
		var wait sync.WaitGroup
		begin := time.Now()
		for i, ask := range asks {
			wait.Go(func() {
				for range durableBurst {
					if errs[i] = ask(); errs[i] != nil {
						return
					}
				}
			})
		}
		wait.Wait()
		took := inMicroseconds(time.Since(begin))
		return took / (durableClients * durableBurst), errors.Join(errs...)
	})
}

// durable measures Records of a daemon with a policy.
func (s *setup) durable(ctx context.Context, name, policy string) (*series, error) {
	d, err := s.daemon(ctx, name, policy)
	if err != nil {
		return nil, err
	}
	ask := func(client *served.Caller, line string) (*client.Answer, error) {
		id := spool.NewID(time.Now())
		return client.Ask(d.Question(id, served.Event(d.Root, sessionID, "toolu_"+id, line)))
	}
	client, err := d.Call(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if a, err := ask(client, canaryCommand); err != nil || !strings.Contains(string(a.Stdout), canaryReason) {
		return nil, errors.Join(fmt.Errorf("the reply to the canary is %+v: %s", a, d.Output()), err)
	}
	return burst(name, func() (func() error, func() error, error) {
		client, err := d.Call(ctx)
		if err != nil {
			return nil, nil, err
		}
		return func() error {
			a, err := ask(client, plainCommand)
			if err != nil || len(a.Stdout)+len(a.Stderr) > 0 {
				return errors.Join(fmt.Errorf("the daemon replies %+v", a), err)
			}
			return nil
		}, client.Close, nil
	}), nil
}

// lines measures lines that peer appends to a file.
func (s *setup) lines(ctx context.Context, socket string) (*series, error) {
	ev := served.Event(s.dir, sessionID, "toolu_"+idMark, plainCommand)
	return burst("peer", func() (func() error, func() error, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, nil, err
		}
		in := bufio.NewReader(conn)
		return func() error {
			if _, err := conn.Write(ev); err != nil {
				return err
			}
			_, err := in.ReadSlice('\n')
			return err
		}, conn.Close, nil
	}), nil
}
