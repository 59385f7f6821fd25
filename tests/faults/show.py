"""Print what clients get for a case: `python -m tests.faults.show ID`."""

from __future__ import annotations

import sys

from .cases import CASES, find_faults

if __name__ == "__main__":
    for case in CASES:
        if case.id in sys.argv[1:]:
            print(case.output)
            for delivery in case.right.deliveries:
                answer = case.answer(delivery)
                print(delivery, answer, *find_faults(case, delivery, answer), sep="\n  ")
