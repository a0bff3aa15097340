package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Version returns the version of the newest schema that this program knows.
func Version() int {
	names, _ := fs.Glob(migrations, "migrations/*.sql")
	return len(names)
}

// lock is the number of the advisory lock that a setup holds.
const lock = 7239451001

// Setup creates or updates the schema grapnel and the roles grapnel_writer and grapnel_reader. It needs
// the login of the owner of the database. days is how long Records are kept; 0 = as before, at
// first 90. It returns the versions of the schema before and after.
func Setup(ctx context.Context, o Options, days int) (before, after int, err error) {
	conn, err := connect(ctx, o)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lock); err != nil {
			return err
		}
		if before, err = version(ctx, tx); err != nil {
			return err
		}
		if err := known(before); err != nil {
			return err
		}
		for after = before; after < Version(); after++ {
			if err := migrate(ctx, tx, after+1); err != nil {
				return fmt.Errorf("version %d: %w", after+1, err)
			}
		}
		if days > 0 {
			_, err = tx.Exec(ctx, "UPDATE grapnel.setting SET days = $1", days)
		}
		return err
	})
	if err != nil {
		return before, before, fmt.Errorf("cannot prepare the database: %w", o.explain(err))
	}
	return before, after, nil
}

// version returns the version of the schema of a database; 0 = it has none.
func version(ctx context.Context, tx pgx.Tx) (n int, err error) {
	_, err = tx.Exec(ctx, `DO $$ BEGIN
		IF to_regnamespace('grapnel') IS NULL THEN CREATE SCHEMA grapnel; CREATE TABLE grapnel.version (n int NOT NULL); INSERT INTO grapnel.version VALUES (0); END IF;
		IF to_regrole('grapnel_writer') IS NULL THEN CREATE ROLE grapnel_writer NOLOGIN; END IF;
		IF to_regrole('grapnel_reader') IS NULL THEN CREATE ROLE grapnel_reader NOLOGIN; END IF;
	END $$`)
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT n FROM grapnel.version").Scan(&n)
	}
	return n, err
}

// known returns an error for a schema that this program does not know.
func known(n int) error {
	if n > Version() {
		return fmt.Errorf("the schema of the database has version %d, and this program knows %d: update Grapnel", n, Version())
	}
	return nil
}

// migrate runs one migration.
func migrate(ctx context.Context, tx pgx.Tx, n int) error {
	script, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", n))
	if err == nil {
		_, err = tx.Exec(ctx, string(script))
	}
	if err == nil {
		_, err = tx.Exec(ctx, "UPDATE grapnel.version SET n = $1", n)
	}
	return err
}
