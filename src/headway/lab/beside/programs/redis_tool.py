"""A separate program, with redis-py, that removes keys from a Redis server for the lab. It imports nothing of headway.

The program reads one JSON object from standard input, because a password must not stand among arguments: `url`, and
`keys` (to remove). It prints the server's name and version. On an error it prints one line on stderr and exits with 1,
or with 2 if the cause is a password.
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
        # DEL instead of UNLINK: it also works before Redis 4. Keys are removed by name; other keys are not even listed.
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
