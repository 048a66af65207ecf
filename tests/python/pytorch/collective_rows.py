# SPDX-License-Identifier: Apache-2.0
"""The rows of collectives in a rank's file."""


def comm_rows(files, rank):
    return sorted((row for row in files.spans(rank=rank) if row["kind"] == "comm"), key=lambda row: row["start_ns"])


def identities(files, rank):
    return {(row["group"], row["coll"]): row["name"] for row in comm_rows(files, rank) if "coll" in row}
