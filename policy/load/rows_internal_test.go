package load

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// TestRowsAreWhole checks that a row returns everything that was stored in it.
func TestRowsAreWhole(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("p.yaml", []byte(`version: 1
pack: {version: 1}
hooks:
  - {name: block, on: [tool.before, tool.after], match: {tool: [shell, write], command: [rm -rf, "git push -f"], not: {text: '/x(?:abc|def)/'}}, except: {path: "*.go"}, when: 'tool.command contains "x"', block: no, advice: [ls], message: m, mode: observe, on_error: ask}
  - {name: near, on: tool.before, match: {text: ['/(?:one|two)\w/', plain], content: '/(?i)three/', prompt: [a, '/./']}, ask: really?}
  - {name: files, on: tool.before, match: {path: [a, b], reads: c, writes: ["d/*"]}, block: no}
  - {name: host, on: tool.before, match: {host: evil.example, secret: true}, block: no}
  - {name: said, on: tool.after, match: {failed: true}, context: mind}
  - {name: replaced, on: tool.after, replace: [{pattern: abc, with: x}], fields: [tool.output]}
  - {name: masked, on: tool.after, mask: true}
  - {name: limited, on: tool.before, limit: {count: 3, per: 1m}, priority: 5}
  - {name: later, on: tool.before, match: {command: curl}, after: [{event: tool.after, match: {command: cat}, within: 5m}], block: no}
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for i := range p.Hooks {
		want := p.Hooks[i]
		var w compiledWriter
		stored, _ := w.row(&want)
		var read row
		r := codecReader{left: stored.encode(&want)}
		read.head(&r)
		read.texts(&r)
		read.rest(&r)
		got, err := read.decode()
		if err != nil {
			t.Fatal(err)
		}
		stored.hook, stored.needs.Tools = read.hook, ""
		if diff := cmp.Diff(stored, read, cmp.AllowUnexported(row{})); diff != "" {
			t.Errorf("%s (-put +taken):\n%s", want.Name, diff)
		}
		if diff := cmp.Diff(asJSON(&want), asJSON(got)); diff != "" {
			t.Errorf("%s (-put +taken):\n%s", want.Name, diff)
		}
	}
}

func asJSON(h *policyfile.Hook) string {
	data, _ := rawjson.Marshal(h)
	return string(data)
}
