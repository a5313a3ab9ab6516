"""Functions of cryptography for bench/advise_corpus.py."""

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

_KEY = Fernet.generate_key()
_DATA = bytes(2 << 20)


def fernet():
    return len(Fernet(_KEY).encrypt(_DATA))


def sign():
    key = ec.derive_private_key(12345, ec.SECP384R1())
    return len(key.sign(b"ticket", ec.ECDSA(hashes.SHA256()))) > 0
