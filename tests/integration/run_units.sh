#!/usr/bin/env bash
# What scripts/run_units.sh counts: the lines of cmocka 1.1.5, and those of 1.1.7, which name the
# group as well.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# program NAME CODE LINE...: a test program that prints these and exits with that.
program() {
  local name=$1 code=$2
  shift 2
  { echo '#!/bin/sh' && printf "echo '%s'\n" "$@" && echo "exit $code"; } >"$name"
  chmod +x "$name"
}
program old 2 '[  PASSED  ] 3 test(s).' '[  SKIPPED ] 1 test(s), listed below:' \
  '[  FAILED  ] 2 test(s), listed below:'
program new 2 '[  PASSED  ] 3 test(s).' '[  SKIPPED ] tests: 1 test(s), listed below:' \
  '[  FAILED  ] tests: 2 test(s), listed below:'
program skips 0 '[  PASSED  ] 0 test(s).' '[  SKIPPED ] tests: 1 test(s), listed below:'
program dies 134 '[ RUN      ] a_test'
program empty 0

# counts LINE PROGRAM...
counts() {
  local line=$1
  shift
  "$tree/scripts/run_units.sh" "$@" >out 2>err
  is "$(tail -n 1 out)" "$line"
}
pass_if "cmocka 1.1.5" counts "3 passed, 2 failed, 1 skipped" ./old
pass_if "cmocka 1.1.7" counts "3 passed, 2 failed, 1 skipped" ./new
pass_if "a program whose tests are all skipped" counts "0 passed, 0 failed, 1 skipped" ./skips
pass_if "a program that dies or runs nothing has failed" counts "0 passed, 2 failed" ./dies ./empty
finish
