#!/usr/bin/env bash
# The files of deploy/credentials.sh: for long names, and after a rotation that was interrupted.
# tests/integration/tls.sh uses them.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v openssl >/dev/null || { echo "SKIP credentials: openssl is not here"; exit 0; }

# credentials WORDS...: what is logged is then in err.
credentials() { "$tree/deploy/credentials.sh" "$@" 2>err; }
# trusts CA PAIR: the CA's file has what has signed the pair's certificate, whose key is the pair's.
trusts() {
  openssl verify -CAfile "$1" "$2/tls.crt" >/dev/null 2>&1 &&
    is "$(openssl x509 -in "$2/tls.crt" -noout -pubkey)" "$(openssl pkey -in "$2/tls.key" -pubout)"
}
is_private() { ! find "$1" -type f -perm /077 | grep .; }
nothing_else() { is "$(find "$1" -type f | wc -l)" 7; }

long=learner-0.us-central1-a.c.a-project-with-quite-a-long-name-123456.internal
pass_if "names longer than 64 characters" credentials files "$long" localhost
pass_if "are in the learner's certificate" \
  grep -q "DNS:$long," <(openssl x509 -in files/learner/tls.crt -noout -ext subjectAltName)
for name in alpha,beta alpha:8686 "a b" ""; do
  no_name() { ! credentials none "$name" && says "'$name' is no host name" && ! [ -e none ]; }
  pass_if "'$name' is no name" no_name
done

cp files/ca.key kept
keeps() {
  ! credentials files localhost && says "files has credentials, which others may be using" &&
    cmp -s files/ca.key kept
}
pass_if "those that are there are not replaced without --rotate" keeps

# interrupted N: a rotation that is killed before its file N is in place. What clients have had is
# before/.
cat >mv <<'EOF'
#!/usr/bin/env bash
echo >>"$MOVED"
[ "$(wc -l <"$MOVED")" -ne "$KILLED_AT" ] || { kill -KILL $PPID && exit; }
exec /bin/mv "$@"
EOF
chmod +x mv
interrupted() {
  rm -rf files before moved
  credentials files localhost && cp -pr files before
  MOVED=$work/moved KILLED_AT=$1 PATH=$work:$PATH credentials --rotate files localhost
}
serves_both() {
  local folder
  for folder in files before; do
    trusts "$folder/ca.crt" files/learner && trusts files/ca.crt "$folder/actor" || return
  done
  grep -qxFf before/token files/token
}
for at in 1 2 5 7; do
  { interrupted $at; } 2>/dev/null # bash would announce that it was killed
  pass_if "a rotation interrupted at file $at is completed" credentials --rotate files localhost
  pass_if "what clients have stays valid" serves_both
  pass_if "only their owner can read the files" is_private files
  pass_if "nothing else is left" nothing_else files
done
pass_if "the next one begins anew" credentials --rotate files localhost
pass_if "and drops the first token" eval '! grep -qxFf before/token files/token'

rm -rf files && credentials files localhost && credentials other localhost
cp -p other/ca.key files/ca.key
unsigned() {
  ! credentials --rotate files localhost && says "files: openssl cannot sign subjectAltName=DNS:"
}
pass_if "a key of another CA is named" unsigned
finish
