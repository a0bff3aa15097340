package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// BenchmarkPut measures Records of 1 KB per second, stored and indexed. Each caller waits for its
// previous Record.
func BenchmarkPut(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := openTest(b, b.TempDir(), nil)
			e := entry("ID")
			e.Input.Tool.Input = fmt.Appendf(nil, `{"command":"go test ./... %s"}`, strings.Repeat("one more word ", 30))
			raw, err := json.Marshal(e)
			if err != nil {
				b.Fatal(err)
			}
			before, after, _ := strings.Cut(string(raw), `"ID"`)
			b.SetBytes(int64(len(before) + len(after)))
			var next atomic.Int64
			took := make([]time.Duration, b.N)
			var wait sync.WaitGroup
			b.ResetTimer()
			for range callers {
				wait.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						at := time.Now()
						if err := s.Put(context.Background(), Item{Line: fmt.Appendf(nil, `%s"%028x"%s`, before, n, after)}); err != nil {
							b.Error(err)
						}
						took[n-1] = time.Since(at)
					}
				})
			}
			wait.Wait()
			b.StopTimer()
			if report, err := s.Verify(b.Context()); err != nil || !report.OK() || report.Rows != b.N {
				b.Errorf("Verify = %+v, %v, want %d rows", report, err, b.N)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkCount measures the statistics of a day with b.N Records: run it with -benchtime
// 1000000x. Each Record has two hooks of 30.
func BenchmarkCount(b *testing.B) {
	s := openTest(b, b.TempDir(), &Options{unsafe: true})
	now := time.Now().UTC()
	random := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < b.N; at += 500 {
		items := make([]Item, min(500, b.N-at))
		for i := range items {
			e := entry(fmt.Sprintf("%028x", at+i))
			e.Time = now.Add(-time.Duration(float64(23*time.Hour) * (1 - float64(at+i)/float64(b.N))))
			e.MS = random.ExpFloat64() * 10
			if random.IntN(50) > 0 {
				e.Decision = grapnel.None
			}
			e.Hooks = nil
			for range 2 {
				e.Hooks = append(e.Hooks, grapnel.HookRun{Name: fmt.Sprint("hook-", random.IntN(30)), Source: "user", MS: random.ExpFloat64()})
			}
			items[i].Line = lineOf(e)
		}
		if err := s.Put(b.Context(), items...); err != nil {
			b.Fatal(err)
		}
	}
	for last := int64(0); last <= int64(b.N)-summaryRows; time.Sleep(quiet) {
		if err := s.read(b.Context(), func(v *view) error {
			_, err := v.row("SELECT coalesce(max(last), 0) FROM summary", nil, &last)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	for _, since := range []time.Duration{0, 24 * time.Hour, 10 * time.Hour, time.Hour} {
		var from time.Time
		if since > 0 {
			from = now.Add(-since)
		}
		begin := time.Now()
		c, err := s.Count(b.Context(), from)
		if err != nil || b.N > 1 && c.Totals().Firings == 0 {
			b.Fatalf("Count = %+v, %v", c.Totals(), err)
		}
		b.ReportMetric(time.Since(begin).Seconds(), fmt.Sprintf("s-since-%vh", since.Hours()))
	}
}
