"""The lab's HTTP server, a separate program that answers after a given time. It imports nothing of headway.

`GET /sleep?period=S&jitter=J&key=K` answers after S seconds, or, if J > 0, after S times a factor between 1 - J and 1 +
J. The factor depends on the seed and K alone, so every client meets the same times regardless of the order of its
requests. The body is JSON: `served_s`, the time from the request's arrival in the handler to its answer.

The server binds a free port of 127.0.0.1, prints it as its first line, and ends when its standard input closes.
"""

import asyncio
import json
import random
import sys

from aiohttp import web

__all__: list[str] = []


async def _sleep(request: web.Request) -> web.Response:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    try:
        period_s = float(request.query.get("period", "0"))
        jitter = float(request.query.get("jitter", "0"))
    except ValueError:
        raise web.HTTPBadRequest(text="period and jitter are numbers") from None
    if not (0 <= period_s <= 60 and 0 <= jitter <= 1):
        raise web.HTTPBadRequest(text="expected a period of 0 to 60 s and a jitter of 0 to 1")
    if jitter:
        draw = random.Random(f"{request.app[_SEED]}:{request.query.get('key', '')}")
        period_s *= 1 + jitter * draw.uniform(-1, 1)
    if period_s:
        await asyncio.sleep(period_s)
    return web.Response(text=json.dumps({"served_s": loop.time() - begun_s}), content_type="application/json")


_SEED = web.AppKey("seed", int)


async def _serve(seed: int) -> None:
    app = web.Application()
    app[_SEED] = seed
    app.router.add_get("/sleep", _sleep)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    # The lab holds the other end of standard input, so the server ends with the lab, however the lab ends.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
