#!/bin/sh
# Run a command and say on stderr what it is and how long it took.
# usage: step.sh NAME COMMAND [ARGUMENT...]
name=$1
shift
begun=$(date +%s)
echo "== $name" >&2
"$@"
code=$?
echo "== $name: exit code $code after $(($(date +%s) - begun)) s" >&2
exit $code
