#!/usr/bin/env bash
# Runs clang-tidy with the settings in .clang-tidy. Not a part of ./test: it takes minutes and needs one more package
# (apt-get install clang-tidy).
#
# Usage: tools/tidy.sh [FILE.cpp...]     without files: all of src/
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/tidy  # configured and never built: clang-tidy cannot read the precompiled headers of another compiler

command -v clang-tidy >/dev/null || { echo "error: clang-tidy is missing; apt-get install clang-tidy" >&2; exit 1; }
cmake -S "$root" --preset release -B "$build" -DPERIGEE_TESTS=OFF -DPERIGEE_BENCH=OFF >/dev/null

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t files < <(find "$root/src" -name '*.cpp' | sort)
fi
options=(-p "$build" --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*')
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy "${options[@]}" 2>/dev/null
