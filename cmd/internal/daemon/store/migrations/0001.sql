-- What is kept of a line of the log. The columns are a copy of what the line says, for
-- finding it; hash is the chain, from row to row by seq.
CREATE TABLE record (
	seq      INTEGER PRIMARY KEY,
	id       TEXT    NOT NULL,
	late     INTEGER NOT NULL,
	digest   BLOB    NOT NULL,
	hash     BLOB    NOT NULL,
	time     INTEGER NOT NULL,
	agent    TEXT    NOT NULL,
	session  TEXT    NOT NULL,
	event    TEXT    NOT NULL,
	tool     TEXT    NOT NULL,
	decision INTEGER NOT NULL,
	would    INTEGER NOT NULL,
	error    TEXT    NOT NULL
);
-- One firing has one answer, and any number of lines that tell how observers ended.
CREATE UNIQUE INDEX record_once ON record(id, CASE late WHEN 0 THEN x'' ELSE digest END);
CREATE INDEX record_time ON record(time, seq);
CREATE INDEX record_session ON record(session, seq);
CREATE INDEX record_decision ON record(decision, seq) WHERE decision > 0;

-- The lines are apart, so that searching the columns does not read them.
CREATE TABLE line (
	seq  INTEGER PRIMARY KEY,
	line BLOB NOT NULL
);

-- Other answers to a firing that has one already.
CREATE TABLE again (
	id     TEXT NOT NULL,
	digest BLOB NOT NULL,
	PRIMARY KEY (id, digest)
) WITHOUT ROWID;

CREATE TABLE hook (
	seq       INTEGER NOT NULL,
	n         INTEGER NOT NULL,
	name      TEXT    NOT NULL,
	source    TEXT    NOT NULL,
	decision  INTEGER NOT NULL,
	cause     TEXT    NOT NULL,
	error     TEXT    NOT NULL,
	fail_open INTEGER NOT NULL,
	async     INTEGER NOT NULL,
	ms        REAL    NOT NULL,
	PRIMARY KEY (seq, n)
) WITHOUT ROWID;
CREATE INDEX hook_name ON hook(name, seq);

-- Rows of the chain, numbered together with those of record, each of which states what
-- retention has removed: line is the statement, after the hash of the last removed row.
CREATE TABLE removal (
	seq    INTEGER PRIMARY KEY,
	time   INTEGER NOT NULL,
	last   INTEGER NOT NULL,
	after  BLOB    NOT NULL,
	line   BLOB    NOT NULL,
	digest BLOB    NOT NULL,
	hash   BLOB    NOT NULL
);

-- Rows that were missing when the database was opened. hash is that of the last.
CREATE TABLE gap (
	first INTEGER PRIMARY KEY,
	last  INTEGER NOT NULL,
	hash  BLOB    NOT NULL,
	time  INTEGER NOT NULL
);

-- What was found to be wrong when the database was opened.
CREATE TABLE finding (
	time INTEGER NOT NULL,
	seq  INTEGER NOT NULL,
	what TEXT    NOT NULL
);

-- Words of the records up to seq indexed.
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
CREATE TABLE indexed (seq INTEGER NOT NULL);
INSERT INTO indexed VALUES (0);

-- How far the files of a spool have been taken in.
CREATE TABLE mark (
	file     TEXT PRIMARY KEY,
	"offset" INTEGER NOT NULL
) WITHOUT ROWID;

-- The counts of the records from row first to row last, so that statistics need not read
-- these rows. oldest and newest are the bounds of their times.
CREATE TABLE summary (
	first  INTEGER PRIMARY KEY,
	last   INTEGER NOT NULL,
	oldest INTEGER NOT NULL,
	newest INTEGER NOT NULL,
	counts BLOB    NOT NULL
);
