package shell

import (
	"fmt"
	"strings"
	"testing"
)

// databasesOf returns what a line does with databases: "+" before a name for one that it certainly creates
// if it succeeds, "?" for one that it may create, "-" for a dropped one, "~" for a renamed one. A name that
// is not known is "?", and no name is "*".
func databasesOf(s *Script) string {
	var words []string
	for i := range s.Commands {
		for _, d := range s.Databases(i) {
			name := d.Name
			switch {
			case !d.Known:
				name = "?"
			case name == "":
				name = "*"
			}
			mark := [...]string{Creates: "?", Drops: "-", Renames: "~"}[d.Act]
			if d.Act == Creates && d.Sure {
				mark = "+"
			}
			words = append(words, mark+name)
		}
	}
	return strings.Join(words, " ")
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"createdb shop": "+shop", "createdb -h db -p 5433 -U ann -O bob shop": "+shop", "createdb -hdb -T template0 --encoding utf8 --owner=ann shop 'a comment'": "+shop",
		"createdb": "", "createdb $DB": "", `createdb "$DB"`: "", "createdb shop; true": "?shop", "true; createdb shop": "+shop", "createdb shop || true": "?shop",
		"createdb shop &": "?shop", "! createdb shop": "?shop", "createdb shop | cat": "?shop", "createdb shop && psql shop < x.sql": "+shop",
		"createdb shop && true || true": "?shop", "false || createdb shop": "?shop", "if createdb shop; then true; fi": "?shop", "echo $(createdb shop)": "?shop",
		"(createdb shop)": "+shop", "{ createdb shop; }": "+shop", "f() { createdb shop; }; f": "?shop", "for i in 1; do createdb shop; done": "?shop",
		"DB=shop; createdb $DB": "?shop", "timeout 9 createdb shop": "+shop", "sh -c 'createdb shop'": "?shop", "sudo -u postgres createdb shop": "+shop", "sudo -b createdb shop": "?shop",
		"docker exec db createdb -U postgres shop": "+shop", "docker exec -d db createdb shop": "?shop", "docker exec db sh -c 'createdb shop; true'": "?shop",
		"ssh db1 createdb shop": "+shop", "ssh db1 'createdb shop; true'": "?shop", "ssh -f db1 createdb shop": "?shop", "nohup createdb shop": "?shop", "./createdb shop": "?shop",
		"dropdb shop": "-shop", "dropdb --if-exists -f shop": "-shop", "dropdb -h db -p 5433 -U ann --maintenance-db postgres shop": "-shop", "dropdb $DB": "-?", `dropdb "$DB"`: "-?", "dropdb": "-*",
		"dropdb --help": "", "dropdb shop_*": "-?", "DB=shop; dropdb $DB": "-? -shop", "docker exec db dropdb -U postgres shop": "-shop", "psql -c 'xdrop database a; begindrop database b'": "", "xargs dropdb < list": "-*", "psql -f <(echo 'drop database shop')": "-shop", "psql -c \"do 'begin execute ''drop role a''; end'\"": "-*",
		"pg_dropcluster 15 main": "-*", "mysqladmin -u root drop shop": "-shop", "mysqladmin drop -f shop": "-shop", "mysqladmin dr shop": "-shop", "mysqladmin drop": "-*", "mysqladmin create shop": "+shop",
		"mysqladmin create shop create b": "", "mysqladmin -f create shop": "", "mysqladmin create shop drop b": "-b", "mysqladmin status": "", "mysqladmin -h drop ping": "",
		"psql -c 'create database shop'": "+shop", "psql -c 'CREATE DATABASE Shop;'": "+shop", `psql -c 'create database "Shop" owner ann'`: "+Shop", "psql -c 'create database if not exists shop'": "",
		"psql -c 'create database shop; drop table a'": "", "psql -c 'create database a' -c 'create database b'": "", "psql -c 'select 1' -f x.sql -c 'create database a'": "",
		"echo 'create database shop' | psql": "", "psql <<< 'create database shop'": "", "echo 'create database shop' | mysql": "+shop", "mysql <<< 'create database shop'": "+shop",
		"mysql -e 'create database Shop'": "+Shop", "mysql -f -e 'create database shop'": "", "mysql --execute='create database shop'": "+shop", "mariadb -Ne 'create database `shop`'": "+shop",
		`psql -c "create database $DB"`: "", "psql -c 'create database :db'": "", "psql -c \"select 'create database shop'\"": "", "psql -c 'create database shop -- x'": "",
		"psql -c 'drop database shop'": "-shop", `psql -c 'DROP DATABASE IF EXISTS "Shop" WITH (FORCE);'`: "-Shop", "psql -c 'select 1; drop  database Shop'": "-shop", "psql -c 'select 1' -c 'drop database a' -c 'drop database b'": "-a -b",
		"mysql -e'drop database shop'": "-shop", "mysql -Nse 'drop database shop'": "-shop", "mysql -Nse'drop database shop'": "-shop", "mysql --execute='drop database shop'": "-shop",
		"psql <<'E'\nbegin;\n-- x\ndrop database shop;\nE": "-shop", "psql <<< 'drop database shop'": "-shop", "echo 'drop database shop' | psql": "-shop", "echo 'drop database shop' | ssh db1 psql": "-shop",
		"cat <<E | docker exec -i db psql\ndrop database shop;\nE": "-shop", `echo "drop database $DB" | psql`: "-?", "gen 'x' | psql": "", `printf "drop database %s" "$DB" | psql`: "-?", "zcat a.gz | psql && git commit -m 'drop database shop'": "",
		"psql -c 'drop schema public cascade'": "-*", "psql -c 'drop role ann'": "-*", "psql -c 'drop table a'": "", "psql -c \"select 'drop database shop'\"": "", "psql -c 'drop /* x */ database shop'": "-shop",
		"sqlcmd -Q 'drop database a, b'": "-a -b", "sqlcmd -Q'drop database [a]'": "-a", "clickhouse -q 'drop database shop'": "-shop", "cockroach sql -e 'drop database shop'": "-shop", "bq query 'drop schema a'": "-*", "turso db shell x 'drop database y'": "-y",
		"psql -c 'alter database shop rename to old'": "~shop ~old", "psql -c 'alter database shop owner to ann'": "", "echo 'drop database shop'": "", "grep -r 'drop database' .": "", "createdb dropdb": "+dropdb", "snowsql -q \"drop database `cat x`\"": "-?",
		"python3 -c \"import subprocess; subprocess.run(['dropdb', 'shop'])\"": "-shop", "psql -c 'drop database'": "-*", "ssh -o ProxyCommand='createdb shop' h true": "?shop", "createdb shop -O \"$(dropdb b)\"": "+shop -b",
	} {
		if got := databasesOf(Parse(line)); got != want {
			t.Errorf("%s\n got %q\nwant %q", line, got, want)
		}
	}
	if got := databasesOf(ParseAs(PowerShell, "psql -c 'drop database shop'; createdb a")); got != "-shop ?a" {
		t.Errorf("PowerShell: got %q", got)
	}
	if got := databasesOf(ParseAs(PowerShell, "'drop database shop' | psql")); got != "-shop" {
		t.Errorf("pipe of PowerShell: got %q", got)
	}
}

