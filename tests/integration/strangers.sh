#!/usr/bin/env bash
# Clients without the learner's token: nothing of theirs is leased or learned from, while one with
# it trains. Half a core's worth of connections, calls and unfinished messages, for 5 s, or so many
# as ATTACK_S says. Rates and memory before, during and after depend on the machine: they are
# printed.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v python3 >/dev/null || { echo "SKIP strangers: python3 is not here"; exit 0; }
seconds=${ATTACK_S:-5}

new_token token
new_token other
new_token metrics_token
cp -p token first
port() { sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err"; }
listens() { [ -n "$(port)" ]; }
rss_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$run/status"; }

address=127.0.0.1:0
metrics_port=$(free_port)
learner --env=cartpole --num_envs=4 --logdir=run --total_steps=1e12 --metrics_secs=0.2 \
  --token_file=token --metrics_port="$metrics_port" --metrics_token_file=metrics_token
wait_for 20 listens
address=127.0.0.1:$(port)
actor 0 --env=cartpole --envs=4 --streams=1 --reconnect_s=5 --token_file=token
good=$actor
wait_for 20 metric_passes train/updates 50

# ---- refused, with a sentence
# refused_with WORDS CODE COMMAND...
refused_with() {
  local words=$1 expected=$2
  shift 2
  timeout $((10 * patience)) "$@" >said 2>&1
  is $? "$expected" && grep -qF -- "$words" said
}
actor_program=("$tree/build/actor" --learner="$address" --env=cartpole --reconnect_s=5)
status_program=("$tree/build/status" "$address")
asks="this learner asks for a token: name a file with its secret by --token_file"
wrong="the token is none of the learner's: --token_file must hold the learner's secret"
pass_if "an actor without a token is refused" refused_with "$asks" 1 "${actor_program[@]}"
pass_if "an actor with another token" refused_with "$wrong" 1 "${actor_program[@]}" \
  --token_file=other
pass_if "status without a token" refused_with "$asks" 1 "${status_program[@]}"
pass_if "status with another token" refused_with "$wrong" 1 "${status_program[@]}" \
  --token_file=other
pass_if "the learner logs it" says "without a valid token were refused"
pass_if "status with the token" refused_with "cartpole vtrace" 0 "${status_program[@]}" \
  --token_file=token

# ---- the metrics port
install -m 644 token readable
# scrape TOKEN: the first line of the answer.
scrape() {
  exec 3<>"/dev/tcp/127.0.0.1/$metrics_port" || return
  printf 'GET /metrics HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n' "$1" >&3
  tr -d '\r' <&3 | head -n 1
  exec 3>&-
}
unauthorized="HTTP/1.1 401 Unauthorized"
pass_if "metrics with their token" is "$(scrape "$(cat metrics_token)")" "HTTP/1.1 200 OK"
pass_if "metrics with the actors' token" is "$(scrape "$(cat token)")" "$unauthorized"
pass_if "metrics without a token" is "$(scrape "")" "$unauthorized"
pass_if "a metrics token file that others can read is refused" refused_with \
  "--metrics_token_file=readable: others may read this secret (mode 0644): chmod 600 it" 2 \
  "$tree/build/learner" --metrics_port=1 --metrics_token_file=readable --logdir=refused

# ---- token files that are refused
echo short >short && chmod 600 short
for program in learner actor status; do
  words=()
  [ $program = status ] && words=("$address")
  pass_if "$program refuses a token file that others can read" refused_with \
    "--token_file=readable: others may read this secret (mode 0644): chmod 600 it" 2 \
    "$tree/build/$program" "${words[@]}" --token_file=readable
  pass_if "$program refuses a short token" refused_with \
    "--token_file=short: line 1 has 5 characters; a token has 16 to 256" 2 \
    "$tree/build/$program" "${words[@]}" --token_file=short
  pass_if "$program refuses a token file that is not there" refused_with \
    "--token_file=nowhere: it cannot be read: No such file" 2 \
    "$tree/build/$program" "${words[@]}" --token_file=nowhere
done

# ---- a new token, while the run goes on; an actor of each half
joined() { is "$(whole_metric serve/environments)" "$1"; }
(umask 077 && cat token other >both && mv both token.new && mv token.new token)
actor 1 --env=cartpole --envs=1 --streams=1 --reconnect_s=5 --token_file=other
newer=$actor
pass_if "half a rotation: an actor with the new token joins, one with the old plays" \
  wait_for 20 joined 5
cp -p other token.new && mv token.new token
pass_if "an expired token, gone from the learner's file, is refused: status" refused_with \
  "$wrong" 1 "${status_program[@]}" --token_file=first
pass_if "an actor, too" refused_with "$wrong" 1 "${actor_program[@]}" --token_file=first
pass_if "the learner logs which tokens count" says "--token_file=token has changed: 1 of"
pass_if "the new one is accepted" refused_with \
  "cartpole vtrace" 0 "${status_program[@]}" --token_file=other
goes_on() { kill -0 "$good" "$newer" && joined 5; }
pass_if "streams that play go on" goes_on
kill "$newer"
wait_for 20 joined 4

# ---- the attack
# rate SECONDS: training steps per second.
rate() {
  local before
  before=$(whole_metric step)
  sleep "$1"
  echo $((($(whole_metric step) - before) / $1))
}
unset ACORN_TEST_TOKEN_FILE
calm=$(rate 3)
before_kb=$(rss_kb)
python3 "$tree/tests/hostile/flood.py" "$address" strangers $((seconds + 1)) >flood 2>&1 &
flood=$!
wait_for 10 grep -qs '^ready' flood
meanwhile=$(rate "$seconds")
during_kb=$(rss_kb)
pass_if "an attack by strangers: nothing is leased" joined 4
wait "$flood"
pass_if "it came to its end" grep -q '^ended' flood
sleep 1
after=$(rate 4)
after_kb=$(rss_kb)
later=$(rate 4)
echo "  $seconds s by half a core ($(tail -n 1 flood)): steps/s $calm before, $meanwhile" \
  "during, $after in the seconds 2 to 5 after it, $later in those 6 to 9; memory, MB:" \
  "$((before_kb >> 10)) before, $((during_kb >> 10)) during, $((after_kb >> 10)) after"
pass_if "training goes on meanwhile" [ "$meanwhile" -gt 0 ]
whole_metric train/updates >updates
updates_go_on() { metric_passes train/updates $(($(cat updates) + 20)); }
pass_if "and afterwards" wait_for 10 updates_go_on
no_strangers() { ! grep -q stranger "$work/err" && kill -0 "$good" && joined 4; }
pass_if "no stranger has joined, the good actor has not noticed" no_strangers

# ---- the secret stays secret
kept() {
  ! grep -rqF -e "$(cat first)" -e "$(cat other)" -e "$(cat metrics_token)" \
    run err out actor-0.log actor-1.log
}
pass_if "the token is in no log, run folder or checkpoint" kept
in_no_command_line() { ! grep -qsF "$(cat other)" "/proc/$run/cmdline" "/proc/$run/environ"; }
pass_if "nor in a command line" in_no_command_line
kill -TERM "$run"
ended 15
pass_if "the learner ends in good order" is "$code" 0
end_by_hand

# ---- a port that is open to others
address=0.0.0.0:0
learner --env=cartpole --logdir=open --total_steps=1e12 --metrics_port="$metrics_port" \
  --metrics_address=0.0.0.0
pass_if "a learner that others can reach without a token says so" wait_for 20 \
  says "--listen=0.0.0.0:0 without --token_file: any client that reaches the port may join the run"
pass_if "and of its metrics" wait_for 20 says \
  "--metrics_address=0.0.0.0 without --metrics_token_file: whoever reaches the port may read"
end_by_hand
finish
