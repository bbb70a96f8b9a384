#!/usr/bin/env bash
# What a run writes for others to read: TensorBoard's event files as TensorBoard reads them, the
# page for Prometheus as promtool checks it, and what happens when there is no room for either.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

skip() { echo "SKIP $1: $2"; }

event_files() { ls "$1" | grep -c '^events.out.tfevents'; }

# scrape PATH: the response, without carriage returns.
scrape() {
  local answer
  exec 3<>"/dev/tcp/127.0.0.1/$port" || return
  printf 'GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$1" >&3
  answer=$(tr -d '\r' <&3)
  exec 3>&-
  printf '%s\n' "$answer"
}
page() { scrape /metrics 2>/dev/null | sed '1,/^$/d' >"$work/text"; }
figure() { sed -n "s/^$1 //p" "$work/text"; }

# ---- episodes.csv
# A run this small has fewer episodes than are kept between two writes: none is left out, however
# fast it is.
run cartpole vtrace 2 8 --total_steps=15k --logdir=table
ended
table() {
  is "$(head -n 1 table/episodes.csv)" \
    seconds,step,actor,environment,role,return,length,one_in &&
    is "$(cut -d , -f 3 table/episodes.csv | grep -c '^actor/[01]/[01]$')" \
      "$(whole_metric train/episodes table)"
}
pass_if "episodes.csv has a row for each episode" table
run cartpole vtrace 2 8 --total_steps=1e9 --logdir=evaluated --evaluators=1 --over=eval \
  --target_return=10
ended
evaluated() { is "$code" 0 && cut -d , -f 5 evaluated/episodes.csv | grep -q '^eval$'; }
pass_if "those of evaluators are in it" evaluated
run cartpole vtrace 2 8 --total_steps=10k --logdir=no_table --episodes_csv=false
ended
no_table() { is "$code" 0 && [ ! -e no_table/episodes.csv ] && [ -s no_table/metrics.jsonl ]; }
pass_if "--episodes_csv=false writes none" no_table

# ---- event files
run cartpole vtrace 2 8 --total_steps=50k --logdir=run --metrics_secs=0.1
ended
pass_if "a run writes one event file" is "$(event_files run)" 1
run cartpole vtrace 2 8 --total_steps=100k --logdir=run --metrics_secs=0.1 --resume
ended
pass_if "a resumed run begins another" is "$(event_files run)" 2
python=$tree/.venv/bin/python
if "$python" -c 'import tensorboard' 2>/dev/null; then
  "$python" "$tree/tests/integration/read_events.py" run 2 >"$work/read" 2>"$work/err" ||
    failures=$((failures + 1))
  cat "$work/read"
  pass_if "TensorBoard's reader runs to its end" is "$(grep -cE '^(PASS|FAIL) ' "$work/read")" 6
  run catch vtrace 1 4 --env_args='{"size": 40}' --network=nature --batch_size=4 \
    --total_steps=3000 --checkpoint_secs=0.3 --logdir=pixels
  ended
  "$python" "$tree/tests/integration/read_images.py" pixels >"$work/read" 2>"$work/err" ||
    failures=$((failures + 1))
  cat "$work/read"
  pass_if "it reads images, too" is "$(grep -cE '^(PASS|FAIL) ' "$work/read")" 3
  run catch r2d2 1 4 --env_args='{"size": 40}' --network=nature --lstm_size=16 --frame_stack=4 \
    --batch_size=4 --unroll_length=10 --burn_in=5 --replay_min_steps=500 --replay_steps=10k \
    --replay_ratio=1 --total_steps=3000 --checkpoint_secs=0.3 --evaluators=0 --logdir=sampled
  ended
  "$python" "$tree/tests/integration/read_images.py" sampled >"$work/read" 2>"$work/err"
  pass_if "also those of a replay's windows" is "$(grep -c '^PASS ' "$work/read")" 3
  no_images() { ! grep -qa 'observation/network_input' run/events.out.tfevents.*; }
  pass_if "a network that reads no image shows none" no_images
else
  skip "TensorBoard reads the event files" "it is not here (scripts/setup.sh compare)"
fi

run cartpole vtrace 1 4 --total_steps=10k --logdir=without --tensorboard=false
ended
without() { is "$code" 0 && is "$(event_files without)" 0 && [ -s without/metrics.jsonl ]; }
pass_if "--tensorboard=false writes none" without
run cartpole vtrace 1 4 --total_steps=10k --logdir=nothing --metrics_secs=0
ended
nothing() {
  is "$code" 0 && is "$(event_files nothing)" 0 && [ ! -e nothing/metrics.jsonl ] &&
    [ ! -e nothing/episodes.csv ]
}
pass_if "--metrics_secs=0 writes no metrics at all" nothing

