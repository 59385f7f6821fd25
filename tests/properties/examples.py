"""The number of examples that the properties are tried with.

pytest tests/properties                    # a few for each family, the same each time
EXAMPLES=100000 pytest tests/properties    # so many for each property, over all families, new ones each time
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

from .outputs import FAMILIES

__all__ = ["EXAMPLES", "tried"]

EXAMPLES: Final = int(os.environ.get("EXAMPLES", "0"))


def tried(examples: int) -> settings:
    """Return the settings of a property that is tried with some examples for each family."""
    return settings(
        deadline=None,
        max_examples=EXAMPLES // len(FAMILIES) or examples,
        derandomize=not EXAMPLES,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        print_blob=False,
    )
