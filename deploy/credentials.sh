#!/usr/bin/env bash
# The files by which a learner and its clients know each other.
# Usage: deploy/credentials.sh [--rotate] FOLDER NAME...
# Makes, in FOLDER (mode 0700), each file readable by its owner alone:
#   token                     the shared secret (--token_file)
#   ca.crt, ca.key            what signs the two below (--tls_ca); the key is needed here alone
#   learner/tls.{crt,key}     the learner's, valid for the NAMEs: hosts or IP addresses that actors
#                             call it by, and for this machine (--tls_cert, --tls_key)
#   actor/tls.{crt,key}       the actors'
# Certificates are valid for ten years.
#   --rotate   replaces all of them in a FOLDER that has them. Those of before stay valid until the
#              next rotation, so that files can be handed out in any order, to programs that run:
#              token and ca.crt hold the new one, then the one before; the learner's certificate is
#              signed by the CA of before, which clients with either ca.crt trust.
#              After a rotation that was interrupted, only the rest of that one is done.
set -eu
export LC_ALL=C.UTF-8
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" && exit 0 ;; esac
if [ "${1:-}" = --version ]; then
  exec "$(dirname "$(readlink -f "$0")")/../scripts/version.sh" --name=credentials.sh
fi
rotates=
[ "${1:-}" != --rotate ] || { rotates=1 && shift; }
[ $# -ge 2 ] || { echo "credentials: FOLDER and NAME are missing; --help prints more" >&2; exit 2; }
command -v openssl >/dev/null || { echo "credentials: openssl is missing: install it" >&2; exit 1; }
folder=$1
shift
umask 077
if [ -n "$rotates" ] && ! [ -f "$folder/ca.key" ]; then
  echo "credentials: $folder has no ca.key: there is nothing to rotate" >&2
  exit 1
fi
if [ -z "$rotates" ] && [ -f "$folder/ca.key" ] && ! [ -f "$folder/made" ]; then
  echo "credentials: $folder has credentials, which others may be using: --rotate replaces them" >&2
  exit 1
fi
mkdir -p "$folder/learner" "$folder/actor" && chmod 700 "$folder" && cd "$folder"

fail() {
  echo "credentials: $*" >&2
  exit 1
}

# Each is made beside the one that it replaces, as FILE.new. Once all of them are there, so is the
# file `made`.
files=(ca.key ca.crt token {learner,actor}/tls.{crt,key})
replace() {
  local file
  for file in "${files[@]}"; do [ ! -f "$file.new" ] || mv "$file.new" "$file"; done
  rm made
}

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

# Two authorities may not have the same subject.
authority() {
  key ca.key.new
  openssl req -x509 -new -key ca.key.new -days 3650 -subj "/CN=acorn $(openssl rand -hex 8)" \
    -out ca.crt.new
}

# sign CA PAIR SUBJECT EXTENSIONS: by ca.crt and ca.key, or with CA=.new by the new ones.
sign() {
  key "$2/tls.key.new"
  openssl req -new -key "$2/tls.key.new" -subj "/CN=$3" |
    openssl x509 -req -CA "ca.crt$1" -CAkey "ca.key$1" -set_serial "0x$(openssl rand -hex 8)" \
      -days 3650 -extfile <(printf '%s\n' "$4") -out "$2/tls.crt.new" 2>signed ||
    fail "$folder: openssl cannot sign: $(tail -n 1 signed)"
  rm signed
}

# names NAME...: as subjectAltName wants them.
names() {
  local name list=DNS:localhost,IP:127.0.0.1,IP:::1
  for name in "$@"; do
    name=${name#[} && name=${name%]}
    if [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then list+=,IP:$name; else list+=,DNS:$name; fi
  done
  echo "$list"
}

if [ -n "$rotates" ] && [ -f made ]; then
  replace
  echo "credentials: $folder: a rotation was interrupted; its files are all in place now" >&2
  exit
fi
rm -f made signed "${files[@]/%/.new}"
authority
learners_ca=.new
[ -z "$rotates" ] || learners_ca=
sign "$learners_ca" learner "acorn learner" "subjectAltName=$(names "$@")"
sign .new actor "acorn actor" "extendedKeyUsage=clientAuth"
openssl rand -base64 32 >token.new
if [ -n "$rotates" ]; then
  head -n 1 token >>token.new
  openssl x509 -in ca.crt >>ca.crt.new # the first one that is in it
fi
: >made
replace
