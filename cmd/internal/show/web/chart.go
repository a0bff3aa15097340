package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
)

// Charts are SVG without styles: classes of style.css color them. A list or table next to each
// chart has the same numbers. The functions write numbers and constant or escaped texts only.

// dayChart draws the stopped and the other events of each day as columns.
func dayChart(days []stats.Day, begin time.Time) template.HTML {
	type column struct{ block, ask, other int }
	columns := make([]column, countDays)
	most := 1
	for _, d := range days {
		i := int(d.Begin.Sub(begin).Hours()/24 + 0.5)
		if i < 0 || i >= countDays {
			continue
		}
		c := &columns[i]
		for decision, n := range d.Decisions {
			switch decision {
			case grapnel.Block:
				c.block += n
			case grapnel.Ask:
				c.ask += n
			default:
				c.other += n
			}
		}
		most = max(most, c.block+c.ask+c.other)
	}
	const width, height, step = 420.0, 120.0, 420.0 / countDays
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %v %v" role="img" aria-label="Events per day by decision; the table below has the numbers">`, width, height+20)
	for i, c := range columns {
		x, y := float64(i)*step+6, height
		for _, part := range []struct {
			class string
			n     int
		}{{"other", c.other}, {"ask", c.ask}, {"block", c.block}} {
			if part.n > 0 {
				h := max(2, float64(part.n)/float64(most)*(height-16))
				y -= h
				fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, part.class, x, y, step-12, h)
			}
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%v" text-anchor="middle">%s</text>`, x+step/2-6, height+15, begin.AddDate(0, 0, i).Format("Mon 2"))
	}
	fmt.Fprintf(&b, `<line x1="0" x2="%v" y1="%v" y2="%v"/></svg>`, width, height, height)
	return template.HTML(b.String())
}

// hookChart draws the 95th percentile of the durations of hooks as bars, one for each line of the
// list next to it.
func hookChart(list []stats.Hook) template.HTML {
	most := 0.1
	for i := range list {
		most = max(most, list[i].P95)
	}
	const line = 28
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 200 %d" preserveAspectRatio="none" aria-hidden="true">`, max(1, len(list))*line)
	for i := range list {
		fmt.Fprintf(&b, `<rect class="bar" x="0" y="%d" width="%.1f" height="%d"/>`, i*line+6, max(1, list[i].P95/most*200), line-12)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// strip draws Records as marks on a time line from the first to the last of them.
func strip(rows []row) template.HTML {
	const width, height = 600.0, 24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 %v %d" preserveAspectRatio="none" aria-hidden="true"><line x1="0" x2="%v" y1="12" y2="12"/>`, width, height, width)
	if len(rows) > 0 {
		begin := rows[len(rows)-1].Time
		span := max(rows[0].Time.Sub(begin), time.Second)
		for i := range slices.Backward(rows) {
			class, half := "other", 4
			switch rows[i].Word {
			case "block", "halt":
				class, half = "block", 10
			case "ask":
				class, half = "ask", 8
			case "change":
				class, half = "change", 6
			}
			x := min(1, max(0, float64(rows[i].Time.Sub(begin))/float64(span))) * (width - 3)
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="3" height="%d"/>`, class, x, 12-half, 2*half)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
