-- SPDX-License-Identifier: Apache-2.0
-- The rank with the highest median of each phase, and the ratio of that median to the median of the ranks' medians.
WITH medians AS (
    SELECT name, rank, median(duration_ms) AS median_ms
    FROM spans
    GROUP BY name, rank
)
SELECT
    name,
    arg_max(rank, (median_ms, -rank)) AS slowest_rank,
    max(median_ms) / median(median_ms) AS skew
FROM medians
GROUP BY name
ORDER BY skew DESC;
