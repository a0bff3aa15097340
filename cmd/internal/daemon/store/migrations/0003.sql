-- The counts of the records from row first to row last, so that statistics need not read
-- these rows. oldest and newest are the bounds of their times.
CREATE TABLE summary (
	first  INTEGER PRIMARY KEY,
	last   INTEGER NOT NULL,
	oldest INTEGER NOT NULL,
	newest INTEGER NOT NULL,
	counts BLOB    NOT NULL
);
