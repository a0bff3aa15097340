-- The Records of many machines. Programs of Grapnel write only by grapnel.store, so a role that may
-- write can neither read nor change nor remove anything. Queries of people use the views at the end: their
-- names and columns stay. docs/many-machines.md explains both.
CREATE TABLE grapnel.machine (
	machine   text        PRIMARY KEY CHECK (machine ~ '^[0-9a-f]{32}$'),
	login     text        NOT NULL, -- the first role that wrote for it; no other role can
	host      text        NOT NULL DEFAULT '',
	"user"    text        NOT NULL DEFAULT '',
	seq       bigint      NOT NULL DEFAULT 0, -- the position in the log of the machine
	digest    bytea       NOT NULL DEFAULT '',
	missed    bigint      NOT NULL DEFAULT 0, -- Records that the machine removed before it could send them
	repaired  bigint      NOT NULL DEFAULT 0, -- Records that jsonb cannot hold as they are
	first_seen timestamptz NOT NULL DEFAULT now(),
	last_seen timestamptz NOT NULL DEFAULT now(),
	alive     jsonb -- the newest heartbeat
);

CREATE TABLE grapnel.record (
	num        bigint      GENERATED ALWAYS AS IDENTITY,
	machine    text        COLLATE "C" NOT NULL,
	seq        bigint      NOT NULL, -- the row in the log of the machine
	id         text        COLLATE "C" NOT NULL,
	part       text        COLLATE "C" NOT NULL, -- tells the lines of a firing apart: the decision of a Record, the digest of a late line
	time       timestamptz NOT NULL,
	agent      text,
	session    text        COLLATE "C",
	event      text,
	tool       text,
	decision   text,
	would      text,
	halt       text,
	error      text,
	host       text,
	"user"     text,
	policy_digest   text,
	policy_revision text,
	approval   text,
	call_digest text,
	provenance text,
	gateway    text,
	tokens_in  bigint,
	tokens_out bigint,
	ms         double precision,
	late       boolean     NOT NULL,
	record     jsonb       NOT NULL,
	PRIMARY KEY (machine, id, part, time) -- a table with partitions by time needs the time
) PARTITION BY RANGE (time);
CREATE INDEX record_num ON grapnel.record (num);
CREATE INDEX record_machine ON grapnel.record (machine, num);
CREATE INDEX record_session ON grapnel.record (session, num);
CREATE INDEX record_decision ON grapnel.record (num) WHERE decision IN ('ask', 'block');

-- Records of a machine with a wrong clock, and of days whose partition could not be made.
CREATE TABLE grapnel.record_other PARTITION OF grapnel.record DEFAULT;

CREATE TABLE grapnel.setting (
	days int NOT NULL CHECK (days >= 1) -- how long Records are kept
);
INSERT INTO grapnel.setting VALUES (90);

-- prune removes the partitions of days that are older than the setting.
CREATE FUNCTION grapnel.prune() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	oldest date := (now() AT TIME ZONE 'UTC')::date - (SELECT days FROM grapnel.setting);
	part text;
BEGIN
	FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'grapnel.record'::regclass AND c.relname ~ '^record_[0-9]{8}$' AND c.relname < 'record_' || to_char(oldest, 'YYYYMMDD')
	LOOP
		EXECUTE format('DROP TABLE grapnel.%I', part);
	END LOOP;
	DELETE FROM grapnel.record_other WHERE time < oldest;
END $$;

