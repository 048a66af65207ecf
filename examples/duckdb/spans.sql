-- SPDX-License-Identifier: Apache-2.0
-- The spans of a job. Run this first; the other files ask it. Before it, say where the rank files are:
--
--     SET VARIABLE job = 'output/cuda_event_profiler/cuda_events_rank_*.jsonl*';
--
-- Lines that are no rows (a cut-off last one, NUL bytes) come out as nulls and are left out, as cep leaves them out.
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
