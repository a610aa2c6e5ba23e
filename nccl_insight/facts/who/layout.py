"""Which ranks of a job make up its process groups, from the numbers that members have in them.

Frameworks lay groups out as a grid: with 4 stages of 2 x 8 ranks, rank 42 is number 2 of its tensor group (42 % 8),
number 1 of its data-parallel group (42 // 8 % 2) and number 2 of its pipeline (42 // 16). A few pairs of a rank of the
job and its number in a group therefore tell the stride and size of all groups of that kind.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from nccl_insight.base.data import dataclass, replace

_MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class Grid:
    """How groups of one kind lie: a number counts ``size`` steps of ``stride``, then ``outer_size`` of ``outer``.

    ``only``: no larger grid fits the numbers, too; ``even``: none of one stride does.
    """

    stride: int
    size: int
    outer: int = 1
    outer_size: int = 1
    only: bool = True
    even: bool = True

    def number(self, rank: int) -> int:
        """The number of a rank in its group."""
        return rank // self.stride % self.size + self.size * (rank // self.outer % self.outer_size)

    def first(self, rank: int) -> int:
        """The lowest rank of the group that a rank is in."""
        return rank - rank // self.stride % self.size * self.stride - rank // self.outer % self.outer_size * self.outer

    def members(self, rank: int) -> frozenset[int]:
        """The ranks of the group that a rank is in."""
        first = self.first(rank)
        return frozenset(
            first + i * self.stride + o * self.outer for i in range(self.size) for o in range(self.outer_size)
        )


def grid(
    pairs: Iterable[tuple[int, int]], world: int, size: int = 0, named: Collection[tuple[int, str]] = ()
) -> Grid | None:
    """The grid in which ranks of a job of ``world`` have these numbers, that of the fewest groups and of those the
    smallest; None where none or several fit.

    ``pairs`` are ranks of the job with their number in a group of the kind, ``size`` its members where that is known,
    ``named`` ranks with the name of the very group that they are in, where lines tell it.
    """
    told = sorted(set(pairs))
    if not told or not 1 < world <= _MOST_RANKS or told[-1][0] >= world:
        return None
    least = max(2, *(number + 1 for _, number in told))
    sizes = [n for n in ([size] if size else range(least, world + 1)) if n >= least and world % n == 0]
    fits = [g for g in _grids(world, sizes) if _fits(g, told, named)]
    return _best(fits, told) if fits else None


def _best(fits: Sequence[Grid], told: Sequence[tuple[int, int]]) -> Grid | None:
    """Of the grids that fit, the one that is to be believed; None where several are."""
    # Numbers that tell no groups apart are mostly those of one.
    parts = [(len({g.first(rank) for rank, _ in told}), g.size * g.outer_size) for g in fits]
    best = [g for g, part in zip(fits, parts, strict=True) if part == min(parts)]
    plain = [b for b in best if b.outer_size == 1] or best
    if len(plain) > 1 and len({tuple(b.members(r) for r, _ in told) for b in plain}) != 1:
        return None
    even = len({g.size for g in fits if g.outer_size == 1}) < 2
    return replace(plain[0], only=len({part[1] for part in parts}) == 1, even=even)


def _fits(how: Grid, told: Iterable[tuple[int, int]], named: Collection[tuple[int, str]]) -> bool:
    """Whether ranks have these numbers, and are in one group just where they give it one name."""
    pairs = {(how.first(rank), name) for rank, name in named}
    one = len(pairs) == len({first for first, _ in pairs}) == len({name for _, name in named})
    return one and all(how.number(rank) == number for rank, number in told)


def _grids(world: int, sizes: Iterable[int]) -> Iterator[Grid]:
    """All grids with so many members, in the order of sizes; those of one stride before those of two."""
    for size in sizes:
        strides = [s for s in range(1, world // size + 1) if world // size % s == 0]
        yield from (Grid(stride, size) for stride in strides)
        for inner in (n for n in range(2, size) if size % n == 0):
            outer_size = size // inner
            span = world // outer_size
            yield from (
                Grid(1, inner, outer, outer_size)
                for outer in range(2 * inner, span + 1)
                if span % outer == 0 and outer % inner == 0
            )