// TestDatabaseServer checks which connections are the same.
func TestDatabaseServer(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"createdb x", "dropdb x", "dropdb -U ann x", "psql -c 'drop database x'", "psql -d postgres -c 'drop database x'", "psql postgres ann -c 'drop database x'", "PGPASSWORD=a dropdb x", "cd src && dropdb x", "timeout 9 dropdb x", "sh -c 'dropdb x'", "pgcli -c 'drop database x'"},
		{"createdb -h db x", "dropdb --host=db x", "dropdb -hdb x", "dropdb --ho db x", "PGHOST=db dropdb x", "psql postgres://u:p@db/postgres -c 'drop database x'", "psql 'host=db user=a dbname=b' -c 'drop database x'", "export PGHOST=db; dropdb x"},
		{"createdb -h db -p 5433 x", "PGPORT=5433 dropdb -h db x", "psql -d postgresql://db:5433/y -c 'drop database x'"},
		{"createdb -p 5433 x"},
		{"PGSERVICE=a createdb x"},
		{"docker exec db createdb x", "docker exec -it db dropdb x", "docker exec -i -t db psql -U postgres -c 'drop database x'", "docker exec -i db psql <<< 'drop database x'"},
		{"docker exec -e PGHOST=a db createdb x"},
		{"docker exec other dropdb x"},
		{"docker exec dropdb dropdb x"},
		{"docker compose exec db createdb x", "docker compose exec -T db dropdb x"},
		{"docker compose -f b.yml exec db createdb x"},
		{"docker compose exec other createdb x"},
		{"ssh db1 createdb x", "ssh db1 'dropdb x'", "ssh db1 \"psql -c 'drop database x'\""},
		{"ssh db2 createdb x"},
		{"ssh db1 sudo -u postgres createdb x", "ssh db1 'sudo -u postgres dropdb x'"},
		{"sudo -u postgres createdb x"},
		{"env PGHOST=db2 createdb x"},
		{"mysqladmin create x", "mysql -e 'drop database x'", "mysql -u root -psecret shop -e 'drop database x'", "mariadb -e 'drop database x'", "mycli -e 'drop database x'"},
		{"mysqladmin -h db create x", "mysql --host db -e 'drop database x'", "mysql -hdb -e 'drop database x'"},
		{"mysql --defaults-file=a -e 'drop database x'"},
	} {
		servers := map[string]bool{}
		for _, line := range same {
			servers[serverOf(line)] = true
		}
		if len(servers) != 1 || servers[""] {
			t.Errorf("%q: got %v", same, servers)
		}
	}
	seen := map[string]string{}
	for _, line := range []string{"createdb x", "createdb -h db x", "createdb -h db -p 5433 x", "createdb -p 5433 x", "PGSERVICE=a createdb x", "docker exec db createdb x", "docker exec other dropdb x", "docker exec dropdb dropdb x", "docker exec -e PGHOST=a db createdb x", "docker compose exec db createdb x", "docker compose -f b.yml exec db createdb x", "ssh db1 createdb x", "ssh db2 createdb x", "ssh db1 sudo -u postgres createdb x", "sudo -u postgres createdb x", "env PGHOST=db2 createdb x", "mysql --defaults-file=a -e 'drop database x'", "mysqladmin -h db create x", "HOME=/x createdb x", "PATH=/x createdb x"} {
		if other, ok := seen[serverOf(line)]; ok {
			t.Errorf("%s: the same as %s: %q", line, other, serverOf(line))
		}
		seen[serverOf(line)] = line
	}
	for _, line := range []string{"psql \"$URL\" -c 'drop database x'", "dropdb -h $HOST x", "source .env; dropdb x", "eval \"$(x)\"; dropdb x", "export PGHOST=$X; dropdb x", "if a; then export PGHOST=b; fi; dropdb x", "xargs dropdb x", "bash -lc 'dropdb x'", "psql 'postgres://db/x?host=y' -c 'drop database x'", "psql $ARGS -c 'drop database x'", "psql -c '\\c postgres://db/y' -c 'drop database x'", "psql <<'E'\n\\connect \"host=db\"\ndrop database x;\nE", "psql -f x.sql -c 'drop database x'", "echo \"drop database x; $Y\" | psql", "mysql -e 'connect y db; drop database x'", "docker exec $C dropdb x", "docker run db dropdb x", "sqlcmd -Q 'drop database x'", "cd $X && docker compose exec db dropdb x"} {
		if got := serverOf(line); got != "" && !strings.Contains(line, "compose") {
			t.Errorf("%s: got %q, want an unknown server", line, got)
		}
	}
}

