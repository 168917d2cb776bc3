"""Rows of exactly a wanted operand that hold a wanted element: for what single sums show."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from approxnorm.methods.statistic.outlier_exact import OutlierExact
from approxnorm.vectors.random import Words
from approxnorm.vectors.reach import Reach
from approxnorm.vectors.row_changes import Shown

ROWS = 24  # rows tried for each change
ATTEMPTS = 12  # at the parts of one row


class ExactRows:
    """Builds rows by taking contributions from the operand, large ones first."""

    def __init__(self, reach: Reach, words: Words) -> None:
        self.reach, self.words = reach, words
        self.space = reach.probe.space

    def rows(self, shown: list[Shown], count: int = ROWS) -> np.ndarray:
        """Values (n, dim), n <= count, for elements picked at random of all that are given."""
        sizes = [len(s.values) for s in shown]
        built = []
        if sizes and self.reach.bounded:
            ends = np.cumsum(sizes)
            for pick in self.words.below(int(ends[-1]), count):
                part = int(np.searchsorted(ends, pick, "right"))
                row = self._row(shown[part], int(pick - (ends[part] - sizes[part])))
                if row is not None:
                    built.append(row)
        return np.stack(built) if built else np.zeros((0, self.space.dim), np.int64)

    def _row(self, shown: Shown, place: int) -> np.ndarray | None:
        value, channel = int(shown.values[place]), int(shown.channels[place])
        operand = self._operand(int(shown.low[place]), int(shown.high[place]))
        rest = int(self.reach.sums(np.array(operand))) - self._spike(value, channel)
        others = self._others(channel)
        room = len(others) if self._most_exact is None else min(len(others), self._most_exact - 1)
        parts = self._parts(rest, room, shown.shift > 0 and abs(value) < self._peak)
        if parts is None:
            return None
        row = self.space.level(0)
        row[channel] = self._raw(value, channel, shown.shift)
        chosen = others[self.words.order(len(others))[: len(parts)]]
        negative = self.words.bits(1, len(parts)) == 1
        row[chosen] = self.space.signed(np.array(parts, np.int64) << shown.shift, negative)
        return row

    def _operand(self, low: int, high: int) -> int:
        """The largest of the range, half of the time; else any."""
        if int(self.words.bits(1, 1)[0]):
            return high
        return low + (int(self.words.bits(30, 1)[0]) * (high - low) >> 30)

    def _spike(self, value: int, channel: int) -> int:
        summed = bool(self.reach.summed[channel])
        return int(self.reach.sums(self.reach.spike(np.array([value])))[0]) if summed else 0

    def _raw(self, value: int, channel: int, shift: int) -> int:
        return value << shift if self.reach.bits is not None else value >> self._factors[channel]

    @cached_property
    def _factors(self) -> np.ndarray:
        none = np.zeros(self.space.dim, np.int64)
        return np.asarray(self.reach.probe.channels.get("channel_shift", none), np.int64)

    def _others(self, channel: int) -> np.ndarray:
        """Channels whose values may be anything, and count in the operand."""
        free = self.reach.summed.copy()
        if self.reach.bits is None:
            free &= self._factors == 0
        free[channel] = False
        return np.flatnonzero(free)

    @cached_property
    def _most_exact(self) -> int | None:
        """How many elements the statistic counts exactly; None: all that there are."""
        statistic = self.reach.probe.model.spec.statistic
        exact = isinstance(statistic, OutlierExact) and statistic.outliers == "top"
        return statistic.top if exact and isinstance(statistic, OutlierExact) else None

    @property
    def _peak(self) -> int:
        return 0 if self.reach.bits is None else 1 << (self.reach.bits - 2)

    @cached_property
    def _contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct contributions, ascending, and a magnitude of each."""
        most = self.space.largest
        if self.reach.bits is not None:
            most = min(most, (1 << (self.reach.bits - 1)) - 1)
        sign = 1 if self.space.hi >= self.space.largest - 1 else -1
        magnitudes = np.arange(1, most + 1)
        bound = self.reach.sums(self.reach.spike(sign * magnitudes))
        distinct, first = np.unique(bound, return_index=True)
        return distinct[distinct > 0], magnitudes[first][distinct > 0]

    def _parts(self, rest: int, room: int, peak: bool) -> list[int] | None:
        """Magnitudes whose contributions add up to ``rest``, at most ``room``; None: not found.

        peak: one of them must be large enough to fix the row's shift.
        """
        for attempt in range(ATTEMPTS):
            start = self._start(rest, room, peak, more=attempt > 1)
            if start is None:
                return None
            left = rest - sum(int(self._contributions[0][p]) for p in start)
            end = self._descend(left, room - len(start)) if not attempt else self._two(left)
            if end is not None and len(start) + len(end) <= room:
                return [int(self._contributions[1][p]) for p in start + end]
        return None

    def _start(self, rest: int, room: int, peak: bool, *, more: bool) -> list[int] | None:
        """Places of contributions that leave at most two of the largest; one more if asked for."""
        contributions, magnitudes = self._contributions
        places: list[int] = []
        if peak:
            low = int(np.searchsorted(magnitudes, self._peak))
            top = int(np.searchsorted(contributions, rest, "right"))
            if top <= low or not room:
                return None
            places.append(low + int(self.words.below(top - low, 1)[0]))
            rest -= int(contributions[places[0]])
        while rest > 2 * int(contributions[-1]):
            if len(places) + 2 > room:
                return None
            # Where the row is nearly full, only the largest are large enough.
            count = len(contributions)
            spare = rest < int(contributions[-1]) * ((room - len(places)) // 2)
            places.append(
                count - 1 - int(self.words.below(count // (2 if spare else 32) + 1, 1)[0])
            )
            rest -= int(contributions[places[-1]])
        if more and len(places) + 2 < room:
            half = int(np.searchsorted(contributions, rest // 2, "right"))
            places += [int(self.words.below(half, 1)[0])] if half else []
        return places

    def _descend(self, rest: int, room: int) -> list[int] | None:
        """The largest contribution that fits, again and again: enough where 1 is one of them."""
        places: list[int] = []
        while rest > 0 and len(places) < room:
            place = int(np.searchsorted(self._contributions[0], rest, "right")) - 1
            if place < 0:
                return None
            places.append(place)
            rest -= int(self._contributions[0][place])
        return places if rest == 0 else None

    def _two(self, rest: int) -> list[int] | None:
        """Two contributions that add up to ``rest``, one, or none at all."""
        contributions = self._contributions[0]
        if rest == 0:
            return []
        lacking = rest - contributions
        place = np.minimum(np.searchsorted(contributions, lacking), len(contributions) - 1)
        pairs = np.flatnonzero((contributions[place] == lacking) | (lacking == 0))
        if not len(pairs):
            return None
        one = int(pairs[self.words.below(len(pairs), 1)[0]])
        return [one] if lacking[one] == 0 else [one, int(place[one])]
