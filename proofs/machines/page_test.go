//go:build e2e && linux

package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	backend "github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/machines"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// A page is docs/many-machines.md.
type page struct {
	t        *testing.T
	sections map[string]string
	replace  *strings.Replacer // the servers of the page by real ones
}

func readPage(t *testing.T, replace *strings.Replacer) *page {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "many-machines.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t, map[string]string{}, replace}
	for _, section := range strings.Split(string(data), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		p.sections[title] = text
	}
	return p
}

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// statement matches a statement of SQL within a sentence.
var statement = regexp.MustCompile("`((?:UPDATE|DELETE) [^`]*)`")

// blocks returns the blocks of a section in a language.
func (p *page) blocks(section, lang string) (list []string) {
	p.t.Helper()
	for _, m := range fence.FindAllStringSubmatch(p.sections[section], -1) {
		if m[1] == lang {
			list = append(list, p.replace.Replace(m[2]))
		}
	}
	if len(list) == 0 {
		p.t.Fatalf("docs/many-machines.md: the section %q has no block %q", section, lang)
	}
	return list
}

// A computer is a machine with a user who types commands of the page. What the page keeps below /etc is
// below its root.
type computer struct {
	machine
	t     *testing.T
	env   []string
	login [2]string // replaces the name and the password of the page
	id    string    // in the place of ID
}

