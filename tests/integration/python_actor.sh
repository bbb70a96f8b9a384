#!/usr/bin/env bash
# docs/examples/actor.py, with stubs made from proto/acorn.proto alone: it trains CartPole, outlives
# its learner, ends when the run is over, and prints why it was refused; with a token and TLS, too.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
address=unix:$work/socket
declare -A actors

find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import google.protobuf, grpc' 2>/dev/null || continue
    python=$candidate
    return
  done
  return 1
}

# Only its own folder and build/python are looked at: without the modules it says what is needed.
says_what_is_needed() {
  cp "$tree/docs/examples/actor.py" "$work"
  "$python" "$work/actor.py" --help >out 2>err && grep -q -- --reconnect_s out &&
    ! "$python" "$work/actor.py" 2>err && is "$(wc -l <err)" 1 && says "make python"
}
make_stubs() {
  local plugin
  plugin=$(command -v grpc_python_plugin) && command -v protoc >/dev/null || return
  protoc -I"$tree/proto" --plugin=protoc-gen-grpc_python="$plugin" --python_out="$work" \
    --grpc_python_out="$work" acorn.proto
}

if ! find_python; then
  echo "SKIP python_actor: python3 has no grpc here (scripts/setup.sh compare installs it)"
  exit 0
fi
pass_if "without the modules it helps, and says what is needed" says_what_is_needed
if ! make_stubs 2>"$work/err"; then
  echo "SKIP python_actor: no Python stubs (protobuf-compiler-grpc): $(tail -n 1 "$work/err")"
  exit 0
fi
trap 'kill -KILL "${actors[@]}" 2>/dev/null; end_all; rm -rf "$work"' EXIT

# serve FLAGS...: the learner in the background; its id is in $run.
serve() {
  "$tree/build/learner" --listen="$address" --logdir="$work/run" --num_envs=32 \
    --token_file="$work/token" "$@" >"$work/out" 2>>"$work/err" </dev/null &
  run=$!
}