// serverOf returns the server of the last database of a line, and its family.
func serverOf(line string) (server string) {
	s := Parse(line)
	for i := range s.Commands {
		for _, d := range s.Databases(i) {
			if server = ""; d.Server != "" {
				server = fmt.Sprintf("%s %s %v", d.Family, d.Server, d.Here)
			}
		}
	}
	return server
}

// TestManyDatabases checks the limits for lines that are built to cost time or memory.
func TestManyDatabases(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"statements": "psql -c '" + strings.Repeat("drop database a; ", 10_000) + "'",
		"a pipe":     "gen 'x\ndrop database a' " + strings.Repeat("| psql ", 3000),
		"words":      "gen " + strings.Repeat("drop ", 40_000) + "| psql",
		"letters":    "gen " + strings.Repeat("a", 200_000) + "| psql",
		"programs":   strings.Repeat("createdb a && ", 3000) + "dropdb a",
	} {
		s := Parse(line)
		total := 0
		for i := range s.Commands {
			total += len(s.Databases(i))
		}
		if total > 4000 {
			t.Errorf("%s: %d databases", name, total)
		}
	}
	if got := databasesOf(Parse("psql -c '" + strings.Repeat("drop database a; ", 100) + "'")); !strings.HasSuffix(got, "-a -*") {
		t.Errorf("got %q", got)
	}
}

func TestSteers(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"export PGHOST=db": true, "PGHOST=db": true, "unset PGHOST": true, "PGHOST=db dropdb x": false, "source .env": true, ". ./x": true, "export PGPASSWORD=x": false, "export PATH=$PATH:~/bin": false, "(export PGHOST=db)": false,
		"docker context use prod": true, "kubectl port-forward svc/db 5432": true, "kubectl get pods": false, "gcloud container clusters get-credentials prod": true, "ssh -N -L 5432:db:5432 h": true, "ssh -fNL 5432:db:5432 h": true, "ssh h ls": false, "docker ps": false, "git status": false,
	} {
		if got := Parse(line).Steers(); got != want {
			t.Errorf("%s: got %v", line, got)
		}
	}
}