// write writes a file of the page.
func (c *computer) write(name, text string) {
	c.t.Helper()
	name = filepath.Join(c.root, name)
	text = strings.NewReplacer("/etc/", c.root+"/etc/", "ann-laptop", c.login[0], "change-me-1", c.login[1]).Replace(text)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// shell runs the commands of a block, and returns what they print. "grapnel" is below the root of the computer.
// Only "grapnel doctor" may fail, because no agent is installed.
func (c *computer) shell(block string) string {
	c.t.Helper()
	var all strings.Builder
	for line := range strings.Lines(block) {
		cmd := exec.CommandContext(c.t.Context(), "bash", "-o", "pipefail", "-c", `grapnel() { "$GRAPNEL" "$@" --root "$ROOT"; }; `+line)
		cmd.Env = append(os.Environ(), append(c.env, "GRAPNEL="+grapnel, "ROOT="+c.root)...)
		cmd.Dir = c.root
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.HasPrefix(line, "grapnel doctor") {
			c.t.Fatalf("%s%v\n%s", line, err, out)
		}
		all.Write(out)
	}
	return all.String()
}

// TestPage does what docs/many-machines.md says: an administrator prepares both servers, two machines send their
// Records, and an auditor reads them.
func TestPage(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	ids := [2]string{}
	var pair [2]*computer
	for i, login := range [2][2]string{{"ann-laptop", "change-me-1"}, {"build-7", "change-me-2"}} {
		m := newMachine(t, "")
		ids[i] = m.place(t).Identity().Machine
		pair[i] = &computer{machine: m, t: t, login: login, id: ids[i]}
	}
	admin := &computer{machine: newMachine(t, ""), t: t, env: []string{"PGUSER=postgres", "PGPASSFILE=" + s.Passwords()}}
	operator := newOperator(t)
	n := startNATS(t, operator.config())
	p := readPage(t, strings.NewReplacer("-h db.example.com", "-h "+s.Dir, "@db.example.com/grapnel", "@/grapnel?host="+s.Dir, "//db.example.com/grapnel", "///grapnel?host="+s.Dir,
		"host=db.example.com", "host="+s.Dir, "db.example.com:5432", "*:*", "nats://nats.example.com", n.url()))

	out := admin.shell(p.blocks("Prepare a database", "sh")[0])
	if !strings.Contains(out, "The database is ready") {
		t.Errorf("setup: %s", out)
	}
	for _, script := range p.blocks("Prepare a database", "sql") {
		p.query(s, script)
	}
	for i, c := range pair {
		c.write("etc/grapnel/policy.d/20-records.yaml", p.blocks("Set up each machine", "yaml")[0])
		c.write("etc/grapnel/pg_service.conf", p.blocks("Set up each machine", "ini")[0])
		c.event(t, i)
		t.Cleanup(func() { _ = exec.Command(grapnel, "daemon", "stop", "--root", c.root).Run() })
		out := c.shell(p.blocks("Set up each machine", "sh")[0])
		if !strings.Contains(out, "it has all Records") || !strings.Contains(out, "forward.works") {
			t.Errorf("machine %d: %s", i, out)
		}
		c.event(t, 10+i) // for the daemon
	}
	await.Until(t, "the daemons have sent new Records", func() bool { return p.query(s, "SELECT 1 FROM grapnel.records WHERE event = 'tool.before'") == 4 })

	auditor := &computer{machine: newMachine(t, ""), t: t}
	auditor.write("pgpass", p.blocks("List the machines", "text")[0])
	auditor.env = []string{"PGPASSFILE=" + filepath.Join(auditor.root, "pgpass")}
	text, list, _ := strings.Cut(auditor.shell(p.blocks("List the machines", "sh")[0]), "\n[")
	var found []machines.Machine
	if err := json.Unmarshal([]byte("["+list), &found); err != nil || len(found) != 2 || !strings.Contains(text, "2 machines, 0 with problems") {
		t.Fatalf("machines: %v\n%s\n[%s", err, text, list)
	}
	for _, m := range found {
		if i := slices.Index(ids[:], m.ID); i < 0 || m.Login != pair[i].login[0] {
			t.Errorf("machine %s has the login %s", m.ID, m.Login)
		}
	}
	wants := []int{0, 1} // no block, the policies of two roots differ
	for i, query := range p.blocks("Query the Records", "sql") {
		if rows := p.query(s, query); rows != wants[i] {
			t.Errorf("query %d of the page has %d rows, want %d", i+1, rows, wants[i])
		}
	}
	if rows := p.query(s, p.blocks("Operate", "sql")[0]); rows != 0 {
		t.Errorf("the alert has %d rows, want 0", rows)
	}
	if out := auditor.shell(p.blocks("Operate", "sh")[0]); strings.TrimSpace(out) != "true" {
		t.Errorf("the alert prints %s", out)
	}

	// The same Records in a stream. Each machine has the permissions of the page.
	admin.write("admin.creds", operator.user([]string{">"}, []string{">"}))
	if out := admin.shell(p.blocks("Send Records to JetStream", "sh")[0]); !strings.Contains(out, "The stream is ready (it is new)") {
		t.Errorf("setup: %s", out)
	}
	nsc := p.blocks("Send Records to JetStream", "sh")[1]
	for i, c := range pair {
		c.write("etc/grapnel/nats.creds", operator.user(c.allowed(nsc, "pub"), c.allowed(nsc, "sub")))
		c.write("etc/grapnel/policy.d/21-stream.yaml", p.blocks("Send Records to JetStream", "yaml")[0])
		c.event(t, 20+i) // the daemon reads the policy
		if out := c.shell(p.blocks("CI runners", "sh")[0]); strings.Count(out, "it has all Records") != 2 {
			t.Errorf("machine %d: %s", i, out)
		}
	}
	for _, section := range []string{"What one machine can do to others", "Operate"} {
		for _, m := range statement.FindAllStringSubmatch(p.sections[section], -1) {
			p.query(s, m[1])
		}
	}
	pair[0].attack(n, ids[1])
	pair[0].attackDatabase(ids[1])
}

// attack checks the table of what a machine can do to another one.
func (c *computer) attack(n *stream, other string) {
	c.t.Helper()
	creds := filepath.Join(c.root, "etc", "grapnel", "nats.creds")
	own, err := backend.Open(c.t.Context(), backend.Options{URL: n.url(), Credentials: creds}, c.id)
	if err != nil {
		c.t.Fatal(err)
	}
	defer own.Close()
	if err := own.Rewind(c.t.Context()); err != nil { // after a restored backup
		c.t.Errorf("a machine cannot read its own messages: %v", err)
	}
	subject := "grapnel.records." + other
	for name, try := range map[string]func(context.Context, *nats.Conn, jetstream.Stream) error{
		"read a message": func(ctx context.Context, _ *nats.Conn, s jetstream.Stream) error {
			_, err := s.GetMsg(ctx, 1)
			return err
		},
		"read the last message": func(ctx context.Context, _ *nats.Conn, s jetstream.Stream) error {
			_, err := s.GetLastMsgForSubject(ctx, subject)
			return err
		},
		"read all messages": func(ctx context.Context, _ *nats.Conn, s jetstream.Stream) error {
			_, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{})
			return err
		},
		"read its messages": func(ctx context.Context, _ *nats.Conn, s jetstream.Stream) error {
			_, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{FilterSubject: subject})
			return err
		},
		"remove a message": func(ctx context.Context, _ *nats.Conn, s jetstream.Stream) error { return s.DeleteMsg(ctx, 1) },
		"remove all":       func(ctx context.Context, _ *nats.Conn, s jetstream.Stream) error { return s.Purge(ctx) },
		"write": func(ctx context.Context, conn *nats.Conn, _ jetstream.Stream) error {
			_, err := conn.RequestWithContext(ctx, subject, []byte("{}"))
			return err
		},
		"listen": func(ctx context.Context, conn *nats.Conn, _ jetstream.Stream) error {
			return wiretap(ctx, conn, "grapnel.records.>")
		},
		"listen to replies": func(ctx context.Context, conn *nats.Conn, _ jetstream.Stream) error {
			return wiretap(ctx, conn, "_INBOX.>")
		},
	} {
		ctx, refused := context.WithCancelCause(c.t.Context())
		conn, err := nats.Connect(n.url(), nats.UserCredentials(creds), nats.CustomInboxPrefix("_INBOX."+c.id),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused(err) }))
		if err != nil {
			c.t.Fatal(err)
		}
		js, err := jetstream.New(conn)
		if err != nil {
			c.t.Fatal(err)
		}
		s, err := js.Stream(ctx, backend.DefaultStream)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := try(ctx, conn, s); err == nil || !errors.Is(context.Cause(ctx), nats.ErrPermissionViolation) {
			c.t.Errorf("%s of another machine: %v, want that the server refuses it", name, err)
		}
		conn.Close()
		refused(nil)
	}
}

