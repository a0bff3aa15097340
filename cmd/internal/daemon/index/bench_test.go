package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// day returns a day with n Records. Each has two hooks of 30.
func day(b *testing.B, n int) (*place, time.Time) {
	p := begin(b)
	now := time.Now().UTC()
	random := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < n; at += 500 {
		list := make([]spool.Entry, min(500, n-at))
		for i := range list {
			e := entry(fmt.Sprintf("%028x", at+i))
			e.Time = now.Add(-time.Duration(float64(23*time.Hour) * (1 - float64(at+i)/float64(n))))
			e.MS = random.ExpFloat64() * 10
			if random.IntN(50) > 0 {
				e.Decision = grapnel.None
			}
			e.Hooks = nil
			for range 2 {
				e.Hooks = append(e.Hooks, grapnel.HookRun{Name: fmt.Sprint("hook-", random.IntN(30)), Source: "user", MS: random.ExpFloat64()})
			}
			list[i] = e
		}
		p.put(list...)
	}
	return p, now
}

// BenchmarkUpdate measures how many Records per second are added to the index.
func BenchmarkUpdate(b *testing.B) {
	p, _ := day(b, b.N)
	x := p.keep(nil)
	b.ResetTimer()
	p.catchUp(x)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkCount measures the statistics of a day with b.N Records: run it with -benchtime 1000000x.
func BenchmarkCount(b *testing.B) {
	p, now := day(b, b.N)
	p.index()
	for _, since := range []time.Duration{0, 24 * time.Hour, 10 * time.Hour, time.Hour} {
		var from time.Time
		if since > 0 {
			from = now.Add(-since)
		}
		begun := time.Now()
		c, err := p.Count(b.Context(), from)
		if err != nil || b.N > 1 && since != time.Hour && c.Totals().Firings == 0 {
			b.Fatalf("Count = %+v, %v", c.Totals(), err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), fmt.Sprintf("s-since-%vh", since.Hours()))
	}
}