# A bound on the size of files stands for a full disk.
(
  trap '' XFSZ
  ulimit -f 24
  exec "$tree/build/learner" --env=cartpole --num_envs=8 --total_steps=100k --logdir=full \
    --metrics_secs=0.05 --listen="unix:$work/socket"
) >"$work/out" 2>"$work/err" </dev/null &
run=$!
"$tree/build/actor" --env=cartpole --envs=8 --learner="unix:$work/socket" >"$work/actor" 2>&1 &
ended
goes_on() {
  is "$(value reason)" total_steps && [ "$(value steps)" -ge 100000 ] &&
    [ "$(grep -c 'tfevents.*training goes on' "$work/err")" -le 2 ] && says "training goes on"
}
pass_if "a disk without room for events is said, not repeated, and training goes on" goes_on

# ---- a run from a replay
run tmaze r2d2 2 8 --total_steps=1e9 --replay_min_steps=2k --replay_steps=10k --batch_size=32 \
  --unroll_length=20 --burn_in=10 --window_stride=20 --replay_ratio=0.5 --lstm_size=32 \
  --hidden=none --evaluators=0 --exploration=per_environment --metrics_secs=0.1 --logdir=replay
# is_about A B SHARE: they differ by at most so much of B.
is_about() {
  awk -v a="$1" -v b="$2" -v share="$3" 'BEGIN {d = a - b; exit !(d * d <= share * share * b * b)}'
}
# 10,000 steps in pages of 40, of which 16 environments hold some.
is_full() {
  is "$(whole_metric replay/windows_needed replay)" 100 &&
    metric_passes replay/windows 300 replay && ! metric_passes replay/windows 500 replay &&
    metric_passes fifo/windows 2000 replay
}
pass_if "a replay fills, and forgets what is old" wait_for 60 is_full
# Both actors: one of them may join late.
mean_epsilon=$(awk 'BEGIN {for (i = 0; i < 16; i++) sum += 0.4 ^ (1 + 7 * i / 15); print sum / 16}')
explores() {
  is_about "$(metric exploration/epsilon replay)" "$mean_epsilon" 1e-4 &&
    grep -q '"train/episode_return_most_random":[-0-9]' replay/metrics.jsonl &&
    grep -q '"train/episode_return_least_random":[-0-9]' replay/metrics.jsonl
}
pass_if "returns are reported by how much an environment explores" wait_for 60 explores
kill -TERM "$run"
ended
# Sampled: at most what is asked, less a batch at the end; some windows are behind, too.
keeps_its_ratio() {
  is "$(metric replay/ratio_asked replay)" 0.5 &&
    is_about "$(metric replay/ratio replay)" 0.5 0.2 &&
    is "$(whole_metric replay/windows_sampled replay)" \
      $((32 * $(whole_metric train/updates replay)))
}
pass_if "it is sampled as often as asked" keeps_its_ratio
# Each of the three in some line: a line is about a tenth of a second.
observed() { grep -qE "\"$1\":[0-9.]*[1-9]" replay/metrics.jsonl; }
priorities() {
  observed replay/initial_priority && observed replay/updated_priority &&
    observed replay/window_age_steps && is "$(metric replay/priorities_not_finite replay)" 0
}
pass_if "priorities and ages are measured" priorities
pass_if "stored states are compared with recomputed ones" observed q/delta
run tmaze r2d2 2 8 --total_steps=10k --replay_min_steps=2k --replay_steps=20k --batch_size=32 \
  --unroll_length=20 --burn_in=10 --window_stride=15 --lstm_size=32 --hidden=none \
  --learning_rate=0 --evaluators=0 --metrics_secs=0.1 --logdir=frozen
ended
frozen() {
  metric_passes train/updates 1 frozen && [ -n "$(metric q/delta frozen)" ] &&
    ! metric_passes q/delta 1e-5 frozen && metric_passes q/td_error 0 frozen
}
pass_if "which are the same where nothing is learned" frozen
# A new window's priority, from what acting kept, is that of an update while the parameters are the
# same: if all that the loss goes by reaches both.
mean_of_lines() {
  grep -oE "\"$1\":[0-9.e-]+" same/metrics.jsonl | awk -F: '{sum += $2} END {print sum / NR}'
}
same_priorities() {
  rm -rf same
  run cartpole r2d2 2 8 --total_steps=200k --replay_min_steps=2k --replay_steps=60k \
    --batch_size=32 --unroll_length=20 --burn_in=10 --lstm_size=16 --learning_rate=0 \
    --priority_exponent=0 --n_steps=5 --discount=0.9 --value_rescaling=0.1 --no_partial_returns \
    --priority_eta=0.3 --evaluators=0 --logdir=same "$1"
  ended
  metric_passes train/updates 100 same &&
    awk -v mean="$(mean_of_lines replay/initial_priority)" 'BEGIN {exit !(mean + 0 > 0.01)}' &&
    is_about "$(mean_of_lines replay/updated_priority)" \
      "$(mean_of_lines replay/initial_priority)" 0.03
}
pass_if "and new windows have the priorities that updates give them" \
  same_priorities --reward_scale=0.2
pass_if "also where rewards are clipped" same_priorities --reward_clip=0.1

