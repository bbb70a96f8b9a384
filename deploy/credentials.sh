#!/usr/bin/env bash
# The files by which a learner and its clients know each other.
# Usage: deploy/credentials.sh [--rotate] FOLDER NAME...
# Makes, in FOLDER (mode 0700), each file readable by its owner alone:
#   token                     the shared secret (--token_file)
#   ca.crt, ca.key            what signs the two below (--tls_ca); the key is needed here alone
#   learner/tls.{crt,key}     the learner's, valid for the NAMEs: hosts or IP addresses that actors
#                             call it by, and for this machine (--tls_cert, --tls_key)
#   actor/tls.{crt,key}       the actors'
# Certificates are valid for ten years, and from the day before, for machines whose clock is behind.
#   --rotate   replaces all of them in a FOLDER that has them. Those of before stay valid until the
#              next rotation, so that files can be handed out in any order, to programs that run:
#              token and ca.crt hold the new one, then the one before; the learner's certificate is
#              signed by the CA of before, which clients with either ca.crt trust.
#              After a rotation that was interrupted, only the rest of that one is done.
set -eu
export LC_ALL=C.UTF-8
case "${1:-}" in --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" && exit 0 ;; esac
[ "${1:-}" != --version ] ||
  exec "$(dirname "$(readlink -f "$0")")/../scripts/version.sh" --name=credentials.sh
rotates=
[ "${1:-}" != --rotate ] || { rotates=1 && shift; }
[ $# -ge 2 ] || { echo "credentials: FOLDER and NAME are missing; --help prints more" >&2; exit 2; }
fail() {
  echo "credentials: $*" >&2
  exit 1
}
command -v openssl >/dev/null || fail "openssl is missing: install it"
folder=$1
shift
umask 077
[ -z "$rotates" ] || [ -f "$folder/ca.key" ] ||
  fail "$folder has no ca.key: there is nothing to rotate"
[ -n "$rotates" ] || ! [ -f "$folder/ca.key" ] || [ -f "$folder/made" ] ||
  fail "$folder has credentials, which others may be using: --rotate replaces them"
names=DNS:localhost,IP:127.0.0.1,IP:::1 # as subjectAltName wants them
for name in "$@"; do
  name=${name#[} && name=${name%]} kind=DNS
  [[ ! $name =~ ^[0-9.]+$|^[0-9a-fA-F.]*:[0-9a-fA-F:.]+$ ]] || kind=IP
  [[ $kind == IP || $name =~ ^[A-Za-z0-9_.*-]+$ ]] ||
    fail "'$name' is no host name and no IP address: each NAME is one, without a port"
  names+=,$kind:$name
done
mkdir -p "$folder/learner" "$folder/actor" && chmod 700 "$folder" && cd "$folder"

# Each is made beside the one that it replaces, as FILE.new. Once all of them are there, so is the
# file `made`.
files=(ca.key ca.crt token {learner,actor}/tls.{crt,key})
replace() {
  local file
  for file in "${files[@]}"; do [ ! -f "$file.new" ] || mv "$file.new" "$file"; done
  rm -rf made signing
}
if [ -n "$rotates" ] && [ -f made ]; then
  replace
  echo "credentials: $folder: a rotation was interrupted; its files are all in place now" >&2
  exit
fi

# Of openssl's commands before 3.4 `ca` alone takes the day from which a certificate is valid; it
# keeps a record of what it has signed, which is of no use here.
rm -rf made signing "${files[@]/%/.new}"
mkdir signing
printf '%s\n' '[ca]' default_ca=ca database=signing/index new_certs_dir=signing rand_serial=yes \
  default_md=sha256 policy=subject '[subject]' commonName=supplied >signing/config
yesterday=$(date -u -d "@$(($(date +%s) - 86400))" +%Y%m%d%H%M%SZ)

# certify PAIR SUBJECT EXTENSIONS WORDS...: a key and its certificate; WORDS say by which CA.
certify() {
  : >signing/index
  {
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key.new" &&
      openssl req -new -key "$1.key.new" -subj "/CN=$2" -out signing/request &&
      openssl ca -config signing/config -batch -notext -startdate "$yesterday" -days 3650 \
        -extfile <(printf '%s\n' "$3") -in signing/request -out "$1.crt.new" "${@:4}"
  } 2>signing/said ||
    fail "$folder: openssl cannot sign $3: $(grep -v '^Using \|^Check t' signing/said | head -n 1)"
}

# Two authorities may not have the same subject.
certify ca "acorn $(openssl rand -hex 8)" basicConstraints=critical,CA:TRUE \
  -selfsign -keyfile ca.key.new
by=.new
[ -z "$rotates" ] || by=
certify learner/tls "acorn learner" "subjectAltName=$names" \
  -cert "ca.crt$by" -keyfile "ca.key$by"
certify actor/tls "acorn actor" extendedKeyUsage=clientAuth -cert ca.crt.new -keyfile ca.key.new
openssl rand -base64 32 >token.new
if [ -n "$rotates" ]; then
  head -n 1 token >>token.new
  openssl x509 -in ca.crt >>ca.crt.new # the first one that is in it
fi
: >made
replace
