"""Functions of orjson and PyYAML for bench/advise_corpus.py."""

import orjson
import yaml

_RECORDS = [{"id": place, "name": f"traveller {place}", "tags": ["a", "b"]} for place in range(300)]
_JSON = orjson.dumps(_RECORDS * 40)
_YAML = yaml.safe_dump(_RECORDS[:60])


def orjson_loads():
    return len(orjson.loads(_JSON))


def yaml_in_python():
    return len(yaml.load(_YAML, yaml.SafeLoader))


def yaml_in_c():
    return len(yaml.load(_YAML, yaml.CSafeLoader))
