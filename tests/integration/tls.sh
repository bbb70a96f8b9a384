#!/usr/bin/env bash
# TLS between actors and a learner, and each way in which it cannot be: one side alone has it; a
# certificate is another host's, has expired, or was signed by another. Both sides say so in a
# sentence. Changed files are read again by the learner, and by an actor when it joins again.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v openssl >/dev/null || { echo "SKIP tls: openssl is not here"; exit 0; }

"$tree/deploy/credentials.sh" ours localhost 2>openssl || { cat openssl && exit 1; }
"$tree/deploy/credentials.sh" theirs localhost 2>openssl
cp -r ours/learner elsewhere && cp -r ours/learner expired
# signed FOLDER DAYS NAMES: a certificate by our CA for the key that is there.
signed() {
  openssl req -new -key "$1/tls.key" -subj "/CN=learner" |
    openssl x509 -req -CA ours/ca.crt -CAkey ours/ca.key -CAcreateserial -days "$2" \
      -extfile <(echo "subjectAltName=$3") -out "$1/tls.crt" 2>/dev/null
}
signed elsewhere 1 DNS:elsewhere.example
signed expired 0 DNS:localhost,IP:127.0.0.1
cp -r expired expired-actor

port() { sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err"; }
listens() { [ -n "$(port)" ]; }
# serve FLAGS...: a learner that trains CartPole.
serve() {
  rm -rf run
  address=127.0.0.1:0
  learner --env=cartpole --num_envs=4 --logdir=run --total_steps=1e12 --metrics_secs=0.2 "$@"
  wait_for 20 listens
  address=127.0.0.1:$(port)
}
with() { echo "--tls_cert=$1/tls.crt --tls_key=$1/tls.key"; }
played() { metric_passes train/updates 20; }
# plays FLAGS...: an actor that trains.
plays() {
  actor 0 --env=cartpole --envs=4 --streams=1 --reconnect_s=5 "$@"
  wait_for 20 played
}
# kept_out WORDS FLAGS...: an actor that does not come in, and says so.
kept_out() {
  local words=$1
  shift
  timeout $((10 * patience)) "$tree/build/actor" --learner="$address" --env=cartpole --envs=1 \
    --reconnect_s=3 "$@" >said 2>&1
  is $? 4 && grep -qF -- "$words" said
}
learner_says() { wait_for 10 says "a connection was refused: $1"; }

# shellcheck disable=SC2046 # $(with ...) is several words
{
  serve $(with ours/learner)
  pass_if "an actor with --tls_ca trains" plays --tls_ca=ours/ca.crt
  answers() { timeout 20 "$tree/build/status" "$address" "$@" | grep -q 'cartpole vtrace'; }
  pass_if "status with --tls_ca" answers --tls_ca=ours/ca.crt
  answers_by_folder() {
    (cd / && timeout 20 "$tree/build/status" "$work/run") >said 2>&1
    grep -q 'cartpole vtrace' said
  }
  pass_if "status finds the certificate from the run folder" answers_by_folder
  # A ps task looks at the learner again and again, for as long as that is there.
  TF_CONFIG="{\"cluster\": {\"chief\": [\"$address\"], \"ps\": [\"127.0.0.1:1\"]},
    \"task\": {\"type\": \"ps\", \"index\": 0}}" \
    "$tree/build/task" cartpole vtrace --tls_ca=ours/ca.crt >ps.log 2>&1 &
  ps=$!
  sleep 3
  unheeded() { kill "$ps" && ! says "refused"; }
  pass_if "a ps task is no client that is refused" unheeded
  refuses() {
    ! timeout 20 "$tree/build/status" "$address" "$@" >said 2>&1
    grep -qF "the learner's certificate is not signed by the one in --tls_ca, or is not" said
  }
  pass_if "status with another's --tls_ca is told" refuses --tls_ca=theirs/ca.crt --timeout_s=4
  pass_if "its learner is told" learner_says "a client hung up in the TLS handshake"
  end_by_hand

  serve $(with ours/learner)
  pass_if "an actor without TLS is told" kept_out \
    "the learner hung up: it may ask for TLS (--tls_ca)"
  pass_if "its learner is told" learner_says "a client without TLS: it needs --tls_ca"
  end_by_hand
  serve
  pass_if "an actor with TLS is told of a learner without" kept_out \
    "the learner has no TLS: leave --tls_ca out" --tls_ca=ours/ca.crt
  pass_if "its learner is told" learner_says \
    "a client with TLS (--tls_ca), and this learner has none"
  end_by_hand

  serve $(with theirs/learner)
  pass_if "a certificate signed by another" kept_out \
    "the learner's certificate is not signed by the one in --tls_ca, or is not valid by" \
    --tls_ca=ours/ca.crt
  pass_if "its learner is told" learner_says "a client hung up in the TLS handshake"
  end_by_hand
  sleep 1.1 # it has expired
  serve $(with expired)
  pass_if "a certificate that has expired" kept_out \
    "the learner's certificate is not signed by the one in --tls_ca, or is not valid by" \
    --tls_ca=ours/ca.crt
  pass_if "its learner is told" learner_says "a client hung up in the TLS handshake"
  # A new one, in the files of the old: the learner is not started again.
  signed expired 1 DNS:localhost,IP:127.0.0.1
  pass_if "a certificate that was renewed meanwhile" plays --tls_ca=ours/ca.crt
  pass_if "the learner logs that" says "the TLS files have changed and were read again"
  end_by_hand
  serve $(with elsewhere)
  pass_if "another host's certificate" kept_out \
    "the learner's certificate is another host's: this address is not among its names" \
    --tls_ca=ours/ca.crt
  pass_if "its learner is told" learner_says \
    "a client calls this learner by a name that is not in its certificate"
  end_by_hand

  # ---- both have certificates, and the token besides
  serve $(with ours/learner) --tls_ca=ours/ca.crt --token_file=ours/token
  pass_if "mutual TLS and a token: an actor trains" plays --tls_ca=ours/ca.crt $(with ours/actor) \
    --token_file=ours/token
  hung_up="the learner hung up: it may ask for another certificate (--tls_cert, --tls_key)"
  useless="the TLS files cannot be used: a certificate in them is damaged, or --tls_key is not the"
  cat ours/ca.crt >damaged.crt && sed -i '3d' damaged.crt
  pass_if "an actor with the key of another certificate is told" kept_out "$useless" \
    --tls_ca=ours/ca.crt --tls_cert=ours/actor/tls.crt --tls_key=theirs/actor/tls.key
  pass_if "so is one with a damaged file" kept_out "$useless" --tls_ca=damaged.crt
  pass_if "an actor without a certificate is told" kept_out "$hung_up" --tls_ca=ours/ca.crt \
    --token_file=ours/token
  pass_if "its learner is told" learner_says "a client without a certificate"
  end_by_hand
  serve $(with ours/learner) --tls_ca=ours/ca.crt --token_file=ours/token
  pass_if "an actor with another's certificate is told" kept_out "$hung_up" --tls_ca=ours/ca.crt \
    $(with theirs/actor) --token_file=ours/token
  pass_if "its learner is told" learner_says "a client whose certificate is not signed by"
  end_by_hand
  serve $(with ours/learner) --tls_ca=ours/ca.crt --token_file=ours/token
  pass_if "an actor with an expired certificate is told" kept_out "$hung_up" --tls_ca=ours/ca.crt \
    $(with expired-actor) --token_file=ours/token
  pass_if "its learner is told" learner_says "a client whose certificate is not signed by"
  no_token() {
    timeout 20 "$tree/build/actor" --learner="$address" --env=cartpole --tls_ca=ours/ca.crt \
      $(with ours/actor) >said 2>&1
    is $? 1 && grep -qF "this learner asks for a token" said
  }
  pass_if "one with a certificate and no token is told" no_token
  pass_if "its address is in the log" says "the last one from 127.0.0.1:"
  pass_if "status finds token, CA and certificate from the run folder" answers_by_folder
  end_by_hand

  # ---- a machine's clock is wrong: the certificates are valid from the day before
  gcc -std=gnu11 -O2 -shared -fPIC -o wall_clock.so "$tree/tests/integration/wall_clock.c" -ldl
  off_by() { # SECONDS COMMAND...
    printf '%-16s' "$1" >offset
    LD_PRELOAD=$work/wall_clock.so WALL_CLOCK=$work/offset "${@:2}"
  }
  for seconds in -3600 3600; do
    serve $(with ours/learner) --tls_ca=ours/ca.crt
    pass_if "an actor whose clock is off by $seconds s trains" \
      off_by $seconds plays --tls_ca=ours/ca.crt $(with ours/actor)
    end_by_hand
  done
  serve $(with ours/learner) --tls_ca=ours/ca.crt
  pass_if "one whose clock is two days behind is told" off_by -172800 \
    kept_out "or is not valid by this machine's clock" --tls_ca=ours/ca.crt $(with ours/actor)
  end_by_hand

  # ---- a supervisor looks whether its learner listens
  run cartpole vtrace 1 4 --listen="localhost:$(free_port)" --logdir=supervised \
    --total_steps=20k $(with ours/learner) --tls_ca=ours/ca.crt --token_file=ours/token
  ended 30
  pass_if "run_local with TLS" is "$code" 0
  pass_if "its learner does not take the supervisor for a client" eval '! says "was refused"'

  # ---- rotation, twice: deploy/credentials.sh --rotate
  # files FOLDER: what an actor is given of them.
  files() { echo "--tls_ca=$1/ca.crt $(with "$1/actor") --token_file=$1/token"; }
  rotate() { "$tree/deploy/credentials.sh" --rotate rotated localhost 2>openssl; }
  environments() { is "$(whole_metric serve/environments)" "$1"; }
  "$tree/deploy/credentials.sh" rotated localhost 2>openssl
  cp -r rotated mine
  serve $(with rotated/learner) --tls_ca=rotated/ca.crt --token_file=rotated/token
  plays $(files mine) --reconnect_s=60
  lasting=$actor
  cp -r rotated before
  rotate
  pass_if "half a rotation: the learner serves its old streams" environments 4
  actor 1 --env=cartpole --envs=1 --streams=1 $(files before)
  others=("$actor")
  pass_if "half a rotation: an actor with the files of before joins" wait_for 20 environments 5
  actor 2 --env=cartpole --envs=1 --streams=1 $(files rotated)
  others+=("$actor")
  pass_if "so does one with the new ones" wait_for 20 environments 6
  pass_if "the learner logs that" says "the TLS files have changed and were read again"
  pass_if "status by the run folder" answers_by_folder
  rotate
  unknown="the learner's certificate is not signed by the one in --tls_ca, or is not valid by"
  pass_if "after the next rotation the oldest files are refused" kept_out "$unknown" \
    $(files before)
  outdated() {
    timeout 20 "$tree/build/actor" --learner="$address" --env=cartpole \
      --tls_ca=rotated/ca.crt $(with rotated/actor) --token_file=before/token >said 2>&1
    is $? 1 && grep -qF "the token is none of the learner's" said
  }
  pass_if "and the oldest token" outdated

  # The actor that has run since before the first rotation joins another learner: with its old
  # files it is refused and tries again; its certificate is replaced, then its key, then the rest.
  for process in "${others[@]}" "$run"; do killed "$process"; done
  rm -rf run
  learner --env=cartpole --num_envs=4 --logdir=run --total_steps=1e12 --metrics_secs=0.2 \
    $(with rotated/learner) --tls_ca=rotated/ca.crt --token_file=rotated/token
  pass_if "an actor with the oldest files is refused" learner_says \
    "a client hung up in the TLS handshake"
  for file in ca.crt actor/tls.crt; do
    cp "rotated/$file" mine/new && mv mine/new "mine/$file"
  done
  mismatched() { grep -qF "the TLS files have changed and were read again" actor-0.log; }
  pass_if "it reads them again" wait_for 20 mismatched
  sleep 1
  pass_if "a certificate without its key does not end it" kill -0 "$lasting"
  for file in actor/tls.key token; do cp "rotated/$file" mine/new && mv mine/new "mine/$file"; done
  pass_if "with the new files it trains, and was not started again" wait_for 30 played
  pass_if "it is the same process" kill -0 "$lasting"
  end_by_hand

  # ---- wrong options
  chmod 644 theirs/learner/tls.key
  # wrong PROGRAM WORDS FLAGS...
  wrong() {
    local program=$1 words=$2
    shift 2
    timeout 20 "$tree/build/$program" --logdir=wrong "$@" >said 2>&1
    is $? 2 && grep -qF -- "$words" said
  }
  wrong_actor() {
    local words=$1
    shift
    timeout 20 "$tree/build/actor" "$@" >said 2>&1
    is $? 2 && grep -qF -- "$words" said
  }
  pass_if "a private key that others can read" wrong learner \
    "--tls_key=theirs/learner/tls.key: others may read this secret (mode 0644): chmod 600 it" \
    $(with theirs/learner)
  pass_if "a certificate without its key" wrong learner "--tls_cert without --tls_key" \
    --tls_cert=ours/learner/tls.crt
  pass_if "the key of another certificate" wrong learner \
    "--tls_cert and --tls_key: they are not a certificate and the private key that belongs to it" \
    --tls_cert=ours/learner/tls.crt --tls_key=ours/actor/tls.key --listen=127.0.0.1:0
  pass_if "a damaged --tls_ca" wrong learner "or the file of --tls_ca is damaged" \
    $(with ours/learner) --tls_ca=damaged.crt --listen=127.0.0.1:0
  pass_if "a file that is no certificate" wrong learner \
    "--tls_cert=ours/token: it holds no certificate in PEM form" --tls_cert=ours/token \
    --tls_key=ours/actor/tls.key
  pass_if "a learner's --tls_ca alone" wrong learner "--tls_ca without --tls_cert" \
    --tls_ca=ours/ca.crt
  pass_if "an actor's certificate without --tls_ca" wrong_actor "--tls_cert without --tls_ca" \
    $(with ours/actor)
}

# ---- a Unix socket is plain
address=unix:$work/by-hand
learner --env=cartpole --num_envs=4 --logdir=unix --total_steps=1e12 --metrics_secs=0.2 \
  --tls_cert=ours/learner/tls.crt --tls_key=ours/learner/tls.key
actor 0 --env=cartpole --envs=4 --streams=1 --tls_ca=ours/ca.crt
trains() { metric_passes train/updates 20 unix; }
pass_if "a Unix socket stays plain" wait_for 20 trains
end_by_hand
finish
