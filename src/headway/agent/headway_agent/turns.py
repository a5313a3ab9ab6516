"""The order of turns of parts that are measured in one process: the lab's cells and the fixture's alternatives."""


def in_order(parts, turn):
    """Return the parts in the order of this turn, counted from 0: in order, in the opposite order, and so on (A B B A).

    A brief slowdown of the machine slows neighbours alike, and a steady drift affects the first no more than the last.
    """
    return list(parts) if turn % 2 == 0 else list(reversed(parts))
