#!/bin/sh
# Print a CPython 3.11+ with a GIL to run Headway itself: the one asked for, else the first of those below that is on PATH.
# A line on stderr says so if the one asked for does not fit.
# usage: find_python.sh [PYTHON]
set -u
fits() {
    "$1" -c 'import sys, sysconfig; sys.exit(sys.version_info < (3, 11) or sys.implementation.name != "cpython" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))' 2>/dev/null
}
for name in "${1:-python3}" python3.13 python3.14 python3.12 python3.11 python3.15; do
    path=$(command -v "$name") || continue
    if fits "$path"; then
        if [ "${1:-python3}" != python3 ] && [ "$name" != "$1" ]; then
            echo "setup: $1 is no CPython 3.11 or later with a GIL; taking $path" >&2
        fi
        "$path" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
echo "error: no CPython 3.11 or later is on PATH (python3 is $(python3 --version 2>&1))" >&2
echo "" >&2
echo "hint: install one, then: make PYTHON=/path/to/python3" >&2
exit 1
