"""How many examples the properties are tried with.

pytest tests/properties                  # some, the same each time
EXAMPLES=2000 pytest tests/properties    # as many of each, new ones each time
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

__all__ = ["tried"]

_MANY: Final = int(os.environ.get("EXAMPLES", "0"))


def tried(examples: int) -> settings:
    """Settings of a property that is tried with some examples."""
    return settings(
        deadline=None,
        max_examples=_MANY or examples,
        derandomize=not _MANY,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        print_blob=False,
    )
