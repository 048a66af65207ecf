# SPDX-License-Identifier: Apache-2.0
"""Blocks of the guide that were not run are listed, with the reason, whatever became of the page's other blocks."""

import pytest

NOT_RUN = []


@pytest.fixture
def note_not_run():
    return lambda place, reason: NOT_RUN.append((place, reason))


def pytest_terminal_summary(terminalreporter):
    for place, reason in NOT_RUN:
        terminalreporter.write_line(f"SKIPPED [1] {place}: {reason}")  # as pytest writes it, so that it is counted
