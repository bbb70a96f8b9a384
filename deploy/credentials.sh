#!/usr/bin/env bash
# What the port of a fleet's learner asks for. Usage: deploy/credentials.sh FOLDER NAME...
# Makes, in FOLDER (mode 0700), each file readable by its owner alone:
#   token                     the shared secret (--token_file)
#   ca.crt, ca.key            what signs the two below (--tls_ca); the key is needed here alone
#   learner/tls.{crt,key}     the learner's, valid for the NAMEs: hosts or IP addresses that actors
#                             call it by, and for this machine (--tls_cert, --tls_key)
#   actor/tls.{crt,key}       the actors'
# They are valid for ten years; to replace them, call it again and hand them out.
set -eu
export LC_ALL=C.UTF-8
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" && exit 0 ;; esac
[ $# -ge 2 ] || { echo "credentials: FOLDER and NAME are missing; --help says more" >&2; exit 2; }
command -v openssl >/dev/null || { echo "credentials: openssl is missing: install it" >&2; exit 1; }
folder=$1
shift
umask 077
mkdir -p "$folder/learner" "$folder/actor" && chmod 700 "$folder" && cd "$folder"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
# sign PAIR SUBJECT EXTENSIONS
sign() {
  key "$1/tls.key"
  openssl req -new -key "$1/tls.key" -subj "/CN=$2" |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 \
      -extfile <(printf '%s\n' "$3") -out "$1/tls.crt" 2>/dev/null
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

openssl rand -base64 32 >token
key ca.key
openssl req -x509 -new -key ca.key -days 3650 -subj "/CN=acorn $1" -out ca.crt
sign learner "acorn learner" "subjectAltName=$(names "$@")"
sign actor "acorn actor" "extendedKeyUsage=clientAuth"
rm -f ca.srl
