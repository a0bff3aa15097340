//go:build e2e && linux

package machines

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// A dashboard is a dashboard of Grafana.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ H, W, X, Y int }
		Datasource               struct{ Type, UID string }
		Targets                  []struct {
			RawSQL, Format string
			Datasource     struct{ Type, UID string }
		}
	}
	Templating struct {
		List []struct{ Name, Type, Query, AllValue string }
	}
}

// The macros and variables of a query, as Grafana's data source for PostgreSQL replaces them.
var (
	timeFilter = regexp.MustCompile(`\$__timeFilter\((\w+)\)`)
	timeGroup  = regexp.MustCompile(`\$__timeGroupAlias\((\w+), \$__interval\)`)
	views      = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+(?:grapnel\.)?(\w+)`)
)

func replaceMacros(sql, host string) string {
	now := time.Now().UTC()
	sql = timeFilter.ReplaceAllString(sql, fmt.Sprintf("$1 BETWEEN '%s' AND '%s'", now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
	sql = timeGroup.ReplaceAllString(sql, `floor(extract(epoch from $1)/60)*60 AS "time"`)
	return strings.ReplaceAll(sql, "$instance", host)
}

// rows runs a query of a login that may only read. It returns the names of the columns and the rows.
func rows(t *testing.T, conn *pgx.Conn, sql string) (columns []string, all [][]any) {
	t.Helper()
	found, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	defer found.Close()
	for _, f := range found.FieldDescriptions() {
		columns = append(columns, f.Name)
	}
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
		all = append(all, values)
	}
	if err := found.Err(); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return columns, all
}

// TestDashboard: each query of the dashboard works for a login that may only read, and shows the
// Records of a machine.
func TestDashboard(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	m := newMachine(t, fmt.Sprintf(`
records: {forward: [{to: %q, credentials: %s}]}
hooks:
  - {name: no-one, on: tool.before, match: {command: echo 1}, block: Not one.}
  - {name: no-two, on: tool.before, match: {command: echo 2}, block: Not two., mode: observe}
  - {name: broken, on: tool.before, run: exit 3}
`, s.URL("postgres", "postgres"), s.Passwords()))
	managed := filepath.Join(m.root, "etc", "grapnel", "policy.d")
	if err := errors.Join(os.MkdirAll(managed, 0o755), os.WriteFile(filepath.Join(managed, "signed.yaml"), []byte("version: 1\nrevision: 7\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := m.do(t, "forward", "setup", s.URL("postgres", "postgres"), "--credentials", s.Passwords()); err != nil {
		t.Fatalf("setup: %v: %s", err, out)
	}
	for n := range 3 {
		m.event(t, n)
	}
	if out, err := m.do(t, "forward"); err != nil {
		t.Fatalf("forward: %v: %s", err, out)
	}
	admin, err := pgx.Connect(t.Context(), s.URL("postgres", "postgres")+"&passfile="+s.Passwords())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	if _, err := admin.Exec(t.Context(), "CREATE ROLE grafana LOGIN PASSWORD 'g' IN ROLE grapnel_reader"); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), s.URL("grafana", "postgres")+"&password="+url.QueryEscape("g"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "DELETE FROM grapnel.machine"); err == nil {
		t.Error("the login may do more than read")
	}

	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana", "machines.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	list := d.Templating.List
	if d.UID == "" || len(d.Panels) < 15 || len(list) != 2 || list[0].Type != "datasource" || list[1].Name != "instance" {
		t.Fatalf("not the dashboard: %+v", d)
	}
	_, hosts := rows(t, conn, list[1].Query)
	host := m.place(t).Identity().Host
	if len(hosts) != 1 || hosts[0][0] != host {
		t.Fatalf("hosts: %v, want %s", hosts, host)
	}
	want := map[string]string{ // the first number of a panel
		"Machines seen": "1", "Silent machines": "0", "Events": "3", "Blocked": "1", "Failed open": "2", "Missed": "0",
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q: the id is not its own, or there is no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("panel %q lies on %q, or beside the page, at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) != 1 || p.Description == "" || p.Datasource.UID != "${datasource}" || p.Targets[0].Datasource != p.Datasource || p.Datasource.Type != list[0].Query {
			t.Fatalf("panel %q has not one query, no description, or another data source", p.Title)
		}
		query := p.Targets[0]
		for _, name := range views.FindAllStringSubmatch(query.RawSQL, -1) {
			if !slices.Contains([]string{"records", "hook_runs", "machines", "now", "jsonb_array_elements"}, name[1]) {
				t.Errorf("panel %q reads %s, which is not one of the stable views", p.Title, name[1])
			}
		}
		if !strings.Contains(query.RawSQL, "host IN ($instance)") {
			t.Errorf("panel %q shows other machines, too", p.Title)
		}
		all := replaceMacros(query.RawSQL, list[1].AllValue)
		if strings.Contains(all, "$") {
			t.Errorf("panel %q has a macro that this test does not know: %s", p.Title, all)
		}
		columns, got := rows(t, conn, all)
		if len(got) == 0 {
			t.Errorf("panel %q is empty: %s", p.Title, all)
			continue
		}
		if n, ok := want[p.Title]; ok && fmt.Sprint(number(t, got[0][0])) != n {
			t.Errorf("panel %q shows %v, want %s", p.Title, got[0][0], n)
		}
		if query.Format == "time_series" && (columns[0] != "time" || len(columns) != 3) || (p.Type == "timeseries") != (query.Format == "time_series") {
			t.Errorf("panel %q has the columns %v in the format %s", p.Title, columns, query.Format)
		}
		if p.Title != "Tokens" { // no model answered
			checkValues(t, p.Title, columns, got[0])
		}
		if _, got := rows(t, conn, replaceMacros(query.RawSQL, "'"+host+"', 'other'")); len(got) == 0 {
			t.Errorf("panel %q is empty for one host", p.Title)
		}
		if _, got := rows(t, conn, replaceMacros(query.RawSQL, "'other'")); p.Type != "stat" && len(got) > 0 {
			t.Errorf("panel %q shows %v for another host", p.Title, got)
		}
	}
}

// number returns a whole number of PostgreSQL.
func number(t *testing.T, v any) int64 {
	t.Helper()
	var n int64
	if _, err := fmt.Sscan(fmt.Sprint(v), &n); err == nil {
		return n
	}
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err != nil {
		t.Errorf("%v is not a number: %v", v, err)
	}
	return n
}

// checkValues checks that a panel has a value for each column: a wrong path into JSON has none.
func checkValues(t *testing.T, title string, columns []string, row []any) {
	t.Helper()
	for i, v := range row {
		if v == nil && columns[i] != "behind" { // nothing is left to send
			t.Errorf("panel %q has no %s", title, columns[i])
		}
	}
}