-- prepare makes the partition of a day, unless the day is far from today or a query holds a lock for
-- long: then record_other gets the Records of the day. With a new day, old ones are removed.
CREATE FUNCTION grapnel.prepare(day date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	today date := (now() AT TIME ZONE 'UTC')::date;
	part text := 'record_' || to_char(day, 'YYYYMMDD');
BEGIN
	IF to_regclass('grapnel.' || part) IS NOT NULL OR day > today + 2 OR day < today - (SELECT days FROM grapnel.setting) THEN
		RETURN;
	END IF;
	PERFORM pg_advisory_xact_lock(7239451002); -- one session makes the partition, others get duplicate_table
	-- An attached table locks fewer others than one that is made as a partition.
	EXECUTE format('CREATE TABLE grapnel.%I (LIKE grapnel.record INCLUDING DEFAULTS)', part);
	EXECUTE format('ALTER TABLE grapnel.record ATTACH PARTITION grapnel.%I FOR VALUES FROM (%L) TO (%L)', part, day::text || ' 00:00+00', (day + 1)::text || ' 00:00+00');
	IF day = today THEN
		PERFORM grapnel.prune();
	END IF;
EXCEPTION
	WHEN lock_not_available OR check_violation OR duplicate_table THEN
		RETURN;
END $$;

-- position returns the position of a machine.
CREATE FUNCTION grapnel.position(of_machine text, OUT seq bigint, OUT digest bytea) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
	SELECT m.seq, m.digest FROM grapnel.machine m WHERE m.machine = of_machine AND m.login = session_user
$$;

-- store stores lines and the position after them. The columns come from the lines themselves, except for
-- the machine and the part. Its errors: GR001, another role writes for the machine; GR002, the position is another one.
CREATE FUNCTION grapnel.store(of_machine text, from_seq bigint, from_digest bytea, seqs bigint[], parts text[], lines text[], last_digest bytea, more_missed bigint, more_repaired bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	docs jsonb[] := lines::jsonb[];
	newest jsonb := docs[cardinality(docs)];
	m grapnel.machine;
BEGIN
	INSERT INTO grapnel.machine(machine, login) VALUES (of_machine, session_user) ON CONFLICT DO NOTHING;
	SELECT * INTO m FROM grapnel.machine WHERE machine = of_machine FOR UPDATE;
	IF m.login <> session_user THEN
		RAISE EXCEPTION 'the role % writes for machine %', m.login, of_machine USING ERRCODE = 'GR001';
	END IF;
	IF m.seq <> from_seq OR m.digest <> from_digest THEN
		RAISE EXCEPTION 'machine % is at row %', of_machine, m.seq USING ERRCODE = 'GR002';
	END IF;
	PERFORM grapnel.prepare(day) FROM (SELECT DISTINCT ((d->>'time')::timestamptz AT TIME ZONE 'UTC')::date FROM unnest(docs) d) days(day);
	INSERT INTO grapnel.record (machine, seq, id, part, time, agent, session, event, tool, decision, would, halt, error, host, "user",
		policy_digest, policy_revision, approval, call_digest, provenance, gateway, tokens_in, tokens_out, ms, late, record)
	SELECT of_machine, l.seq, d->>'id', l.part, (d->>'time')::timestamptz, d->>'agent', d->>'session', d->>'event', d->>'tool', d->>'decision', d->>'would',
		d->>'halt', d->>'error', d->>'host', d->>'user', d->>'policy_digest', d->>'policy_revision', d->>'approval', d->>'call_digest', d->>'provenance', d->>'gateway',
		(d->>'tokens_in')::bigint, (d->>'tokens_out')::bigint, (d->>'ms')::double precision, coalesce(d->'late' = 'true', false), d
	FROM unnest(seqs, parts, docs) AS l(seq, part, d)
	ON CONFLICT DO NOTHING;
	UPDATE grapnel.machine SET seq = seqs[cardinality(seqs)], digest = last_digest, missed = missed + more_missed, repaired = repaired + more_repaired, last_seen = now(),
		host = coalesce(newest->>'host', host), "user" = coalesce(newest->>'user', "user"),
		alive = coalesce((SELECT d FROM unnest(docs) WITH ORDINALITY AS x(d, n) WHERE d->>'event' = 'native.grapnel.alive' ORDER BY n DESC LIMIT 1), alive)
	WHERE machine = of_machine;
END $$;

-- The views for people. Later versions may add columns at the end.
CREATE VIEW grapnel.records AS
	SELECT num, time, machine, host, "user", agent, session, event, tool, decision, would, error, halt, policy_digest, policy_revision, approval,
		tokens_in, tokens_out, ms, id, late, record
	FROM grapnel.record;
CREATE VIEW grapnel.hook_runs AS
	SELECT r.num, r.time, r.machine, r.host, r.agent, r.event, r.id, h->>'name' AS hook, h->>'source' AS source, h->>'decision' AS decision, h->>'cause' AS cause,
		h->>'error' AS error, coalesce((h->>'fail_open')::boolean, false) AS fail_open, coalesce((h->>'observed')::boolean, false) AS observed, (h->>'ms')::double precision AS ms
	FROM grapnel.record r, jsonb_array_elements(CASE jsonb_typeof(r.record->'hooks') WHEN 'array' THEN r.record->'hooks' ELSE '[]' END) h;
CREATE VIEW grapnel.machines AS
	SELECT machine, host, "user", login, first_seen, last_seen, seq, missed, repaired, alive FROM grapnel.machine;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA grapnel FROM PUBLIC;
GRANT USAGE ON SCHEMA grapnel TO grapnel_writer, grapnel_reader;
GRANT EXECUTE ON FUNCTION grapnel.position, grapnel.store TO grapnel_writer;
GRANT SELECT ON ALL TABLES IN SCHEMA grapnel TO grapnel_reader;
