-- SPDX-License-Identifier: Apache-2.0
-- The longest span of each phase in each step, and its rank: the other ranks may have waited for it.
SELECT
    step,
    name,
    max(duration_ms) AS max_ms,
    arg_max(rank, (duration_ms, -rank)) AS longest_rank
FROM spans
GROUP BY step, name
ORDER BY step, name;
