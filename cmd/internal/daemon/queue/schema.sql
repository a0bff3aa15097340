-- Deliveries. due is when the next try may begin: next, or when the lease ends. A job that
-- is not ready waits for an earlier one of its target and session. The event of a delivered job
-- is empty.
CREATE TABLE job (
	num     INTEGER PRIMARY KEY,
	id      TEXT    NOT NULL UNIQUE,
	record  TEXT    NOT NULL,
	target  TEXT    NOT NULL,
	session TEXT    NOT NULL,
	ordered INTEGER NOT NULL,
	ready   INTEGER NOT NULL,
	state   TEXT    NOT NULL,
	tries   INTEGER NOT NULL,
	next    INTEGER NOT NULL,
	due     INTEGER NOT NULL,
	status  INTEGER NOT NULL,
	error   TEXT    NOT NULL,
	created INTEGER NOT NULL,
	ended   INTEGER NOT NULL,
	hook    BLOB    NOT NULL,
	event   BLOB    NOT NULL
);
CREATE INDEX job_due ON job(target, due) WHERE state = 'waiting' AND ready = 1;
CREATE INDEX job_turn ON job(target, num, due) WHERE state = 'waiting' AND ready = 1;
CREATE INDEX job_line ON job(target, session, num) WHERE state = 'waiting';
CREATE INDEX job_state ON job(state, num);
CREATE INDEX job_ended ON job(ended) WHERE ended > 0;
CREATE INDEX job_record ON job(record, state);
CREATE INDEX job_target ON job(target, state, created);

-- Targets that are off.
CREATE TABLE off (
	target TEXT PRIMARY KEY,
	since  INTEGER NOT NULL,
	why    TEXT    NOT NULL
) WITHOUT ROWID;
