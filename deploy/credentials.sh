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
set -eu
export LC_ALL=C.UTF-8
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" && exit 0 ;; esac
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
mkdir -p "$folder/learner" "$folder/actor" && chmod 700 "$folder" && cd "$folder"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

# authority NAME: new.crt and new.key. Two of them may not have the same subject.
authority() {
  key new.key
  openssl req -x509 -new -key new.key -days 3650 -subj "/CN=acorn $1 $(openssl rand -hex 4)" \
    -out new.crt
}

# sign CA PAIR SUBJECT EXTENSIONS: by CA.crt and CA.key; into new files beside those of the pair.
sign() {
  key "$2/tls.key.new"
  openssl req -new -key "$2/tls.key.new" -subj "/CN=$3" |
    openssl x509 -req -CA "$1.crt" -CAkey "$1.key" -set_serial "0x$(openssl rand -hex 8)" \
      -days 3650 -extfile <(printf '%s\n' "$4") -out "$2/tls.crt.new" 2>/dev/null
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

authority "$1"
learners_ca=new
[ -z "$rotates" ] || learners_ca=ca
sign $learners_ca learner "acorn learner" "subjectAltName=$(names "$@")"
sign new actor "acorn actor" "extendedKeyUsage=clientAuth"
openssl rand -base64 32 >token.new
if [ -n "$rotates" ]; then
  head -n 1 token >>token.new
  openssl x509 -in ca.crt >>new.crt # the first one that is in it
fi
mv new.key ca.key
mv new.crt ca.crt
for file in token {learner,actor}/tls.{crt,key}; do mv "$file.new" "$file"; done
