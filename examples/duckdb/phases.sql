-- SPDX-License-Identifier: Apache-2.0
-- The table of `cep summarize`: count and durations of each phase. Percentiles interpolate in the same way.
SELECT
    name,
    count(*) AS count,
    count(DISTINCT rank) AS ranks,
    avg(duration_ms) AS mean_ms,
    quantile_cont(duration_ms, 0.50) AS p50_ms,
    quantile_cont(duration_ms, 0.90) AS p90_ms,
    quantile_cont(duration_ms, 0.99) AS p99_ms,
    min(duration_ms) AS min_ms,
    max(duration_ms) AS max_ms,
    sum(duration_ms) AS total_ms
FROM spans
GROUP BY name
ORDER BY total_ms DESC;
