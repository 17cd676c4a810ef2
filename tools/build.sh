#!/usr/bin/env bash
# Runs a command that builds the module, and says every few seconds what is being compiled and how far it is: cargo shows its progress on
# a terminal alone, and nothing of the shim, which is compiled beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
begun=$SECONDS

# How far ninja is with the shim, by its log of finished commands and the file that lists them all.
shim() {
  local directory done all
  directory=$(ls -td target/shim/*/ 2>/dev/null | head -1)
  [ -n "$directory" ] && [ -f "$directory/build.ninja" ] || return 0
  all=$(grep -c '^build ' "$directory/build.ninja")
  done=$(find "$directory" -newer "$log" \( -name '*.o' -o -name '*.gch' \) | wc -l)
  [ "$done" -gt 0 ] && printf ', shim %d of %d files' "$done" "$((all - 2))"
}

# How many units of code of a crate rustc has optimized, each by itself, and compiled, with what is inlined from others.
crate() {
  local directory name
  directory=$(find target/*/incremental -maxdepth 2 -name '*-working' -newer "$log" 2>/dev/null | head -1)
  [ -n "$directory" ] || return 0
  name=$(basename "$(dirname "$directory")" | sed 's/-[^-]*$//')
  printf ', %s: %d units of code optimized, %d compiled' "$name" "$(find "$directory" -name '*.bc' | wc -l)" \
    "$(find target/*/deps -name "$name-*.rcgu.o" -newer "$log" | wc -l)"
}

PIP_QUIET=1 "$@" >> "$log" 2>&1 &
builder=$!
next=10
while kill -0 "$builder" 2> /dev/null; do
  sleep 0.2
  if [ $((SECONDS - begun)) -ge "$next" ]; then
    next=$((next + 10))
    printf 'building, %d s: %s%s%s\n' "$((SECONDS - begun))" \
      "$(grep -E '^ *(Compiling|Downloading|Finished)' "$log" | tail -1 | sed 's/^ *//; s/ (.*//')" "$(crate || true)" "$(shim || true)"
  fi
done
wait "$builder" || { status=$?; cat "$log" >&2; exit "$status"; }
grep -E '^(warning|error)' -A 12 "$log" >&2 || true
