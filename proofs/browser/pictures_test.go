//go:build e2e && linux

package browser

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/png"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/proofs/records"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

var picturesFlag = flag.String("pictures", "", "directory for the pictures of the documentation; empty = throw them away")

const maxPictures = 600_000 // bytes of all pictures

// demoPolicy is the policy on the pictures.
const demoPolicy = `version: 1
hooks:
  - {name: ask-to-push, on: tool.before, match: {command: git push}, ask: Push for everyone?, approve: {within: 10m}}
  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: Force pushing rewrites shared history. Push a new branch instead.}
  - {name: keep-out, on: tool.before, match: {command: rm -rf}, block: Delete single files.}
  - {name: no-scripts, on: tool.before, match: {command: npm ci}, replace: [{pattern: npm ci, with: npm ci --ignore-scripts}]}
  - {name: ask-for-plans, on: tool.before, match: {command: terraform}, ask: Plan against production?}
  - {name: look-at-clusters, on: tool.before, match: {command: kubectl}, mode: observe, block: Use the dashboard.}
  - {name: fetch-nothing, on: tool.before, match: {command: curl}, mode: observe, block: Use the package registry.}
`

// week stores Records of seven days. They end an hour ago, and most days have more than one of rest.
func week(t testing.TB) func(local.Place) {
	return func(place local.Place) {
		t.Helper()
		set := load.Policies(load.Request{Files: []load.File{{Path: place.Policy, Scope: grapnel.ScopeUser}}})
		const pace = 4 * time.Second // see records.Lines
		from, now := 0, time.Now()
		for day, n := range []int{310, 420, 280, 510, 90, 40, 350} {
			end := now.AddDate(0, 0, day-6).Add(-time.Hour)
			begin := end.Add(-time.Duration(from+n) * pace * 11 / 10) // room for chance
			if err := records.Store(place, part(records.Lines(t.Context(), from+n, set.Specs, begin), from)); err != nil {
				t.Fatal(err)
			}
			from += n
		}
	}
}

// part yields all lines but the first ones, which earlier days have.
func part(lines iter.Seq2[[]byte, error], skip int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line, err := range lines {
			if skip--; skip < 0 && !yield(line, err) {
				return
			}
		}
	}
}

// Each picture of the documentation shows its page without an error, and all are small.
func TestPictures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, demoPolicy, week(t))
	p, base := w.inbox(t, look{})
	c, card := w.waits(t, "4f1c09d2", "git push origin fix/empty-rows")
	p.click(t, button(card, "Approve in this session"))
	p.sees(t, ".note[role=status]")
	c.reply(t, allowed)
	c, card = w.waits(t, "b7710e35", "git push origin main")
	p.do(t, card+" >> textarea", "fill", "Open a pull request instead.")
	p.click(t, button(card, "Deny"))
	p.sees(t, ".note[role=status]")
	c.reply(t, denied)
	for _, command := range []string{"git switch -c fix/empty-rows", "npm ci --no-audit", "go test ./rows/...", "curl -sS https://api.example.com/v1/health", "git push --force origin main", "go vet ./..."} {
		w.call(t, "4f1c09d2", command).reply(t)
		payload, err := json.Marshal(map[string]any{
			"session_id": "e81d2a40", "cwd": served.Project(w.root), "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": map[string]string{"command": command},
		})
		if err != nil {
			t.Fatal(err)
		}
		if command != "git push --force origin main" {
			w.fires(t, "gemini-cli", command, payload).reply(t)
		}
	}
	w.waits(t, "9a02c6be", "git tag v1.4.0 && git push origin v1.4.0")
	to := cmp.Or(*picturesFlag, t.TempDir())
	p.visit(t, base+"/events?hook=no-scripts&agent=claude-code")
	record := eval[string](t, p, `document.querySelector("#rows a").getAttribute("href")`)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	total, user := 0, w.place.Identity().User
	for _, shot := range [][3]string{
		{"overview", "/", "h2 >> text=Stopped last"},
		{"approvals", "/approvals", "#inbox li"},
		{"events", "/events", "#status >> text=Live"},
		{"record", record, "h2 >> text=Reply"},
		{"policy", "/policy?dir=" + url.QueryEscape(served.Project(w.root)), "summary >> nth=0"},
	} {
		p.visit(t, base+shot[1])
		p.sees(t, shot[2])
		eval[any](t, p, `((names) => {
			const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
			while (texts.nextNode()) for (const [from, to] of names) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
		})([[`+strconv.Quote(w.root)+`, "/home/ada"], [`+strconv.Quote(host)+`, "laptop"], ["by `+user+`", "by ada"], ["user `+user+`", "user ada"], ["`+user+` denied", "ada denied"]])`)
		file := filepath.Join(to, "ui-"+shot[0]+".png")
		p.shoot(t, file, nil)
		if problem := p.count(t, "[role=alert]"); problem > 0 {
			t.Errorf("the page %s shows an error", shot[0])
		}
		total += shrink(t, file)
	}
	if total > maxPictures {
		t.Errorf("the pictures have %d bytes, want %d at most", total, maxPictures)
	}
}

// shrink writes a picture with its most frequent 256 colors only, and returns its size.
func shrink(t testing.TB, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	area := full.Bounds()
	times := map[color.Color]int{}
	for y := range area.Dy() {
		for x := range area.Dx() {
			times[full.At(x, y)]++
		}
	}
	var colors color.Palette
	for c := range times {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.Color) int { return times[b] - times[a] })
	colors = colors[:min(256, len(colors))]
	index := map[color.Color]uint8{}
	small := image.NewPaletted(area, colors)
	for y := range area.Dy() {
		for x := range area.Dx() {
			c := full.At(x, y)
			i, known := index[c]
			if !known {
				i = uint8(colors.Index(c))
				index[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}
