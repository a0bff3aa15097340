//go:build e2e && linux

package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// TestMachinesAccessible: axe finds no violation on the pages that are different with the Records of a database: before the
// first machine, with and without problems, and while the database does not answer.
func TestMachinesAccessible(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	db := postgres.Options{URL: s.URL("postgres", "postgres"), Credentials: s.Passwords()}
	if _, _, err := postgres.Setup(t.Context(), db, 0); err != nil {
		t.Fatal(err)
	}
	link := serveRecords(t, db)
	first, base := newPage(t, look{width: 360}, nil), origin(link)
	first.visit(t, link)
	for _, path := range []string{"/", "/machines"} {
		first.visit(t, base+path)
		first.accessible(t, "no machine: "+path)
	}
	contains(t, "the page without machines", first.sees(t, "main"), "No machine yet")

	target := fmt.Sprintf("{to: %q, credentials: %s}", db.URL, db.Credentials)
	well := newRoot(t, busy+"records: {forward: ["+target+"]}\n", filled(t, 1000))
	if out, err := well.command("forward").CombinedOutput(); err != nil {
		t.Fatalf("grapnel forward: %v: %s", err, out)
	}
	// The second heartbeat of a machine has the failures of the first forwarding.
	ill := newRoot(t, busy+"records: {forward: ["+target+", {to: \"postgres://grapnel-forwarder-of-this-machine@the-long-name-of-a-database.department.corp.example/records\"}]}\n")
	for range 2 {
		if out, err := ill.command("forward").CombinedOutput(); err == nil {
			t.Errorf("a machine sends Records to a database that does not exist: %s", out)
		}
	}
	mute, err := postgres.Open(t.Context(), db, strings.Repeat("ab", 16))
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	text := fmt.Appendf(nil, `{"id":"a","time":%q,"agent":"codex","session":"s","event":"tool.before","decision":"none","hooks":[],"ms":1,"host":%q,"user":"ann"}`, time.Now().UTC().Format(time.RFC3339), strings.Repeat("very-long-host-", 12))
	if err := mute.Send(t.Context(), forward.Position{}, []forward.Line{{Seq: 1, ID: "a", Text: text}}, 3); err != nil {
		t.Fatal(err)
	}
	first.visit(t, base+"/machines")
	contains(t, "the page of machines", first.sees(t, "main"), "3 machines, 2 with problems", "no heartbeat", "retention removed 3 Records", "cannot send to postgres://grapnel-forwarder", "works")
	all := map[string]string{"overview": "/", "machines": "/machines", "machine": "/events?machine=" + well.place.Identity().Machine}
	first.visit(t, base+all["machine"])
	all["record"] = eval[string](t, first, `document.querySelector("#rows a").getAttribute("href")`)
	for _, l := range looks {
		link := serveRecords(t, db)
		p := newPage(t, l, nil)
		p.visit(t, link)
		for name, path := range all {
			p.visit(t, origin(link)+path)
			p.accessible(t, fmt.Sprintf("%s %+v", name, l))
		}
	}
	s.Kill()
	for _, path := range []string{"/", "/machines"} {
		first.visit(t, base+path)
		contains(t, "the page without a database", first.sees(t, "[role=alert]"), "the database")
		first.accessible(t, "no database: "+path)
	}
}

// serveRecords runs the pages about a database until the test ends, and returns a link that logs a browser in.
func serveRecords(t *testing.T, db postgres.Options) (link string) {
	t.Helper()
	cmd := exec.Command(offline.Program(t, "grapnel"), "ui", "--no-open", "--records", db.URL, "--credentials", db.Credentials, "--root", t.TempDir())
	var failures bytes.Buffer
	cmd.Stderr = &failures
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		timer := time.AfterFunc(await.Limit, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("grapnel ui: %v: %s", err, &failures)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("grapnel ui: %v", err)
	}
	return strings.TrimSpace(line)
}
