#!/usr/bin/env bash
# No program puts a function of its own in front of the C library's: what nm -D shows as defined in
# a program, other libraries would call instead of the one that they were linked with.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v nm >/dev/null || { echo "SKIP symbols: nm is not here"; exit 0; }

# functions FILE: the dynamic functions that it defines, without versions. What is copied into a
# program (stderr, environ) is data.
functions() {
  nm -D --defined-only "$1" | awk '$2 ~ /^[TtWwi]$/ {sub(/@.*/, "", $3); print $3}' | sort -u
}

program=$tree/build/learner
library=$(ldd "$program" | awk '$1 == "libc.so.6" {print $3}')
functions "$library" >libc
pass_if "the C library's functions are known" grep -qx recvmsg libc

interposes() { functions "$1" | comm -12 - libc; }
# The check itself: a program that does.
echo 'long syscall(long n, ...) { return n; } int main(void) { return 0; }' >interposes.c
gcc -rdynamic -o interposes interposes.c 2>/dev/null
pass_if "one that interposes syscall is found" is "$(interposes interposes)" syscall

for program in learner actor launch status task curves checkpoint interval watch; do
  pass_if "$program interposes nothing" is "$(interposes "$tree/build/$program")" ""
done
finish