# act NUMBER
act() {
  PYTHONPATH=$work "$python" "$tree/docs/examples/actor.py" --learner="$address" \
    --name="python/$1" --envs=16 --reconnect_s=30 --token_file="$work/token" \
    >"$work/python$1" 2>&1 </dev/null &
  actors[$1]=$!
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# went_home CODE: every actor ends soon, with this exit code.
went_home() {
  local number code
  for number in "${!actors[@]}"; do
    wait_for 60 gone "${actors[$number]}" || { echo "  actor $number goes on" && return 1; }
    wait "${actors[$number]}"
    code=$?
    [ $code -eq "$1" ] || { echo "  actor $number: exit code $code" && return 1; }
  done
}

rows_come() { grep -q '32 of 32 environments' "$work/err"; }
solved() { is "$(value reason)" target_return && is "$code" 0; }

new_token "$work/token"
serve --env=cartpole --total_steps=100M --checkpoint_secs=1
act 0
act 1
pass_if "two Python actors join and play" wait_for 30 rows_come
kill -TERM "$run"
ended 30
pass_if "the learner stops while they play" is "$code" 0
# --deterministic: the run does not go on, and so does not end, before both are back.
serve --env=cartpole --total_steps=100M --target_return=300 --resume --deterministic
ended 120
pass_if "they come back and CartPole is trained to 300" solved
pass_if "both exit with 0 when the run is over" went_home 0

serve --env=catch --logdir="$work/catch"
act 0
unset 'actors[1]'
refused_with_words() {
  went_home 1 && grep -q "^FAILED_PRECONDITION: the learner trains 'catch'" "$work/python0"
}
pass_if "a refused actor says the learner's words and exits with 1" refused_with_words
new_token "$work/other"
# As in the tree, with what make python leaves there.
mkdir -p as/docs/examples as/build/python && cp "$tree/docs/examples/actor.py" as/docs/examples
cp acorn_pb2*.py as/build/python
"$python" as/docs/examples/actor.py --learner="$address" \
  --token_file="$work/other" >"$work/python0" 2>&1 </dev/null &
actors[0]=$!
needs_token() { went_home 1 && grep -q "^UNAUTHENTICATED: the token is none of" "$work/python0"; }
pass_if "one with another token, too" needs_token
kill -TERM "$run"
ended 30
command -v openssl >/dev/null || { echo "SKIP its TLS: openssl is not here"; finish; }

# ---- TLS

"$tree/deploy/credentials.sh" ours localhost 2>openssl || { cat openssl && exit 1; }
"$tree/deploy/credentials.sh" theirs localhost 2>openssl
cp -r ours mine
with() { echo "--tls_cert=$1/tls.crt --tls_key=$1/tls.key"; }
files() { echo "--token_file=$1/token --tls_ca=$1/ca.crt $(with "$1/actor")"; }
# serve_on PORT FLAGS...: a learner of 4 environments; it listens on $address.
serve_on() {
  rm -rf run
  address=127.0.0.1:$1
  learner --env=cartpole --num_envs=4 --logdir=run --total_steps=1e12 --metrics_secs=0.2 "${@:2}"
  wait_for 20 test -s run/address
  address=$(head -n 1 run/address)
}
# play FLAGS...: the actor, in the background.
play() {
  PYTHONPATH=$work "$python" "$tree/docs/examples/actor.py" --learner="$address" --envs=4 \
    --reconnect_s=60 "$@" >"$work/python0" 2>&1 </dev/null &
  actors[0]=$!
}
# kept_out WORDS FLAGS...: one that does not come in, and prints why.
kept_out() {
  PYTHONPATH=$work timeout $((20 * patience)) "$python" "$tree/docs/examples/actor.py" \
    --learner="$address" --envs=4 --reconnect_s=1 "${@:2}" >said 2>&1
  is $? 1 && tail -n 1 said | grep -qF -- "$1"
}
trains() { metric_passes train/updates 20; }

# shellcheck disable=SC2046 # $(with ...) is several words
{
  serve_on 0 $(with ours/learner) --tls_ca=ours/ca.crt --token_file=ours/token
  port=${address##*:}
  play $(files mine)
  pass_if "mutual TLS and a token: a Python actor trains" wait_for 20 trains
  hung_up="UNAVAILABLE: the learner hung up: it may ask for"
  pass_if "one without TLS is told" kept_out "$hung_up TLS (--tls_ca)"
  pass_if "one without a certificate" kept_out "$hung_up" --tls_ca=ours/ca.crt
  pass_if "one that trusts another CA" kept_out \
    "the learner's certificate is not signed by the one in --tls_ca, or is not valid by" \
    $(files theirs)
  pass_if "one without a token" kept_out "UNAUTHENTICATED: this learner asks for a token" \
    --tls_ca=ours/ca.crt $(with ours/actor)
  pass_if "one with the key of another certificate" kept_out "the TLS files cannot be used" \
    --tls_ca=ours/ca.crt --tls_cert=ours/actor/tls.crt --tls_key=theirs/actor/tls.key
  chmod 644 theirs/actor/tls.key
  pass_if "a private key that others can read is refused" kept_out \
    "--tls_key=theirs/actor/tls.key: others may read this secret (mode 0644): chmod 600 it" \
    $(files theirs)
  pass_if "a file that is not there" kept_out "cannot read nowhere: No such file" \
    --tls_ca=nowhere

  # Every file is another one when the learner comes back.
  killed "$run"
  for file in token ca.crt actor/tls.crt actor/tls.key; do
    cp "theirs/$file" mine/new && chmod 600 mine/new && mv mine/new "mine/$file"
  done
  serve_on "$port" $(with theirs/learner) --tls_ca=theirs/ca.crt --token_file=theirs/token
  pass_if "replaced files are read when it joins again" wait_for 30 trains
  killed "$run"
  serve_on "$port"
  pass_if "a learner without TLS" kept_out "the learner has no TLS: leave --tls_ca out" \
    --tls_ca=ours/ca.crt
}
kill "${actors[0]}" 2>/dev/null
end_by_hand
finish
