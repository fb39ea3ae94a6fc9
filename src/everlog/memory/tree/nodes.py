"""Addresses of the tree: packed keys, `id+n` labels, and the aligned blocks that tile a stretch.

Node (level, index) covers entries `index << level` up to `index + 1 << level`. Its key is one integer,
`level << 40 | index`, so a leaf's key is its entry's position. Its label is `id+n`: the first entry and how many, which
are also the arguments that open it.
"""

import re

from everlog.errors import UnknownAddress

INDEX_BITS = 40
_INDEX = (1 << INDEX_BITS) - 1
_LABEL = re.compile(r"(0|[1-9][0-9]{0,12})\+([1-9][0-9]{0,12})")


def pack(level: int, index: int) -> int:
    """Return the key of node (level, index)."""
    return level << INDEX_BITS | index


def level_of(nid: int) -> int:
    """Return the node's level; it covers `1 << level` entries."""
    return nid >> INDEX_BITS


def index_of(nid: int) -> int:
    """Return the node's place within its level."""
    return nid & _INDEX


def start_of(nid: int) -> int:
    """Return the first entry that the node covers."""
    return (nid & _INDEX) << (nid >> INDEX_BITS)


def stop_of(nid: int) -> int:
    """Return the entry after the last that the node covers."""
    return (nid & _INDEX) + 1 << (nid >> INDEX_BITS)


def parent_of(nid: int) -> int:
    """Return the node that this one is half of."""
    return (nid >> INDEX_BITS) + 1 << INDEX_BITS | (nid & _INDEX) >> 1


def children_of(nid: int) -> tuple[int, int]:
    """Return the two halves of a node above the leaves."""
    left = (nid >> INDEX_BITS) - 1 << INDEX_BITS | (nid & _INDEX) << 1
    return left, left | 1


def label_of(nid: int) -> str:
    """Return `id+n`."""
    level = nid >> INDEX_BITS
    return f"{(nid & _INDEX) << level}+{1 << level}"


def address(first: object, size: object, count: int) -> int:
    """Return the key of the node at `first+size` in a thread of `count` entries.

    Raises:
        UnknownAddress: there is none; anything but two whole numbers is refused in the same way.
    """
    if type(first) is int and type(size) is int:
        level = size.bit_length() - 1
        if 0 <= first < count and size > 0 and size == 1 << level and first % size == 0 and first + size <= count:
            return pack(level, first >> level)
    raise UnknownAddress(
        f"No line {shown_value(first)}+{shown_value(size)}. There are {count} messages; n is a power of two, id a multiple of n, "
        "and id + n at most the number of messages."
    )


def position(i: object, count: int) -> int:
    """Return the position of a message in a thread of `count` entries.

    Raises:
        UnknownAddress: there is none; anything but a whole number is refused in the same way.
    """
    if type(i) is int and 0 <= i < count:
        return i
    there = f"There are {count} messages, numbered from 0 to {count - 1}." if count else "There are none yet."
    raise UnknownAddress(f"No message {shown_value(i)}. {there}")


def shown_value(value: object) -> str:
    """Return a value for a message about it: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "(a huge number)"
    return repr(value) if len(repr(value)) <= 24 else repr(value)[:24] + "…"


def parse_label(text: str) -> int | None:
    """Return the key that a label names, or None where it is not one."""
    match = _LABEL.fullmatch(text)
    if match is None:
        return None
    first, size = int(match[1]), int(match[2])
    level = size.bit_length() - 1
    aligned = size == 1 << level and first % size == 0 and first >> level <= _INDEX
    return pack(level, first >> level) if aligned else None


def cover(start: int, stop: int) -> list[int]:
    """Return the fewest nodes that tile entries `start` up to `stop`, in order."""
    nodes = []
    while start < stop:
        level = (stop - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        nodes.append(pack(level, start >> level))
        start += 1 << level
    return nodes


def ending_within(start: int, stop: int) -> list[int]:
    """Return every node whose last entry is one of `start` up to `stop`, each after its halves."""
    found = []
    for i in range(start, stop):
        nid = i
        found.append(nid)
        while nid & 1:
            nid = parent_of(nid)
            found.append(nid)
    return found


def nodes_in(count: int) -> int:
    """Return how many nodes a full tree over `count` entries has."""
    return 2 * count - count.bit_count()
