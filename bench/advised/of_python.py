"""Functions in pure Python, like those of Rosetta Code, for bench/advise_corpus.py."""

_WORD, _OTHER = "kitten sitting on the platform" * 4, "sitting kitten at a platform" * 4


def queens(size=7):
    def place(row, columns, down, up):
        if row == size:
            return 1
        return sum(
            place(row + 1, columns | {at}, down | {row + at}, up | {row - at})
            for at in range(size)
            if at not in columns and row + at not in down and row - at not in up
        )

    return place(0, frozenset(), frozenset(), frozenset())


def mandelbrot(width=60):
    inside = 0
    for row in range(width):
        for column in range(width):
            c, z = complex(column / width * 3 - 2, row / width * 2 - 1), 0j
            for _ in range(50):
                z = z * z + c
                if abs(z) > 2:
                    break
            else:
                inside += 1
    return inside


def levenshtein():
    above = list(range(len(_OTHER) + 1))
    for i, one in enumerate(_WORD, 1):
        row = [i]
        for j, other in enumerate(_OTHER, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (one != other)))
        above = row
    return above[-1]


def sieve(limit=60_000):
    prime = bytearray([1]) * (limit + 1)
    for number in range(2, int(limit**0.5) + 1):
        if prime[number]:
            prime[number * number :: number] = bytes(len(range(number * number, limit + 1, number)))
    return sum(prime) - 2


def gcd_short(a=1071, b=462):
    while b:
        a, b = b, a % b
    return a
