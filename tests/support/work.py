"""Work, counted instead of timed: how many bytecode instructions a call executes.

The count is exact, so it does not depend on the machine. What one instruction does in C, such as `x in list`,
is not in it.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from threading import get_ident
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType
    from typing import Any

__all__ = ["count_work", "growth"]

_TOOL: Final = 4
"""An id of `sys.monitoring` that neither debuggers, profilers nor coverage use."""


def count_work(call: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that a call executes, with all that it calls."""
    return _count_events(call) if sys.version_info >= (3, 12) else _count_traces(call)


def growth(sizes: Sequence[int], call: Callable[[int], Callable[[], object]]) -> list[float]:
    """Return how the work grows from one size to the next, as ratios.

    Args:
        sizes: The sizes.
        call: Prepares the call for a size. Each runs once before it is counted, so that caches are filled.
    """
    counts = []
    for size in sizes:
        prepared = call(size)
        prepared()
        counts.append(count_work(prepared))
    return [after / before for before, after in pairwise(counts)]


def _count_traces(call: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _count_events(call: Callable[[], object]) -> int:
    count, thread = 0, get_ident()

    def executed(_: CodeType, __: int) -> None:
        nonlocal count
        # Events come from all threads.
        count += get_ident() == thread

    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    monitoring.use_tool_id(_TOOL, "work")
    monitoring.register_callback(_TOOL, monitoring.events.INSTRUCTION, executed)
    monitoring.set_events(_TOOL, monitoring.events.INSTRUCTION)
    try:
        call()
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)
    return count
