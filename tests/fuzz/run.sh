#!/bin/sh
# Runs every fuzz target for SECONDS seconds on a copy of its seed corpus:
#   cmake --preset fuzz && cmake --build --preset fuzz && tests/fuzz/run.sh build/fuzz 60
# An input that breaks a target is kept in BUILD_DIR/fuzz-findings; the last line is "N passed, M failed".
set -u
if [ $# -ne 2 ]; then
  echo "usage: run.sh BUILD_DIR SECONDS" >&2
  exit 2
fi
build=$1
seconds=$2
corpora=$(cd "$(dirname "$0")" && pwd)/corpus
findings=$build/fuzz-findings
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$findings"
passed=0
failed=0
for target in fuzz_safetensors_header fuzz_index fuzz_config fuzz_store_index fuzz_vocabulary fuzz_encoder fuzz_prompt fuzz_reply fuzz_request fuzz_schema fuzz_image; do
  cp -r "$corpora/$target" "$work/$target"
  # 10 s for one input is a hang; -malloc_limit_mb stops a single huge allocation, the guard in the target all others.
  if "$build/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
      -malloc_limit_mb=65 -print_final_stats=1 -artifact_prefix="$findings/$target-" "$work/$target" \
      >"$work/$target.log" 2>&1; then
    echo "$target: $(grep -o 'number_of_executed_units: *[0-9]*' "$work/$target.log" | grep -o '[0-9]*$') inputs, no fault"
    passed=$((passed + 1))
  else
    tail -n 40 "$work/$target.log"
    echo "$target: failed; the input is in $findings"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
