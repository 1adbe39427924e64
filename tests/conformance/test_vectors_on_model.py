# SPDX-License-Identifier: MIT
"""The reference model recomputes every expectation of every vector."""

import pytest
import vectors
import world as worlds


@pytest.mark.once
@pytest.mark.parametrize("case", vectors.all_cases(), ids=lambda case: case.where)
def test_case(case):
    world = worlds.World()
    for step in case.steps:
        step.check(step.run(world))


@pytest.mark.once
def test_every_file_has_cases():
    assert len(vectors.all_cases()) > 20
