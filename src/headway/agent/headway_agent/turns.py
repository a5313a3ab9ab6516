"""Who has the next turn, where several are measured in one process: the lab's cells and the fixture's alternatives."""


def in_order(parts, turn):
    """Return the parts in the order of this turn, counted from 0: in order, in the opposite order, and so on (A B B A).

    What slows the machine for a moment slows neighbours alike, and a steady drift hits the first no more than the last.
    """
    return list(parts) if turn % 2 == 0 else list(reversed(parts))
