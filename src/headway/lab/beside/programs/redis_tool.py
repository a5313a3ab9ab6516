"""Looks after a Redis server for the lab, as a program of its own with redis-py. Imports nothing of headway.

Reads one JSON object from standard input (a password has no place among arguments): `url`, `keys` (to remove). Prints
what the server is. On trouble it prints one line on stderr and exits with 1, or 2 where a password is the trouble.
"""

import json
import sys

import redis

__all__: list[str] = []


def _main() -> int:
    wanted = json.load(sys.stdin)
    try:
        client = redis.from_url(wanted["url"], socket_connect_timeout=5, socket_timeout=10)
        about = client.info("server")
        keys = wanted["keys"]
        # DEL, not UNLINK: also before Redis 4. By name: what is not ours is never even listed.
        removed = sum(client.delete(*keys[start : start + 500]) for start in range(0, len(keys), 500))
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (redis.RedisError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if "NOAUTH" in str(error) or "WRONGPASS" in str(error) else 1
    name = about.get("server_name", "redis")
    version = about.get(f"{name}_version", about.get("redis_version", "?"))
    sys.stdout.write(json.dumps({"server": f"{name} {version}", "removed": removed}))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
