-- SPDX-License-Identifier: Apache-2.0
-- The rank with the highest mean of each phase, and the ratio of that mean to the median of the ranks' means.
WITH means AS (
    SELECT name, rank, avg(duration_ms) AS mean_ms
    FROM spans
    GROUP BY name, rank
)
SELECT
    name,
    arg_max(rank, (mean_ms, -rank)) AS slowest_rank,
    max(mean_ms) / median(mean_ms) AS skew
FROM means
GROUP BY name
ORDER BY skew DESC;
