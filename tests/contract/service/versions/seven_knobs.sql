BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('layout_defaults');
CREATE TABLE audit (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	happened_unix_s DOUBLE NOT NULL, 
	event VARCHAR(32) NOT NULL, 
	subject VARCHAR(64) NOT NULL, 
	detail TEXT NOT NULL
);
CREATE TABLE config_summaries (
	study_id VARCHAR(32) NOT NULL, 
	config_digest VARCHAR(64) NOT NULL, 
	config TEXT NOT NULL, 
	trials BIGINT NOT NULL, 
	jobs INTEGER NOT NULL, 
	is_confirmed BOOLEAN NOT NULL, 
	is_promising BOOLEAN NOT NULL, 
	speedup DOUBLE, 
	ci_low DOUBLE, 
	ci_high DOUBLE, 
	newest_unix_s DOUBLE NOT NULL, baseline TEXT, is_over_default BOOLEAN DEFAULT 0 NOT NULL, is_supported BOOLEAN DEFAULT 0 NOT NULL, reporters INTEGER DEFAULT '0' NOT NULL, trusted_jobs INTEGER DEFAULT '0' NOT NULL, adopted INTEGER DEFAULT '0' NOT NULL, opposed INTEGER DEFAULT '0' NOT NULL, leaning INTEGER DEFAULT '0' NOT NULL, beaten INTEGER DEFAULT '0' NOT NULL, minus_since_s DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_config_summaries PRIMARY KEY (study_id, config_digest), 
	CONSTRAINT fk_config_summaries_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE
);
INSERT INTO "config_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','a56a83e3ac1a97ee4dc6fe1877fab2fe2ffbb807ec8e84acca9fac28aff3b645','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":4194304,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}',1,1,0,0,5.26315785394204926905e-02,-9.10082184882608259679e-03,1.18209868945262169814e-01,1.79591799746500706668e+09,'{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}',1,0,1,1,0,0,0,0,0.0);
INSERT INTO "config_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":8388608,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}',3,1,0,1,2.00000000247254450247e-01,1.58740374382454974e-01,2.42728770334641741346e-01,1.79591799746500706668e+09,'{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}',1,0,1,1,1,0,0,0,-1.79591799746500706668e+09);
CREATE TABLE job_facts (
	study_id VARCHAR(32) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	verdict TEXT, 
	name TEXT, 
	tags TEXT NOT NULL, 
	code_commit TEXT, 
	begun_unix_s DOUBLE NOT NULL, 
	heard_unix_s DOUBLE NOT NULL, 
	CONSTRAINT pk_job_facts PRIMARY KEY (study_id, job_id), 
	CONSTRAINT fk_job_facts_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE
);
INSERT INTO "job_facts" VALUES('7321b4605317489fb45f0343c544a6ef','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','adopted','adopted',NULL,'[]',NULL,1.79591799755500841143e+09,1.79591799755500841143e+09);
CREATE TABLE job_summaries (
	study_id VARCHAR(32) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	config_digest VARCHAR(64) NOT NULL, 
	trials BIGINT NOT NULL, 
	samples BIGINT NOT NULL, 
	log_step_e9 BIGINT NOT NULL, 
	adoptions BIGINT NOT NULL, 
	log_speedup_e9 BIGINT NOT NULL, 
	variance_e12 BIGINT NOT NULL, 
	newest_unix_s DOUBLE NOT NULL, baseline TEXT, token_id VARCHAR(32), compared BIGINT DEFAULT '0' NOT NULL, log_gain_low_e9 BIGINT DEFAULT '0' NOT NULL, log_gain_high_e9 BIGINT DEFAULT '0' NOT NULL, open_windows TEXT, first_unix_s DOUBLE DEFAULT '0' NOT NULL, tested_unix_s DOUBLE, 
	CONSTRAINT pk_job_summaries PRIMARY KEY (study_id, job_id, config_digest), 
	CONSTRAINT fk_job_summaries_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE
);
INSERT INTO "job_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','',3,3,13815510558,0,0,0,1.79591799746500706668e+09,'{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}',NULL,0,0,0,'[4605170186,{"c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8":[2,8837681216]}]',1.79591799746500706668e+09,NULL);
INSERT INTO "job_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','a56a83e3ac1a97ee4dc6fe1877fab2fe2ffbb807ec8e84acca9fac28aff3b645',1,1,4553876892,0,0,0,1.79591799746500706668e+09,NULL,NULL,1,51293294,51293294,NULL,1.79591799746500706668e+09,NULL);
INSERT INTO "job_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8',3,3,13244400463,1,182321557,452464352,1.79591799746500706668e+09,NULL,NULL,1,198450939,198450939,NULL,1.79591799746500706668e+09,1.79591799746500706668e+09);
CREATE TABLE jobs (
	job_id VARCHAR(64) NOT NULL, 
	token_id VARCHAR(32), 
	first_unix_s DOUBLE NOT NULL, 
	CONSTRAINT pk_jobs PRIMARY KEY (job_id)
);
INSERT INTO "jobs" VALUES('0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201',NULL,1.79591799741998624801e+09);
CREATE TABLE page_sessions (
	session_sha256 VARCHAR(64) NOT NULL, 
	token_id VARCHAR(32) NOT NULL, 
	token_proof VARCHAR(64) NOT NULL, 
	form_key_sha256 VARCHAR(64), 
	created_unix_s DOUBLE NOT NULL, 
	seen_unix_s DOUBLE NOT NULL, 
	CONSTRAINT pk_page_sessions PRIMARY KEY (session_sha256)
);
CREATE TABLE queued_suggestions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	study_id VARCHAR(32) NOT NULL, 
	config TEXT NOT NULL, 
	config_digest VARCHAR(64) NOT NULL, 
	designer VARCHAR(64) NOT NULL, space_digest VARCHAR(64) DEFAULT '' NOT NULL, 
	CONSTRAINT fk_queued_suggestions_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE, 
	CONSTRAINT uq_queued_suggestions_study_id_config_digest UNIQUE (study_id, config_digest)
);
CREATE TABLE reporter_summaries (
	study_id VARCHAR(32) NOT NULL, 
	config_digest VARCHAR(64) NOT NULL, 
	reporter VARCHAR(80) NOT NULL, 
	token_id VARCHAR(32), 
	jobs INTEGER NOT NULL, 
	tests INTEGER NOT NULL, 
	windows INTEGER NOT NULL, 
	stand VARCHAR(16) NOT NULL, 
	speedup DOUBLE NOT NULL, 
	ci_low DOUBLE NOT NULL, 
	ci_high DOUBLE NOT NULL, 
	since_unix_s DOUBLE NOT NULL, 
	CONSTRAINT pk_reporter_summaries PRIMARY KEY (study_id, config_digest, reporter), 
	CONSTRAINT fk_reporter_summaries_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE
);
INSERT INTO "reporter_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','a56a83e3ac1a97ee4dc6fe1877fab2fe2ffbb807ec8e84acca9fac28aff3b645','job:0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201',NULL,1,0,1,'unclear',5.26315785394204926905e-02,-9.10082184882608259679e-03,1.18209868945262169814e-01,1.79591799746500706668e+09);
INSERT INTO "reporter_summaries" VALUES('7321b4605317489fb45f0343c544a6ef','c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8','job:0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201',NULL,1,1,1,'adopted',2.00000000247254450247e-01,1.58740374382454974e-01,2.42728770334641741346e-01,1.79591799746500706668e+09);
CREATE TABLE reports (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	study_id VARCHAR(32) NOT NULL, 
	trial_id VARCHAR(64) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	run_id VARCHAR(64), 
	body_digest VARCHAR(64) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	status_reason TEXT, 
	phase VARCHAR(16) NOT NULL, 
	config TEXT NOT NULL, 
	config_digest VARCHAR(64) NOT NULL, 
	score_bytes_per_s DOUBLE, 
	median_step_ms DOUBLE, 
	mad_step_ms DOUBLE, 
	mean_step_ms DOUBLE, 
	steps BIGINT NOT NULL, 
	valid BOOLEAN NOT NULL, 
	void_reason VARCHAR(32), 
	speedup DOUBLE, 
	ci_low DOUBLE, 
	ci_high DOUBLE, 
	pairs INTEGER, 
	received_unix_s DOUBLE NOT NULL, token_id VARCHAR(32), ci_level DOUBLE, 
	CONSTRAINT fk_reports_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE, 
	CONSTRAINT uq_reports_study_id_trial_id UNIQUE (study_id, trial_id)
);
INSERT INTO "reports" VALUES(1,'7321b4605317489fb45f0343c544a6ef','cab31316-902f-5c49-a60b-453c0b719121','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','ee2dd719edfadb847490fb9615dd10cd91988bead3ebaaa4a1439fc82cc94d23','new',NULL,'warmup','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','61f2bde5be00ef212202f5ffc6c9e1e861407275333cd3709d2ef422c087aaea',1.33333333333333343268e+08,300.0,3.0,300.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(2,'7321b4605317489fb45f0343c544a6ef','157298c4-8051-5098-a6aa-f3529cfa9b10','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','a86e060647d30673ac1856db65d651279e77c6002b4bba969b670518db0d4ef3','new',NULL,'baseline','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','61f2bde5be00ef212202f5ffc6c9e1e861407275333cd3709d2ef422c087aaea',400000000.0,100.0,1.0,100.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(3,'7321b4605317489fb45f0343c544a6ef','e4191358-55a9-56b2-816a-504b2de2dd82','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','a86e060647d30673ac1856db65d651279e77c6002b4bba969b670518db0d4ef3','new',NULL,'baseline','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','61f2bde5be00ef212202f5ffc6c9e1e861407275333cd3709d2ef422c087aaea',400000000.0,100.0,1.0,100.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(4,'7321b4605317489fb45f0343c544a6ef','a29bb283-3524-5375-b4c6-b872752b1c55','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','d29024d75bc81430414b89fc67514fdbede8016d860a982faeef7c0e7dcb8c79','new',NULL,'search','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":8388608,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8',4.87804878048780441281e+08,82.0,8.20000000000000062172e-01,82.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(5,'7321b4605317489fb45f0343c544a6ef','0d000f4c-57f7-594a-84d2-bce626ae2c38','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','3e6b9ac4ccd09220ec038a57887cbc4894bbbedb44adebbeac6839556ce59930','new',NULL,'search','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":4194304,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','a56a83e3ac1a97ee4dc6fe1877fab2fe2ffbb807ec8e84acca9fac28aff3b645',4.210526315789473653e+08,95.0,9.50000000000000066613e-01,95.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(6,'7321b4605317489fb45f0343c544a6ef','4d5a6c69-4e9a-5edc-9529-5488ff8fc8ad','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','fa93e7326af32bad120c5d18bad73647f312248e700ea122576cfdbbb154625f','new',NULL,'search','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":4194304,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','a56a83e3ac1a97ee4dc6fe1877fab2fe2ffbb807ec8e84acca9fac28aff3b645',4.21052631578947324317e+06,9500.0,95.0,9500.0,20,0,'pause',NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(7,'7321b4605317489fb45f0343c544a6ef','66b2cac3-d551-55dd-abeb-a9bb119678a0','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','a86e060647d30673ac1856db65d651279e77c6002b4bba969b670518db0d4ef3','new',NULL,'baseline','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','61f2bde5be00ef212202f5ffc6c9e1e861407275333cd3709d2ef422c087aaea',400000000.0,100.0,1.0,100.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(8,'7321b4605317489fb45f0343c544a6ef','8fbe01ef-0b82-5929-996a-f3466471289b','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','1de8b9c9878d7cd08bb2ad33fedea6498d466527d62423f1dd50d747d1f81878','new',NULL,'adoption','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":8388608,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8',4.81927710843373477466e+08,83.0,8.30000000000000071054e-01,83.0,20,1,NULL,NULL,NULL,NULL,NULL,1.79591799746500706668e+09,NULL,NULL);
INSERT INTO "reports" VALUES(9,'7321b4605317489fb45f0343c544a6ef','18ba057d-319c-5660-a2ad-2a3579302126','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','dba322ee8a62bb531c1bb9d4cbc17daab4a66bcb681d6ac798a4f19e642abda0','new',NULL,'adoption','{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":8388608,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true}','c8d2390dee0e50ee4c50d2f696a78d83001895aebe4483f3a2e609038bea8cb8',4.81927710843373477466e+08,83.0,8.30000000000000071054e-01,83.0,20,1,NULL,0.2,0.15,0.25,6,1.79591799746500706668e+09,NULL,0.95);
CREATE TABLE runs (
	run_id VARCHAR(64) NOT NULL, 
	study_id VARCHAR(32) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	body_digest VARCHAR(64) NOT NULL, 
	header TEXT NOT NULL, 
	results INTEGER NOT NULL, 
	received_unix_s DOUBLE NOT NULL, token_id VARCHAR(32), 
	CONSTRAINT pk_runs PRIMARY KEY (run_id), 
	CONSTRAINT fk_runs_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE
);
INSERT INTO "runs" VALUES('0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','7321b4605317489fb45f0343c544a6ef','0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201','9ec32a35f2cc6ce5ef9894a45f760df7454b08520a5e24ed5b29b1f83ede4d6b','{"baseline":{"allreduce_algorithm":"auto","chunk_bytes":"auto","cycle_ms":1.0,"fusion_bytes":67108864,"hierarchical_allgather":false,"hierarchical_allreduce":false,"response_cache":true},"fixed":{},"key":{"hardware":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","layout":[2],"model":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","surface_version":1,"target":"ringtune"},"layout":{"ranks_per_host":[2]},"model_name":"resnet50","run_id":"0d9b7c52-64a1-4b7e-9f0d-0d51a6a3c201","schema":1,"search_space":{"fixed":{"allreduce_algorithm":"auto","hierarchical_allgather":false,"hierarchical_allreduce":false},"parameters":[{"default":67108864,"high":268435456,"kind":"number","low":65536,"name":"fusion_bytes","scale":"log2","special":[0],"step":65536},{"default":1.0,"high":50.0,"kind":"number","low":0.05,"name":"cycle_ms","scale":"log","special":[],"step":0},{"default":false,"kind":"boolean","name":"hierarchical_allreduce"},{"default":false,"kind":"boolean","name":"hierarchical_allgather"},{"default":true,"kind":"boolean","name":"response_cache"},{"choices":["auto"],"default":"auto","kind":"category","name":"allreduce_algorithm"},{"default":"auto","high":4194304,"kind":"number","low":16384,"name":"chunk_bytes","scale":"log2","special":["auto"],"step":4096}]},"seed":0,"steps_budget":{},"t_s":0.0,"type":"run","unix_time_s":1700000000.0,"versions":{"ringtune":"0.1.0"}}',9,1.79591799754599618912e+09,NULL);
CREATE TABLE studies (
	study_id VARCHAR(32) NOT NULL, 
	key_digest VARCHAR(64) NOT NULL, 
	hardware VARCHAR(64) NOT NULL, 
	model VARCHAR(64) NOT NULL, 
	layout TEXT NOT NULL, 
	target VARCHAR(64) NOT NULL, 
	surface_version INTEGER NOT NULL, 
	model_name TEXT, 
	hardware_name TEXT, 
	space TEXT NOT NULL, 
	gradient_bytes TEXT NOT NULL, 
	created_unix_s DOUBLE NOT NULL, machines TEXT, machines_text TEXT, 
	CONSTRAINT pk_studies PRIMARY KEY (study_id), 
	CONSTRAINT uq_studies_key_digest UNIQUE (key_digest)
);
INSERT INTO "studies" VALUES('7321b4605317489fb45f0343c544a6ef','db76ac19bfe4dee0fe6e6c743902b7d417179cc8512ff8ca21a9e065be56b68e','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','[2]','ringtune',1,'resnet50',NULL,'{"fixed":{"allreduce_algorithm":"auto","hierarchical_allgather":false,"hierarchical_allreduce":false},"parameters":[{"default":67108864,"high":268435456,"kind":"number","low":65536,"name":"fusion_bytes","scale":"log2","special":[0],"step":65536},{"default":1.0,"high":50.0,"kind":"number","low":0.05,"name":"cycle_ms","scale":"log","special":[],"step":0},{"default":false,"kind":"boolean","name":"hierarchical_allreduce"},{"default":false,"kind":"boolean","name":"hierarchical_allgather"},{"default":true,"kind":"boolean","name":"response_cache"},{"choices":["auto"],"default":"auto","kind":"category","name":"allreduce_algorithm"},{"default":"auto","high":4194304,"kind":"number","low":16384,"name":"chunk_bytes","scale":"log2","special":["auto"],"step":4096}]}','[]',1.79591799744299936299e+09,NULL,NULL);
CREATE TABLE tokens (
	token_id VARCHAR(32) NOT NULL, 
	name TEXT NOT NULL, 
	scopes VARCHAR(64) NOT NULL, 
	secret_sha256 VARCHAR(64) NOT NULL, 
	created_unix_s DOUBLE NOT NULL, 
	revoked_unix_s DOUBLE, has_many_jobs BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_tokens PRIMARY KEY (token_id)
);
CREATE TABLE trials (
	study_id VARCHAR(32) NOT NULL, 
	trial_id VARCHAR(64) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	config TEXT NOT NULL, 
	config_digest VARCHAR(64) NOT NULL, 
	designer VARCHAR(64) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	fencing_token INTEGER NOT NULL, 
	asked_unix_s DOUBLE NOT NULL, 
	expires_unix_s DOUBLE NOT NULL, token_id VARCHAR(32), 
	CONSTRAINT pk_trials PRIMARY KEY (study_id, trial_id), 
	CONSTRAINT fk_trials_study_id FOREIGN KEY(study_id) REFERENCES studies (study_id) ON DELETE CASCADE
);
CREATE INDEX ix_studies_model_target_surface_version ON studies (model, target, surface_version);
CREATE INDEX ix_studies_hardware_target_surface_version ON studies (hardware, target, surface_version);
CREATE INDEX ix_studies_model_name ON studies (model_name);
CREATE INDEX ix_studies_created_unix_s_study_id ON studies (created_unix_s, study_id);
CREATE INDEX ix_trials_study_id_state_expires_unix_s ON trials (study_id, state, expires_unix_s);
CREATE INDEX ix_queued_suggestions_study_id_number ON queued_suggestions (study_id, number);
CREATE INDEX ix_reports_study_id_number ON reports (study_id, number);
CREATE INDEX ix_reports_received_unix_s ON reports (received_unix_s);
CREATE INDEX ix_runs_study_id ON runs (study_id);
CREATE INDEX ix_job_summaries_study_id_config_digest ON job_summaries (study_id, config_digest);
CREATE INDEX ix_reports_token_id_study_id ON reports (token_id, study_id);
CREATE INDEX ix_reporter_summaries_study_id_stand ON reporter_summaries (study_id, stand);
CREATE INDEX ix_config_summaries_rank ON config_summaries (study_id, is_promising, is_over_default, is_supported, beaten, adopted, leaning, minus_since_s, config_digest);
CREATE INDEX ix_page_sessions_token_id_seen_unix_s ON page_sessions (token_id, seen_unix_s);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('reports',9);
COMMIT;
