#!/bin/sh
# Check the forge's workflows with actionlint: the one on PATH, else built by Go into the cache, at one version.
set -eu
version=v1.7.12
cache="${XDG_CACHE_HOME:-$HOME/.cache}/headway/actionlint-$version"
cd "$(dirname "$0")/.."
# Files are named, because actionlint finds them by itself only in a Git repository.
set -- .github/workflows/*.yml
if command -v actionlint >/dev/null; then
    exec actionlint "$@"
fi
if [ ! -x "$cache/actionlint" ]; then
    if ! command -v go >/dev/null; then
        echo "actionlint: not on this machine, nor Go to build it; the workflows are not checked here" >&2
        exit 0
    fi
    GOBIN="$cache" go install "github.com/rhysd/actionlint/cmd/actionlint@$version" >&2 || {
        echo "actionlint: Go cannot build it here; the workflows are not checked here" >&2
        exit 0
    }
fi
exec "$cache/actionlint" "$@"
