-- What the index knows about a line of the journal. seq is the position behind the line, and size its length:
-- the line itself is only in the journal.
-- agent, session and event are numbers of labels. digest is empty, except for late lines; sum is a checksum
-- of the line.
CREATE TABLE record (
	seq      INTEGER PRIMARY KEY,
	size     INTEGER NOT NULL,
	id       TEXT    NOT NULL,
	late     INTEGER NOT NULL,
	digest   BLOB    NOT NULL,
	sum      INTEGER NOT NULL,
	time     INTEGER NOT NULL,
	agent    INTEGER NOT NULL,
	session  INTEGER NOT NULL,
	event    INTEGER NOT NULL,
	decision INTEGER NOT NULL,
	would    INTEGER NOT NULL,
	torn     TEXT    NOT NULL
);
-- One firing has a Record for each decision, and any number of lines that tell how observers ended.
CREATE UNIQUE INDEX record_once ON record(id, decision, digest);
CREATE INDEX record_session ON record(session, seq);
CREATE INDEX record_decision ON record(decision, seq) WHERE decision > 0;

-- The texts that many rows share.
CREATE TABLE label (
	num  INTEGER PRIMARY KEY,
	text TEXT NOT NULL UNIQUE
);

-- Other answers to a firing that has one with the same decision, by the position of their lines.
CREATE TABLE again (
	seq      INTEGER PRIMARY KEY,
	id       TEXT    NOT NULL,
	decision INTEGER NOT NULL
);

-- The hooks that ran.
CREATE TABLE hook (
	num    INTEGER PRIMARY KEY,
	name   TEXT NOT NULL,
	source TEXT NOT NULL,
	UNIQUE (name, source)
);
CREATE TABLE ran (
	hook INTEGER NOT NULL,
	seq  INTEGER NOT NULL,
	PRIMARY KEY (hook, seq)
) WITHOUT ROWID;

-- The words of the Records.
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');

-- The counts of the Records from the first row to the last, so that statistics need not read these lines.
-- oldest and newest are the bounds of their times.
CREATE TABLE summary (
	first  INTEGER PRIMARY KEY,
	last   INTEGER NOT NULL,
	oldest INTEGER NOT NULL,
	newest INTEGER NOT NULL,
	counts BLOB    NOT NULL
);

-- The index has all lines up to this position. key is the random name of its segment.
CREATE TABLE position (
	seq INTEGER NOT NULL,
	key TEXT    NOT NULL
);
INSERT INTO position VALUES (0, '');
