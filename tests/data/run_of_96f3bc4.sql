PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    cell TEXT NOT NULL,                -- JSON of the cell
    UNIQUE (run, key)
);
INSERT INTO "cells" VALUES(1,'20261124-112943-af33','sleep|serial|free|3.13.0','{"experiment": "sleep", "label": "serial", "workload": "sleep", "model": "serial", "params": {"period_s": 0.02, "times": 3}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.0", "group": "sleep|free|3.13.0", "paths": [], "series": "serial", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(2,'20261124-112943-af33','sleep|serial|free|3.13.5t','{"experiment": "sleep", "label": "serial", "workload": "sleep", "model": "serial", "params": {"period_s": 0.02, "times": 3}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.5t", "group": "sleep|free|3.13.5t", "paths": [], "series": "serial", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(3,'20261124-112943-af33','sleep|asyncio, one by one|free|3.13.0','{"experiment": "sleep", "label": "asyncio, one by one", "workload": "sleep", "model": "asyncio", "params": {"period_s": 0.02, "times": 3, "gather": false}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.0", "group": "sleep|free|3.13.0", "paths": [], "series": "asyncio, one by one", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(4,'20261124-112943-af33','sleep|asyncio, one by one|free|3.13.5t','{"experiment": "sleep", "label": "asyncio, one by one", "workload": "sleep", "model": "asyncio", "params": {"period_s": 0.02, "times": 3, "gather": false}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.5t", "group": "sleep|free|3.13.5t", "paths": [], "series": "asyncio, one by one", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(5,'20261124-112943-af33','sleep|asyncio|free|3.13.0','{"experiment": "sleep", "label": "asyncio", "workload": "sleep", "model": "asyncio", "params": {"period_s": 0.02, "times": 3}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.0", "group": "sleep|free|3.13.0", "paths": [], "series": "asyncio", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(6,'20261124-112943-af33','sleep|asyncio|free|3.13.5t','{"experiment": "sleep", "label": "asyncio", "workload": "sleep", "model": "asyncio", "params": {"period_s": 0.02, "times": 3}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.5t", "group": "sleep|free|3.13.5t", "paths": [], "series": "asyncio", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(7,'20261124-112943-af33','sleep|threads|free|3.13.0','{"experiment": "sleep", "label": "threads", "workload": "sleep", "model": "threads", "params": {"period_s": 0.02, "times": 3}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.0", "group": "sleep|free|3.13.0", "paths": [], "series": "threads", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
INSERT INTO "cells" VALUES(8,'20261124-112943-af33','sleep|threads|free|3.13.5t','{"experiment": "sleep", "label": "threads", "workload": "sleep", "model": "threads", "params": {"period_s": 0.02, "times": 3}, "samples": 2, "warmups": 0, "placement": "free", "interpreter": "3.13.5t", "group": "sleep|free|3.13.5t", "paths": [], "series": "threads", "setting": "", "needs": [], "server": "", "space": {}, "memory_bytes": 0}');
CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    cell INTEGER NOT NULL REFERENCES cells (id) ON DELETE CASCADE,
    block INTEGER NOT NULL,            -- which repetition of the whole plan
    started_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed')),
    reason TEXT NOT NULL,              -- why it failed, or ''
    wall_s REAL NOT NULL,
    facts TEXT NOT NULL,               -- JSON: GIL state, affinity, core utilisation, context switches, memory
    stderr TEXT NOT NULL,
    UNIQUE (cell, block)               -- no launch counts twice, whoever resumes
);
INSERT INTO "launches" VALUES(1,1,0,'2026-11-24T11:29:43+00:00','ok','',0.151530319,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.120775762, "utilisation": {"0": 0.07692307692307693, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.000463621, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.001231365, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.061596112, "busy_s": 0.01}, {"phase": "timed", "until_s": 0.122006667, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 2, "max_rss_bytes": 19124224, "details": {}}','');
INSERT INTO "launches" VALUES(2,3,0,'2026-11-24T11:29:43+00:00','ok','',0.17475456,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.121060116, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.03036767, "busy_s": 0.02}, {"phase": "set-up", "until_s": 0.031848067, "busy_s": 0.01}, {"phase": "timed", "until_s": 0.092379492, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.152907672, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 1, "max_rss_bytes": 21315584, "details": {}}','');
INSERT INTO "launches" VALUES(3,5,0,'2026-11-24T11:29:44+00:00','ok','',0.088754097,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.040488297, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.025357421, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.026790818, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.047073363, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.067279024, "busy_s": 0.0}], "voluntary_switches": 2, "involuntary_switches": 0, "max_rss_bytes": 21311488, "details": {}}','');
INSERT INTO "launches" VALUES(4,7,0,'2026-11-24T11:29:44+00:00','ok','',0.069603319,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.040581856, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.004888998, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.005809811, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.026097604, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.046391266, "busy_s": 0.0}], "voluntary_switches": 20, "involuntary_switches": 5, "max_rss_bytes": 19083264, "details": {}}','');
INSERT INTO "launches" VALUES(5,8,0,'2026-11-24T11:29:44+00:00','ok','',0.075115601,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.040726026, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.007221776, "busy_s": 0.01}, {"phase": "set-up", "until_s": 0.008077912, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.028377017, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.048803297, "busy_s": 0.0}], "voluntary_switches": 14, "involuntary_switches": 161, "max_rss_bytes": 19083264, "details": {}}','');
INSERT INTO "launches" VALUES(6,2,0,'2026-11-24T11:29:44+00:00','ok','',0.1591449,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.120879467, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.001706514, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.002823769, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.063212281, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.123701504, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 0, "max_rss_bytes": 19226624, "details": {}}','');
INSERT INTO "launches" VALUES(7,6,0,'2026-11-24T11:29:44+00:00','ok','',0.126062593,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.040852399, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.046613757, "busy_s": 0.05}, {"phase": "set-up", "until_s": 0.048748579, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.069161369, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.089600458, "busy_s": 0.0}], "voluntary_switches": 2, "involuntary_switches": 0, "max_rss_bytes": 24891392, "details": {}}','');
INSERT INTO "launches" VALUES(8,4,0,'2026-11-24T11:29:44+00:00','ok','',0.19116322,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.12112329, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.039701053, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.041256912, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.101720546, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.162379642, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 1, "max_rss_bytes": 24846336, "details": {}}','');
INSERT INTO "launches" VALUES(9,3,1,'2026-11-24T11:29:44+00:00','ok','',0.170009586,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.120933197, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.025684759, "busy_s": 0.03}, {"phase": "set-up", "until_s": 0.027126027, "busy_s": 0.01}, {"phase": "timed", "until_s": 0.08756188, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.148059054, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 2, "max_rss_bytes": 21454848, "details": {}}','');
INSERT INTO "launches" VALUES(10,5,1,'2026-11-24T11:29:44+00:00','ok','',0.087430243,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.040458062, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.02455194, "busy_s": 0.03}, {"phase": "set-up", "until_s": 0.02590762, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.046171278, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.066365512, "busy_s": 0.0}], "voluntary_switches": 2, "involuntary_switches": 0, "max_rss_bytes": 21319680, "details": {}}','');
INSERT INTO "launches" VALUES(11,1,1,'2026-11-24T11:29:45+00:00','ok','',0.140885892,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.120812046, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.000459284, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.001178446, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.061603453, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.121989792, "busy_s": 0.0}], "voluntary_switches": 7, "involuntary_switches": 2, "max_rss_bytes": 19083264, "details": {}}','');
INSERT INTO "launches" VALUES(12,7,1,'2026-11-24T11:29:45+00:00','ok','',0.065418344,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.040624451, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.004726385, "busy_s": 0.01}, {"phase": "set-up", "until_s": 0.005689781, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.025977945, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.04631372, "busy_s": 0.0}], "voluntary_switches": 21, "involuntary_switches": 5, "max_rss_bytes": 19083264, "details": {}}','');
INSERT INTO "launches" VALUES(13,8,1,'2026-11-24T11:29:45+00:00','ok','',0.074648851,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.040610309, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.006941297, "busy_s": 0.01}, {"phase": "set-up", "until_s": 0.007662653, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.027933721, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.048272651, "busy_s": 0.0}], "voluntary_switches": 14, "involuntary_switches": 84, "max_rss_bytes": 19226624, "details": {}}','');
INSERT INTO "launches" VALUES(14,6,1,'2026-11-24T11:29:45+00:00','ok','',0.104350747,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.040500074, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.035644937, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.037172754, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.057445775, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.077672798, "busy_s": 0.0}], "voluntary_switches": 2, "involuntary_switches": 0, "max_rss_bytes": 24981504, "details": {}}','');
INSERT INTO "launches" VALUES(15,4,1,'2026-11-24T11:29:45+00:00','ok','',0.183829367,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.120996381, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.035129007, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.036632418, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.097108781, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.157628629, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 1, "max_rss_bytes": 24993792, "details": {}}','');
INSERT INTO "launches" VALUES(16,2,1,'2026-11-24T11:29:45+00:00','ok','',0.14649368,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.12077424, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.001265216, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.002049606, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.062445319, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.122823385, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 2, "max_rss_bytes": 19226624, "details": {}}','');
INSERT INTO "launches" VALUES(17,4,2,'2026-11-24T11:29:45+00:00','ok','',0.186893615,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.121344651, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.034723022, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.03624415, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.096888313, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.15758833, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 0, "max_rss_bytes": 24858624, "details": {}}','');
INSERT INTO "launches" VALUES(18,8,2,'2026-11-24T11:29:45+00:00','ok','',0.073331618,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.040593824, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.006942569, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.007685787, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.027948353, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.048279341, "busy_s": 0.0}], "voluntary_switches": 14, "involuntary_switches": 84, "max_rss_bytes": 19083264, "details": {}}','');
INSERT INTO "launches" VALUES(19,2,2,'2026-11-24T11:29:46+00:00','ok','',0.145779885,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.120835291, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.001125328, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.001906753, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.06228532, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.122741292, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 2, "max_rss_bytes": 19083264, "details": {}}','');
INSERT INTO "launches" VALUES(20,6,2,'2026-11-24T11:29:46+00:00','ok','',0.102777091,'{"gil_enabled": false, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.5", "timed_s": 0.04048425, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.034657344, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.036185231, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.056451703, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.076669412, "busy_s": 0.0}], "voluntary_switches": 2, "involuntary_switches": 0, "max_rss_bytes": 24985600, "details": {}}','');
INSERT INTO "launches" VALUES(21,5,2,'2026-11-24T11:29:46+00:00','ok','',0.089246852,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.040463329, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.025392162, "busy_s": 0.01}, {"phase": "set-up", "until_s": 0.026845078, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.047104058, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.067308407, "busy_s": 0.0}], "voluntary_switches": 2, "involuntary_switches": 0, "max_rss_bytes": 21454848, "details": {}}','');
INSERT INTO "launches" VALUES(22,7,2,'2026-11-24T11:29:46+00:00','ok','',0.066033787,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.040568706, "utilisation": {"0": 0.2, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.004784071, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.005734689, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.02601475, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.046303104, "busy_s": 0.01}], "voluntary_switches": 18, "involuntary_switches": 2, "max_rss_bytes": 19226624, "details": {}}','');
INSERT INTO "launches" VALUES(23,3,2,'2026-11-24T11:29:46+00:00','ok','',0.170954105,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.121000357, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.027198606, "busy_s": 0.04}, {"phase": "set-up", "until_s": 0.028691331, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.08917838, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.149691258, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 1, "max_rss_bytes": 21323776, "details": {}}','');
INSERT INTO "launches" VALUES(24,1,2,'2026-11-24T11:29:46+00:00','ok','',0.14369622,'{"gil_enabled": true, "switch_interval_s": 0.005, "policy": "", "affinity": [0, 1], "version": "3.13.0", "timed_s": 0.120783474, "utilisation": {"0": 0.0, "1": 0.0}, "course": [{"phase": "set-up", "until_s": 0.000580536, "busy_s": 0.0}, {"phase": "set-up", "until_s": 0.00138172, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.061778384, "busy_s": 0.0}, {"phase": "timed", "until_s": 0.122163601, "busy_s": 0.0}], "voluntary_switches": 6, "involuntary_switches": 0, "max_rss_bytes": 19083264, "details": {}}','');
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,          -- UTC, ISO 8601
    ended_at TEXT,                     -- NULL while running, or where the runner was killed
    settings TEXT NOT NULL             -- JSON: size, launches, seed, machine, doctor, interpreters, skipped, version
);
INSERT INTO "runs" VALUES('20261124-112943-af33','2026-11-24T11:29:43+00:00','2026-11-24T11:29:46+00:00','{"version": "0.1.0", "size": "quick", "launches": 3, "seed": 1, "limit_s": 30.0, "memory_limit_bytes": null, "experiments": ["sleep"], "models": [], "placement": null, "machine": {"cpu": "a processor", "cores": [0, 1], "physical_cores": 2, "split": [0, 1], "memory_bytes": 25276510208, "kernel": "6.1.0", "system": "Debian GNU/Linux 12 (bookworm)"}, "doctor": [{"name": "cores", "status": "ok", "fact": "2 usable of 2 cores, 2 physical", "remedy": ""}, {"name": "runner-core", "status": "warning", "fact": "2 cores: the runner shares them with what it measures", "remedy": "it sleeps while a launch runs; for small effects use four cores or more"}, {"name": "cpu-quota", "status": "ok", "fact": "no CPU quota", "remedy": ""}, {"name": "governor", "status": "skipped", "fact": "no frequency governor is visible (usual in a virtual machine)", "remedy": ""}, {"name": "steal", "status": "ok", "fact": "0.0% of all time since boot was taken by the host", "remedy": ""}, {"name": "load", "status": "warning", "fact": "load 0.57 over the last minute", "remedy": "stop what else is running, or wait until it is done"}, {"name": "clock", "status": "ok", "fact": "two readings are 40 ns apart, clock source tsc", "remedy": ""}, {"name": "tmpfs", "status": "ok", "fact": "23.5 GiB free in /dev/shm", "remedy": ""}, {"name": "disk", "status": "ok", "fact": "73.2 GiB free at /opt/python3.13t/bin/python3.13t", "remedy": ""}, {"name": "kernel", "status": "ok", "fact": "Linux 6.18.44-fc-v657, scheduler EEVDF", "remedy": ""}, {"name": "page-cache", "status": "ok", "fact": "23.1 GiB available to it, 3 MiB waiting to be written", "remedy": ""}], "interpreters": [{"name": "3.13", "id": "3.13.0", "executable": "/opt/python3.13/bin/python3.13", "origin": "pyenv", "version": "3.13.0", "minor": "3.13", "free_threaded": false, "gil_enabled": true, "jit_available": false, "jit_enabled": false, "debug": false, "shared_libpython": true, "switch_interval_s": 0.005, "optimised": [], "compiler": "GCC 12.2.0", "ctypes": true, "cross_interpreter_queue": false, "models": ["serial", "threads", "processes-spawn", "processes-forkserver", "asyncio", "asyncio-threads", "asyncio-processes", "interpreters"], "missing_models": {}, "missing_modules": {}}, {"name": "3.13t", "id": "3.13.5t", "executable": "/opt/python3.13t/bin/python3.13t", "origin": "private", "version": "3.13.5", "minor": "3.13", "free_threaded": true, "gil_enabled": false, "jit_available": false, "jit_enabled": false, "debug": false, "shared_libpython": true, "switch_interval_s": 0.005, "optimised": [], "compiler": "GCC 12.2.0", "ctypes": true, "cross_interpreter_queue": false, "models": ["serial", "threads", "processes-spawn", "processes-forkserver", "asyncio", "asyncio-threads", "asyncio-processes", "interpreters"], "missing_models": {}, "missing_modules": {}}], "skipped": [], "redis": {}, "volumes": {"disk": {"folder": "/opt/python3.13t/bin/python3.13t", "type": "ext4"}, "tmpfs": {"folder": "/dev/shm", "type": "tmpfs"}, "second": {"folder": "/dev/shm", "type": "tmpfs"}}}');
CREATE TABLE samples (
    launch INTEGER NOT NULL REFERENCES launches (id) ON DELETE CASCADE,
    metric TEXT NOT NULL,              -- unit in the name: work_s, pool_start_s, lost
    position INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (launch, metric, position)
) WITHOUT ROWID;
INSERT INTO "samples" VALUES(1,'interpreter_start_s',0,0.018872504);
INSERT INTO "samples" VALUES(1,'pool_start_s',0,1.162e-06);
INSERT INTO "samples" VALUES(1,'work_s',0,0.060247742);
INSERT INTO "samples" VALUES(1,'work_s',1,0.060298217);
INSERT INTO "samples" VALUES(1,'workers',0,3.0);
INSERT INTO "samples" VALUES(2,'interpreter_start_s',0,0.011049762);
INSERT INTO "samples" VALUES(2,'pool_start_s',0,0.029880664);
INSERT INTO "samples" VALUES(2,'work_s',0,0.060452197);
INSERT INTO "samples" VALUES(2,'work_s',1,0.06042675);
INSERT INTO "samples" VALUES(2,'workers',0,1.0);
INSERT INTO "samples" VALUES(3,'interpreter_start_s',0,0.010546071);
INSERT INTO "samples" VALUES(3,'pool_start_s',0,0.024868271);
INSERT INTO "samples" VALUES(3,'work_s',0,0.02021854);
INSERT INTO "samples" VALUES(3,'work_s',1,0.020162727);
INSERT INTO "samples" VALUES(3,'workers',0,3.0);
INSERT INTO "samples" VALUES(4,'interpreter_start_s',0,0.010595354);
INSERT INTO "samples" VALUES(4,'pool_start_s',0,0.004407701);
INSERT INTO "samples" VALUES(4,'work_s',0,0.020234033);
INSERT INTO "samples" VALUES(4,'work_s',1,0.020211479);
INSERT INTO "samples" VALUES(4,'workers',0,3.0);
INSERT INTO "samples" VALUES(5,'interpreter_start_s',0,0.012982003);
INSERT INTO "samples" VALUES(5,'pool_start_s',0,0.006060775);
INSERT INTO "samples" VALUES(5,'work_s',0,0.020205285);
INSERT INTO "samples" VALUES(5,'work_s',1,0.020343647);
INSERT INTO "samples" VALUES(5,'workers',0,3.0);
INSERT INTO "samples" VALUES(6,'interpreter_start_s',0,0.01700491);
INSERT INTO "samples" VALUES(6,'pool_start_s',0,2.484e-06);
INSERT INTO "samples" VALUES(6,'work_s',0,0.060282174);
INSERT INTO "samples" VALUES(6,'work_s',1,0.060338969);
INSERT INTO "samples" VALUES(6,'workers',0,3.0);
INSERT INTO "samples" VALUES(7,'interpreter_start_s',0,0.018124058);
INSERT INTO "samples" VALUES(7,'pool_start_s',0,0.04492513);
INSERT INTO "samples" VALUES(7,'work_s',0,0.020295024);
INSERT INTO "samples" VALUES(7,'work_s',1,0.020324498);
INSERT INTO "samples" VALUES(7,'workers',0,3.0);
INSERT INTO "samples" VALUES(8,'interpreter_start_s',0,0.013701225);
INSERT INTO "samples" VALUES(8,'pool_start_s',0,0.038215749);
INSERT INTO "samples" VALUES(8,'work_s',0,0.060386329);
INSERT INTO "samples" VALUES(8,'work_s',1,0.060515983);
INSERT INTO "samples" VALUES(8,'workers',0,1.0);
INSERT INTO "samples" VALUES(9,'interpreter_start_s',0,0.011009963);
INSERT INTO "samples" VALUES(9,'pool_start_s',0,0.025188819);
INSERT INTO "samples" VALUES(9,'work_s',0,0.060354211);
INSERT INTO "samples" VALUES(9,'work_s',1,0.060413519);
INSERT INTO "samples" VALUES(9,'workers',0,1.0);
INSERT INTO "samples" VALUES(10,'interpreter_start_s',0,0.010384);
INSERT INTO "samples" VALUES(10,'pool_start_s',0,0.024077433);
INSERT INTO "samples" VALUES(10,'work_s',0,0.020203698);
INSERT INTO "samples" VALUES(10,'work_s',1,0.020155046);
INSERT INTO "samples" VALUES(10,'workers',0,3.0);
INSERT INTO "samples" VALUES(11,'interpreter_start_s',0,0.010261948);
INSERT INTO "samples" VALUES(11,'pool_start_s',0,1.252e-06);
INSERT INTO "samples" VALUES(11,'work_s',0,0.060289715);
INSERT INTO "samples" VALUES(11,'work_s',1,0.060298378);
INSERT INTO "samples" VALUES(11,'workers',0,3.0);
INSERT INTO "samples" VALUES(12,'interpreter_start_s',0,0.010337676);
INSERT INTO "samples" VALUES(12,'pool_start_s',0,0.004114663);
INSERT INTO "samples" VALUES(12,'work_s',0,0.020232412);
INSERT INTO "samples" VALUES(12,'work_s',1,0.020264819);
INSERT INTO "samples" VALUES(12,'workers',0,3.0);
INSERT INTO "samples" VALUES(13,'interpreter_start_s',0,0.012160708);
INSERT INTO "samples" VALUES(13,'pool_start_s',0,0.005740428);
INSERT INTO "samples" VALUES(13,'work_s',0,0.020207654);
INSERT INTO "samples" VALUES(13,'work_s',1,0.020247874);
INSERT INTO "samples" VALUES(13,'workers',0,3.0);
INSERT INTO "samples" VALUES(14,'interpreter_start_s',0,0.012610389);
INSERT INTO "samples" VALUES(14,'pool_start_s',0,0.034352189);
INSERT INTO "samples" VALUES(14,'work_s',0,0.020217879);
INSERT INTO "samples" VALUES(14,'work_s',1,0.020185691);
INSERT INTO "samples" VALUES(14,'workers',0,3.0);
INSERT INTO "samples" VALUES(15,'interpreter_start_s',0,0.012264122);
INSERT INTO "samples" VALUES(15,'pool_start_s',0,0.033895889);
INSERT INTO "samples" VALUES(15,'work_s',0,0.060378547);
INSERT INTO "samples" VALUES(15,'work_s',1,0.060470134);
INSERT INTO "samples" VALUES(15,'workers',0,1.0);
INSERT INTO "samples" VALUES(16,'interpreter_start_s',0,0.012139867);
INSERT INTO "samples" VALUES(16,'pool_start_s',0,1.231e-06);
INSERT INTO "samples" VALUES(16,'work_s',0,0.060289985);
INSERT INTO "samples" VALUES(16,'work_s',1,0.060287672);
INSERT INTO "samples" VALUES(16,'workers',0,3.0);
INSERT INTO "samples" VALUES(17,'interpreter_start_s',0,0.012333436);
INSERT INTO "samples" VALUES(17,'pool_start_s',0,0.033514571);
INSERT INTO "samples" VALUES(17,'work_s',0,0.060498977);
INSERT INTO "samples" VALUES(17,'work_s',1,0.060577434);
INSERT INTO "samples" VALUES(17,'workers',0,1.0);
INSERT INTO "samples" VALUES(18,'interpreter_start_s',0,0.012594857);
INSERT INTO "samples" VALUES(18,'pool_start_s',0,0.005787888);
INSERT INTO "samples" VALUES(18,'work_s',0,0.020204469);
INSERT INTO "samples" VALUES(18,'work_s',1,0.020242436);
INSERT INTO "samples" VALUES(18,'workers',0,3.0);
INSERT INTO "samples" VALUES(19,'interpreter_start_s',0,0.011637087);
INSERT INTO "samples" VALUES(19,'pool_start_s',0,1.362e-06);
INSERT INTO "samples" VALUES(19,'work_s',0,0.060280732);
INSERT INTO "samples" VALUES(19,'work_s',1,0.060335554);
INSERT INTO "samples" VALUES(19,'workers',0,3.0);
INSERT INTO "samples" VALUES(20,'interpreter_start_s',0,0.012350922);
INSERT INTO "samples" VALUES(20,'pool_start_s',0,0.033449484);
INSERT INTO "samples" VALUES(20,'work_s',0,0.020213803);
INSERT INTO "samples" VALUES(20,'work_s',1,0.020179993);
INSERT INTO "samples" VALUES(20,'workers',0,3.0);
INSERT INTO "samples" VALUES(21,'interpreter_start_s',0,0.011022472);
INSERT INTO "samples" VALUES(21,'pool_start_s',0,0.02490056);
INSERT INTO "samples" VALUES(21,'work_s',0,0.02020504);
INSERT INTO "samples" VALUES(21,'work_s',1,0.020160083);
INSERT INTO "samples" VALUES(21,'workers',0,3.0);
INSERT INTO "samples" VALUES(22,'interpreter_start_s',0,0.01082758);
INSERT INTO "samples" VALUES(22,'pool_start_s',0,0.004300922);
INSERT INTO "samples" VALUES(22,'work_s',0,0.020223508);
INSERT INTO "samples" VALUES(22,'work_s',1,0.020248545);
INSERT INTO "samples" VALUES(22,'workers',0,3.0);
INSERT INTO "samples" VALUES(23,'interpreter_start_s',0,0.010585911);
INSERT INTO "samples" VALUES(23,'pool_start_s',0,0.026605613);
INSERT INTO "samples" VALUES(23,'work_s',0,0.060436734);
INSERT INTO "samples" VALUES(23,'work_s',1,0.060422954);
INSERT INTO "samples" VALUES(23,'workers',0,1.0);
INSERT INTO "samples" VALUES(24,'interpreter_start_s',0,0.011446443);
INSERT INTO "samples" VALUES(24,'pool_start_s',0,1.472e-06);
INSERT INTO "samples" VALUES(24,'work_s',0,0.06028645);
INSERT INTO "samples" VALUES(24,'work_s',1,0.060303716);
INSERT INTO "samples" VALUES(24,'workers',0,3.0);
COMMIT;
