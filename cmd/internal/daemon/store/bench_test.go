package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