# ---- a run on a GPU, which is emulated
ACORN_CUDA_PLUGIN=$tree/build/tests/libacorn_cuda_emulated.so \
  run cartpole vtrace 1 8 --device=cuda --total_steps=2k --metrics_secs=0.1 --logdir=gpu
ended

# ---- the page for Prometheus
port=$(free_port)
run cartpole vtrace 2 8 --total_steps=1e9 --logdir=page --metrics_port="$port"
# Until it plays, and an interval has been closed.
plays() { page && [ "$(figure acorn_train_env_steps_total)" -gt 0 ] && [ -s page/metrics.jsonl ]; }
pass_if "the page shows a run that plays" wait_for 20 plays 2>/dev/null
page
if command -v promtool >/dev/null; then
  checks() { [ -s "$work/text" ] && promtool check metrics <"$work/text" >"$work/err" 2>&1; }
  pass_if "promtool finds nothing wrong with it" checks
else
  skip "promtool checks the page" "it is not here (prometheus: a service, not installed for a test)"
fi
# names [FOLDER]: of metrics.jsonl, a histogram by its mean.
names() {
  tail -n 1 "${1:-page}/metrics.jsonl" | grep -o '"[a-z][^"]*":' | tr -d '":' |
    grep -vE '^(step|seconds)$|/(p50|p99|max)$'
}
# all_names CONDITION [FOLDER]: it holds of every name, and there are as many as there should be.
all_names() {
  local name found=0 failed=0
  for name in $(names "${2:-page}"); do
    found=$((found + 1))
    "$1" "$name" || { echo "  $name is missing" && failed=1; }
  done
  is $failed 0 && [ $found -gt 40 ]
}
on_page() {
  local name
  name=acorn_$(sed -E 's|_us$|_seconds|; s|/total$||; s|/|_|g' <<<"$1")
  grep -qE "^$name(_total|_count)? " "$work/text"
}
documented() { grep -qF "| \`$1\`" "$tree/docs/operations.md"; }
pass_if "every metric of metrics.jsonl is on it" all_names on_page
pass_if "docs/operations.md explains every one" all_names documented
documents_replay() { all_names documented replay; }
pass_if "and every one of a run from a replay" documents_replay
documents_gpu() { all_names documented gpu && [ -n "$(metric device/bytes_up gpu)" ]; }
pass_if "and every one of a run on a GPU" documents_gpu
# And no other: each row is a metric of these runs, or of the losses of another algorithm.
rows() { sed -n '/^| metric | unit/,/^$/s/^| `\([a-z_/]*\)`.*/\1/p' "$tree/docs/operations.md"; }
is_metric() {
  {
    names
    names replay
    names gpu
    "$tree/build/learner" --help=algorithms | sed -n 's/^| `\([a-z_/]*\)` .*/\1/p'
  } | grep -qxF "$1"
}
no_other() {
  local name failed=0
  for name in $(rows); do is_metric "$name" || { echo "  $name is no metric" && failed=1; }; done
  is $failed 0 && [ "$(rows | wc -l)" -gt 40 ]
}
pass_if "docs/operations.md explains no other" no_other
labels() { grep -qF 'acorn_run_info{env="cartpole",agent="vtrace",seed="1"' "$work/text"; }
pass_if "it says which run it is" labels
not_found() { scrape /else | head -n 1 | grep -q ' 404 '; }
pass_if "another path is not found" not_found
# Peers that say nothing take every slot, and more wait in front of the scraper.
silent=()
for _ in $(seq 40); do
  exec {peer}<>"/dev/tcp/127.0.0.1/$port"
  silent+=("$peer")
done
soon() {
  timeout $((2 * patience)) bash -c "$(declare -f scrape); port=$port; scrape /metrics" |
    grep -q ' 200 '
}
begin=$SECONDS
pass_if "40 silent peers do not keep a scraper out" soon
# Their time is up after 5 s: it has not waited for that.
is_open() {
  read -r -t 0.01 -u "$1"
  [ $? -gt 128 ]
}
if [ $((SECONDS - begin)) -lt 4 ]; then
  pass_if "which has not waited for their end" is_open "${silent[-1]}"
else
  skip "which has not waited for their end" "this machine took longer than they are given"
fi
for peer in "${silent[@]}"; do exec {peer}>&-; done
one=$run
refused cartpole vtrace 1 4 --total_steps=10k --logdir=busy --metrics_port="$port"
busy() {
  is "$code" 2 && says "--metrics_port: port $port of 127.0.0.1 is in use" && [ ! -e busy ]
}
pass_if "a port in use is refused, and no folder is left" busy
refused cartpole vtrace 1 4 --logdir=busy --metrics_port="$port" --metrics_address=here
pass_if "an address that is none is refused" says "'here' is no IP address"
pass_if "the first run goes on" kill -0 "$one"
run=$one
kill -INT "$run"
ended 20
pass_if "a run with a page stops on a signal" is "$code" 130
closed() { ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
pass_if "the port is closed then" closed
pass_if "nothing is left" no_process
finish
