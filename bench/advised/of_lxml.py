"""Functions of lxml for bench/advise_corpus.py."""

from lxml import etree

_XML = b"<r>" + b"".join(b"<t id='%d'><n>traveller %d</n></t>" % (place, place) for place in range(8000)) + b"</r>"
_TREE = etree.fromstring(_XML)


def parse():
    return len(etree.fromstring(_XML))


def xpath():
    return len(etree.fromstring(_XML).xpath("//t[@id mod 7 = 3]/n/text()"))