// wiretap subscribes, and waits until the server refuses it.
func wiretap(ctx context.Context, conn *nats.Conn, subject string) error {
	sub, err := conn.SubscribeSync(subject)
	if err == nil {
		_, err = sub.NextMsgWithContext(ctx)
	}
	return err
}

// attackDatabase tries to write for another machine with the login of a machine.
func (c *computer) attackDatabase(other string) {
	c.t.Helper()
	service := fmt.Sprintf("postgres:///grapnel?service=grapnel&servicefile=%s/etc/grapnel/pg_service.conf", c.root)
	db, err := postgres.Open(c.t.Context(), postgres.Options{URL: service}, other)
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if err := db.Send(c.t.Context(), forward.Position{}, []forward.Line{line(1, "forged")}, 0); err == nil || !strings.Contains(err.Error(), "the role build-7 writes for machine") {
		c.t.Errorf("a Record for another machine: %v", err)
	}
}

// allowed returns the subjects that a command of nsc permits.
func (c *computer) allowed(nsc, kind string) (subjects []string) {
	for _, m := range regexp.MustCompile("--allow-"+kind+" '([^']*)'").FindAllStringSubmatch(nsc, -1) {
		subjects = append(subjects, strings.ReplaceAll(m[1], "ID", c.id))
	}
	return subjects
}

// query runs a script in the database of the page, and returns how many rows it has.
func (p *page) query(s *postgrestest.Server, script string) (n int) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), s.URL("postgres", "grapnel")+"&passfile="+s.Passwords())
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	results, err := conn.PgConn().Exec(p.t.Context(), script).ReadAll()
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	for i := range results {
		n += len(results[i].Rows)
	}
	return n
}
