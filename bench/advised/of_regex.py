"""Functions of regex for bench/advise_corpus.py."""

import regex

_TEXT = "".join(f"traveller {place} left for platform {place % 24}\n" for place in range(3000))


def findall():
    return len(regex.findall(r"\p{L}+\s(\d+)", _TEXT))


def fuzzy():
    return len(regex.findall(r"(?:platfrom){e<=2}", _TEXT[:9000]))
