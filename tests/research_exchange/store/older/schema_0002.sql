BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE evidence (
	run_id VARCHAR(14) NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	kind VARCHAR(64) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	size INTEGER NOT NULL, 
	update_sequence INTEGER, 
	received_at DATETIME NOT NULL, after_update INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (run_id, name), 
	FOREIGN KEY(run_id, update_sequence) REFERENCES updates (run_id, sequence), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "evidence" VALUES('run_0123456789','a.txt',1,'log','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',1,1,'2026-03-01 12:00:00.000000',0);
INSERT INTO "evidence" VALUES('run_0123456789','b.txt',2,'log','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc',1,NULL,'2026-03-01 12:00:00.000000',2);
CREATE TABLE outcomes (
	run_id VARCHAR(14) NOT NULL, 
	number INTEGER NOT NULL, 
	recorded_at DATETIME NOT NULL, 
	cause TEXT NOT NULL, 
	validator_version VARCHAR(64) NOT NULL, 
	judgment BLOB NOT NULL, 
	PRIMARY KEY (run_id, number), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "outcomes" VALUES('run_0123456789',1,'2026-03-01 12:04:00.000000','final update 2','1',X'7B2276657264696374223A2022737570706F72746564227D');
CREATE TABLE refusals (
	run_id VARCHAR(14) NOT NULL, 
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	problems TEXT NOT NULL, 
	update_sequence INTEGER, 
	received_at DATETIME NOT NULL, 
	PRIMARY KEY (run_id, number), 
	FOREIGN KEY(run_id, update_sequence) REFERENCES updates (run_id, sequence), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "refusals" VALUES('run_0123456789',1,'.env','["R-169"]',1,'2026-03-01 12:00:00.000000');
CREATE TABLE runs (
	id VARCHAR(14) NOT NULL, 
	spec_id VARCHAR(14) NOT NULL, 
	launch_mode VARCHAR(16) NOT NULL CHECK (launch_mode IN ('ordinary', 'redo')), 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(spec_id) REFERENCES specs (id)
);
INSERT INTO "runs" VALUES('run_0123456789','exp_0123456789','ordinary','2026-03-01 12:00:00.000000');
INSERT INTO "runs" VALUES('run_1111111111','exp_0123456789','redo','2026-03-01 12:01:00.000000');
CREATE TABLE session_ends (
	session_id VARCHAR(14) NOT NULL, 
	ended_at DATETIME NOT NULL, 
	exit_code INTEGER, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (session_id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "session_ends" VALUES('ses_bbbbbbbbbb','2026-03-01 12:02:00.000000',1,'the command failed');
CREATE TABLE sessions (
	id VARCHAR(14) NOT NULL, 
	run_id VARCHAR(14) NOT NULL, 
	started_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "sessions" VALUES('ses_bbbbbbbbbb','run_0123456789','2026-03-01 12:00:00.000000');
INSERT INTO "sessions" VALUES('ses_aaaaaaaaaa','run_0123456789','2026-03-01 12:03:00.000000');
CREATE TABLE specs (
	id VARCHAR(14) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	title TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	raw BLOB NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (sha256)
);
INSERT INTO "specs" VALUES('exp_0123456789','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','A title','2026-03-01 12:00:00.000000',X'7B227469746C65223A202241207469746C65227D');
CREATE TABLE tokens (
	sha256 VARCHAR(64) NOT NULL, 
	run_id VARCHAR(14) NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (sha256), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "tokens" VALUES('9718c2827d3483d0564c1ae044ba77fe038c45f0e3ba9e68e6b10eca1b7dd320','run_0123456789','2026-03-01 12:00:00.000000');
INSERT INTO "tokens" VALUES('aabe0e5c7c11cc23856c15511f6a717da20d604fce27bc8c371d9cfe7619c49c','run_1111111111','2026-03-01 12:01:00.000000');
CREATE TABLE updates (
	run_id VARCHAR(14) NOT NULL, 
	sequence INTEGER NOT NULL CHECK (sequence >= 1), 
	received_at DATETIME NOT NULL, 
	session_id VARCHAR(14), 
	sha256 VARCHAR(64) NOT NULL, 
	size INTEGER NOT NULL, 
	raw BLOB NOT NULL, 
	PRIMARY KEY (run_id, sequence), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "updates" VALUES('run_0123456789',1,'2026-03-01 12:00:00.000000','ses_bbbbbbbbbb','467c4542715141111a2dc44398ff2db87cacf3caac30483d6520710e9d42bf62',21,X'7B22737461747573223A202272756E6E696E67227D');
INSERT INTO "updates" VALUES('run_0123456789',2,'2026-03-01 12:04:00.000000','ses_aaaaaaaaaa','f9e41e194fd1ca8f6871cd423b1704aed15e7bb18ee481bf44268cc5989f190f',23,X'7B22737461747573223A2022737563636565646564227D');
CREATE INDEX ix_runs_spec_id ON runs (spec_id);
CREATE INDEX ix_runs_created_at ON runs (created_at);
CREATE INDEX ix_tokens_run_id ON tokens (run_id);
CREATE INDEX ix_sessions_run_id ON sessions (run_id);
CREATE TRIGGER specs_no_update BEFORE UPDATE ON specs BEGIN SELECT RAISE(ABORT, 'specs is append-only: no update'); END;
CREATE TRIGGER specs_no_delete BEFORE DELETE ON specs BEGIN SELECT RAISE(ABORT, 'specs is append-only: no delete'); END;
CREATE TRIGGER specs_no_replace BEFORE INSERT ON specs WHEN EXISTS (SELECT 1 FROM specs WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'specs is append-only: no replace'); END;
CREATE TRIGGER runs_no_update BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs is append-only: no update'); END;
CREATE TRIGGER runs_no_delete BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'runs is append-only: no delete'); END;
CREATE TRIGGER runs_no_replace BEFORE INSERT ON runs WHEN EXISTS (SELECT 1 FROM runs WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'runs is append-only: no replace'); END;
CREATE TRIGGER sessions_no_update BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'sessions is append-only: no update'); END;
CREATE TRIGGER sessions_no_delete BEFORE DELETE ON sessions BEGIN SELECT RAISE(ABORT, 'sessions is append-only: no delete'); END;
CREATE TRIGGER sessions_no_replace BEFORE INSERT ON sessions WHEN EXISTS (SELECT 1 FROM sessions WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'sessions is append-only: no replace'); END;
CREATE TRIGGER session_ends_no_update BEFORE UPDATE ON session_ends BEGIN SELECT RAISE(ABORT, 'session_ends is append-only: no update'); END;
CREATE TRIGGER session_ends_no_delete BEFORE DELETE ON session_ends BEGIN SELECT RAISE(ABORT, 'session_ends is append-only: no delete'); END;
CREATE TRIGGER session_ends_no_replace BEFORE INSERT ON session_ends WHEN EXISTS (SELECT 1 FROM session_ends WHERE session_id = NEW.session_id) BEGIN SELECT RAISE(ABORT, 'session_ends is append-only: no replace'); END;
CREATE TRIGGER updates_no_update BEFORE UPDATE ON updates BEGIN SELECT RAISE(ABORT, 'updates is append-only: no update'); END;
CREATE TRIGGER updates_no_delete BEFORE DELETE ON updates BEGIN SELECT RAISE(ABORT, 'updates is append-only: no delete'); END;
CREATE TRIGGER updates_no_replace BEFORE INSERT ON updates WHEN EXISTS (SELECT 1 FROM updates WHERE run_id = NEW.run_id AND sequence = NEW.sequence) BEGIN SELECT RAISE(ABORT, 'updates is append-only: no replace'); END;
CREATE TRIGGER evidence_no_update BEFORE UPDATE ON evidence BEGIN SELECT RAISE(ABORT, 'evidence is append-only: no update'); END;
CREATE TRIGGER evidence_no_delete BEFORE DELETE ON evidence BEGIN SELECT RAISE(ABORT, 'evidence is append-only: no delete'); END;
CREATE TRIGGER evidence_no_replace BEFORE INSERT ON evidence WHEN EXISTS (SELECT 1 FROM evidence WHERE run_id = NEW.run_id AND name = NEW.name) BEGIN SELECT RAISE(ABORT, 'evidence is append-only: no replace'); END;
CREATE TRIGGER refusals_no_update BEFORE UPDATE ON refusals BEGIN SELECT RAISE(ABORT, 'refusals is append-only: no update'); END;
CREATE TRIGGER refusals_no_delete BEFORE DELETE ON refusals BEGIN SELECT RAISE(ABORT, 'refusals is append-only: no delete'); END;
CREATE TRIGGER refusals_no_replace BEFORE INSERT ON refusals WHEN EXISTS (SELECT 1 FROM refusals WHERE run_id = NEW.run_id AND number = NEW.number) BEGIN SELECT RAISE(ABORT, 'refusals is append-only: no replace'); END;
CREATE TRIGGER outcomes_no_update BEFORE UPDATE ON outcomes BEGIN SELECT RAISE(ABORT, 'outcomes is append-only: no update'); END;
CREATE TRIGGER outcomes_no_delete BEFORE DELETE ON outcomes BEGIN SELECT RAISE(ABORT, 'outcomes is append-only: no delete'); END;
CREATE TRIGGER outcomes_no_replace BEFORE INSERT ON outcomes WHEN EXISTS (SELECT 1 FROM outcomes WHERE run_id = NEW.run_id AND number = NEW.number) BEGIN SELECT RAISE(ABORT, 'outcomes is append-only: no replace'); END;
CREATE TRIGGER updates_no_gap BEFORE INSERT ON updates WHEN NEW.sequence <> (SELECT COALESCE(MAX(sequence), 0) + 1 FROM updates WHERE run_id = NEW.run_id) BEGIN SELECT RAISE(ABORT, 'updates.sequence counts within a run without gaps'); END;
CREATE TRIGGER refusals_no_gap BEFORE INSERT ON refusals WHEN NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM refusals WHERE run_id = NEW.run_id) BEGIN SELECT RAISE(ABORT, 'refusals.number counts within a run without gaps'); END;
CREATE TRIGGER outcomes_no_gap BEFORE INSERT ON outcomes WHEN NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM outcomes WHERE run_id = NEW.run_id) BEGIN SELECT RAISE(ABORT, 'outcomes.number counts within a run without gaps'); END;
COMMIT;
