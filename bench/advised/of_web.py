"""Functions of httpx, against a server on this machine, for bench/advise_corpus.py."""

import httpx

_client = None


def get(port):
    global _client
    if _client is None:
        _client = httpx.Client()
    return _client.get(f"http://127.0.0.1:{port}/sleep?period=0.02").status_code


async def get_async(port):
    async with httpx.AsyncClient() as client:
        return (await client.get(f"http://127.0.0.1:{port}/sleep?period=0.02")).status_code
