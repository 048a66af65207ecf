-- SPDX-License-Identifier: Apache-2.0
-- The spans of a job. Run this file first; the other files use it. Before that, set the path of the rank files:
--
--     SET VARIABLE job = 'output/cuda_event_profiler/cuda_events_rank_*.jsonl*';
--
-- Damaged lines (an incomplete last line, NUL bytes) are read as nulls and left out, as in cep.
CREATE OR REPLACE VIEW spans AS
SELECT name, step, rank, duration_ms, start_ns, kind, clock
FROM read_ndjson(
    getvariable('job'),
    ignore_errors = true,
    columns = {
        type: 'VARCHAR', name: 'VARCHAR', step: 'BIGINT', rank: 'BIGINT', duration_ms: 'DOUBLE',
        start_ns: 'BIGINT', kind: 'VARCHAR', clock: 'VARCHAR'
    })
WHERE type IS NULL AND name IS NOT NULL AND step IS NOT NULL AND rank IS NOT NULL AND duration_ms IS NOT NULL;
