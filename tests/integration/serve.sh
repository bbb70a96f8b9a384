#!/usr/bin/env bash
# scripts/serve.sh: what it answers beside our own inference of the same checkpoint, for policies
# and networks of every kind, 1,000 sequences at once among them; its paths; what is refused;
# versions that come and go under load; a stop. SWAPS=60: 60 versions, one a second, instead of 6.
# FUZZ_REQUESTS=1000000: so many damaged requests instead of 4,000.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
helpers=$tree/tests/integration/serve
rows=$tree/build/tests/integration/export/policy_rows
export PYTHONDONTWRITEBYTECODE=1

make -s -C "$tree" build/tests/integration/export/policy_rows build/tests/bench/bench_serve \
  >/dev/null || exit 1
plugins choices/locks box_actions/target masks/doors export/senses

# kind NAME WHAT ENV AGENT STEPS OPTION...: a short run in a folder of that name.
names=() whats=()
kind() {
  names+=("$1") whats+=("$2")
  run "$3" "$4" 1 8 --total_steps="$5" --seed=1 --logdir="$1" --evaluators=0 --no_plot "${@:6}"
  ended 60
  [ "$code" -eq 0 ] || pass_if "a run of $2" false
}

# serve WORDS...: in the background; its id is in $server, its address in $url.
serve() {
  : >"$work/err"
  env --default-signal=INT "$tree/build/serve" --port=0 --grpc_port=0 --poll_secs=0.05 "$@" \
    >"$work/out" 2>"$work/err" </dev/null &
  server=$!
  wait_for 10 eval 'says "at gRPC" || ! kill -0 $server' 2>/dev/null
  url=$(sed -n 's|.* at \(http[s]*://[^/]*\)/.*|\1|p' "$work/err" | head -n 1)
  grpc=$(sed -n 's|.* at gRPC ||p' "$work/err")
}
stop_serving() {
  kill -TERM "$server"
  wait "$server"
  code=$?
}
trap 'kill -KILL ${server:-} 2>/dev/null; end_all; rm -rf "$work"' EXIT

# ask CODE TEXT PATH [CURL'S WORDS...]: that status, and the text in the body.
ask() {
  local path=$3
  answer=$(curl -s -m 30 -w '\n%{http_code}' "${@:4}" "$url$path")
  [ "${answer##*$'\n'}" = "$1" ] && [[ $answer = *"$2"* ]] && return
  echo "  asked $path, got: $answer"
  return 1
}
# The same, of a body for a:predict.
predict() { ask "$1" "$2" /v1/models/a:predict -d "$3"; }

# ---- each kind
kind a "mlp" cartpole ppo 30k
kind b "mlp, normalised, previous action and reward" cartpole ppo 10k --normalize_observations \
  --normalize_values --previous_action --previous_reward
kind lstm "lstm" tmaze vtrace 10k
kind locks "several choices, masked, lstm" ./locks.so ppo 10k --network=lstm \
  --env_args='{"stiff": 1}'
kind doors "dqn, dueling, a mask" ./doors.so dqn 5k --dueling
kind target "a box, normalised" ./target.so ppo 10k --normalize_observations --normalize_values
kind box "a box, lstm" ./target.so ppo 10k --network=lstm --previous_action
kind sac "a box by sac" ./target.so sac 1500 --hidden=32 --normalize_observations
kind rainbow "rainbow, an image" catch rainbow 500 --env_args='{"size": 40}' --network=nature \
  --learning_rate=0.001 --unroll_length=8 --replay_min_steps=400 --frame_stack=1
kind frames "four frames" catch vtrace 500 --env_args='{"size": 40}' --network=nature \
  --learning_rate=0.001 --unroll_length=8 --frame_stack=4
kind senses "every kind of tensor" ./senses.so ppo 500 --network=mlp --hidden=16 \
  --learning_rate=0.001 --unroll_length=8 --normalize_observations --previous_reward
serve "${names[@]}"
for i in "${!names[@]}"; do
  pass_if "${whats[$i]}: as our own inference" \
    python3 "$helpers/compare.py" "$rows" "$url" "${names[$i]}" "${names[$i]}"
done
pass_if "1,000 sequences at once" python3 "$helpers/compare.py" "$rows" "$url" lstm lstm 1000 4

# ---- paths and forms
state='[0.1,0.2,0.3,0.4]'
infer='{"id":"x","inputs":[{"name":"state","shape":[1,4],"datatype":"FP32","data":'$state'}]}'
number=$(basename a/checkpoints/best-*.acorn | tr -dc 0-9 | sed 's/^0*//')
pass_if "the server" ask 200 '"name":"acorn"' /v2
pass_if "live" ask 200 '{"live":true}' /v2/health/live
pass_if "ready" ask 200 '{"ready":true}' /v2/health/ready
pass_if "a model" ask 200 '"inputs":[{"name":"state","datatype":"FP32","shape":[-1,4]}]' \
  /v2/models/a
pass_if "a model is ready" ask 200 '"ready":true' "/v2/models/a/versions/$number/ready"
pass_if "infer" ask 200 "\"model_version\":\"$number\",\"id\":\"x\",\"outputs\":[{\"name\":\"act" \
  /v2/models/a/infer -d "$infer"
pass_if "infer, one output" ask 200 '"outputs":[{"name":"value","datatype":"FP32","shape":[1],"da' \
  /v2/models/a/infer -d "${infer%\}},\"outputs\":[{\"name\":\"value\"}]}"
binary='{"inputs":[{"name":"state","shape":[1,4],"datatype":"FP32",
  "parameters":{"binary_data_size":16}}]}'
pass_if "infer, binary data" ask 200 '"outputs":[{"name":"action"' /v2/models/a/infer \
  -H "Inference-Header-Content-Length: ${#binary}" --data-binary "${binary}0123456789012345"
pass_if "infer, binary data that ends early" ask 400 "binary_data_size is 16, 12 bytes are left" \
  /v2/models/a/infer -H "Inference-Header-Content-Length: ${#binary}" \
  --data-binary "${binary}012345678901"
pass_if "status" ask 200 "\"version\":\"$number\",\"state\":\"AVAILABLE\"" /v1/models/a
pass_if "metadata" ask 200 '"dtype":"DT_FLOAT"' /v1/models/a/metadata
pass_if "rows" predict 200 '{"predictions":[{"action":' "{\"instances\":[$state,$state]}"
pass_if "rows by name" predict 200 '"predictions":[{"action":' \
  "{\"instances\":[{\"state\":$state},{\"state\":$state}]}"
pass_if "columns" predict 200 '{"outputs":{"action":[' "{\"inputs\":[$state,$state]}"
pass_if "columns by name" predict 200 '{"outputs":{"action":[' "{\"inputs\":{\"state\":[$state]}}"
pass_if "b64" predict 200 '"predictions"' \
  '{"instances":[{"state":{"b64":"zczMPc3MTD6amZk+zczMPg=="}}]}'
pass_if "a version" ask 200 predictions "/v1/models/a/versions/$number:predict" \
  -d "{\"instances\":[$state]}"
pass_if "metrics" ask 200 acorn_serve_rows_total /metrics

# ---- Triton's clients
triton=$tree/build/triton/bin/python
has_triton() { "$triton" -c 'import tritonclient.grpc, tritonclient.http' 2>/dev/null; }
# by_triton TOKEN CERTIFICATE: all that they can ask.
by_triton() {
  timeout $((30 * patience)) \
    "$triton" "$helpers/triton.py" "${url#*://}" "$grpc" a lstm "$number" "$@"
}
if has_triton; then
  pass_if "Triton's clients" by_triton
else
  echo "SKIP Triton's clients are not here (scripts/setup.sh compare)"
fi

# ---- what is refused
pass_if "JSON that is none" predict 400 "is no JSON: line 1, column" '{"instances":[[1,2,3'
pass_if "no object" predict 400 "is an array" '[1]'
pass_if "NaN" predict 400 "is no JSON" '{"instances":[[NaN,2,3,4]]}'
pass_if "what is no float" predict 400 "number 0 of row 0 is not finite" \
  '{"instances":[[1e39,2,3,4]]}'
python3 -c 'print("[" * 100000)' >deep
pass_if "too deep" predict 400 "depth" @deep
head -c 5000000 /dev/zero >large
pass_if "too large" ask 413 "more than 4194304 bytes" /v1/models/a:predict --data-binary @large
pass_if "too few numbers" predict 400 "an array of 3 stands where an array of 4" \
  '{"instances":[[1,2,3]]}'
pass_if "nested too deep" predict 400 "an array stands where a number" \
  '{"instances":[[[1],2,3,4]]}'
pass_if "text" predict 400 "text stands where a number" '{"instances":[["1",2,3,4]]}'
pass_if "no rows" predict 400 "has 0 rows" '{"instances":[]}'
pass_if "too many rows" predict 400 "1 to 64" \
  "{\"instances\":[$(yes "$state," | head -n 64)$state]}"
pass_if "b64 that is none" predict 400 "is no base64" \
  '{"instances":[{"state":{"b64":"zczMPc3MTD6amZk+zc*MPg=="}}]}'
pass_if "b64 of another size" predict 400 "b64 of 3 bytes, a row has 16" \
  '{"instances":[{"state":{"b64":"AAAA"}}]}'
pass_if "neither rows nor columns" predict 400 "give either instances" '{}'
pass_if "both" predict 400 "give either instances" '{"instances":[],"inputs":[]}'
pass_if "another signature" predict 400 "one signature" \
  "{\"signature_name\":\"x\",\"instances\":[$state]}"
pass_if "another input" predict 400 "no input 'x': the model takes state" '{"inputs":{"x":[1]}}'
pass_if "another type" ask 400 "input 'state' is FP32, the request has FP64" /v2/models/a/infer \
  -d "${infer/FP32/FP64}"
pass_if "another shape" ask 400 "has the shape [rows,4], the request [1,5]" /v2/models/a/infer \
  -d "${infer/1,4/1,5}"
pass_if "no input" ask 400 "input 'state' is missing" /v2/models/a/infer -d '{"inputs":[]}'
pass_if "another output" ask 400 "no output 'x': the model gives action, logits, value" \
  /v2/models/a/infer -d "${infer%\}},\"outputs\":[{\"name\":\"x\"}]}"
pass_if "a mask of nothing" ask 400 "row 0 allows no action" /v1/models/doors:predict \
  -d "$(curl -s "$url/v2/models/doors" | python3 -c 'import json, sys
print(json.dumps({"inputs": {tensor["name"]: [[0] * tensor["shape"][1]]
                             for tensor in json.load(sys.stdin)["inputs"]}}))')"
pass_if "an unknown model" ask 404 "no model 'x'" /v2/models/x/infer -d "$infer"
pass_if "an unknown version" ask 404 "does not serve version 7; it serves $number" \
  /v2/models/a/versions/7/infer -d "$infer"
pass_if "a version that is no number" ask 404 "versions are numbers" /v2/models/a/versions/x
pass_if "an unknown label" ask 404 "no label 'x'" /v1/models/a/labels/x:predict \
  -d "{\"instances\":[$state]}"
pass_if "an unknown path" ask 404 "docs/serving.md" /v3/models/a
pass_if "a path of many parts" ask 404 "docs/serving.md" /v2/models/a/b/c/d/e/f/g/h
pass_if "GET of what takes POST" ask 405 "takes POST" /v2/models/a/infer
pass_if "POST of what takes GET" ask 405 "takes GET" /v2/models/a -d x
pass_if "HEAD of what takes GET" ask 200 "" /v2/models/a -I
step() { # SEQUENCE [PARAMETERS]
  echo '{"parameters":{"sequence_id":'"$1${2:-}"'},"instances":[{"signs":[0,0,0,1],
    "previous_reward":0}]}'
}
pass_if "a memory without a sequence" ask 400 "give the parameter sequence_id" \
  /v1/models/lstm:predict -d '{"instances":[{"signs":[0,0,0,1],"previous_reward":0}]}'
pass_if "a sequence that has not begun" ask 404 "sequence 5000 is not known" \
  /v1/models/lstm:predict -d "$(step 5000)"
pass_if "a sequence that has ended" eval '
  ask 200 predictions /v1/models/lstm:predict -d "$(step 5000 ",\"sequence_start\":true")" &&
    ask 200 predictions /v1/models/lstm:predict -d "$(step 5000 ",\"sequence_end\":true")" &&
    ask 404 "sequence 5000 is not known" /v1/models/lstm:predict -d "$(step 5000)"'
pass_if "parameters that are none" ask 400 "give true or false" /v1/models/lstm:predict \
  -d "$(step 1 ',"sequence_start":1')"
"$tree/build/serve" a --port="${url##*:}" --grpc_port=-1 >out 2>"$work/err" </dev/null
code=$?
pass_if "two on one port" eval 'is $code 1 && says "Address already in use; choose another --port"'
"$tree/build/serve" a --port=-1 --grpc_port="${grpc##*:}" >out 2>"$work/err" </dev/null
code=$?
pass_if "two on one port of gRPC" eval 'is $code 1 && says "in use"'
stop_serving
pass_if "a stop: exit code 0" is "$code" 0

# not_served CODE TEXT WORDS...: it ends by itself, with that exit code and text.
not_served() {
  timeout 30 "$tree/build/serve" --port=0 --grpc_port=0 "${@:3}" >out 2>"$work/err" </dev/null
  code=$?
  is "$code" "$1" && says "$2"
}
pass_if "no run" not_served 2 "name one or more run folders"
pass_if "a folder that is no run" not_served 2 "none is no run folder, nor a folder with" none
pass_if "two models of a name" not_served 2 "two models are named a" a ./a/
pass_if "a name that is none" not_served 2 "write NAME=." .
mkdir -p sweep/rate=2 && ln -s ../../a sweep/rate=2/seed-1 && ln -s a rate=1
pass_if "a folder whose name has = is no name of another" not_served 2 "write NAME=rate=1" rate=1
pass_if "a policy that is none" not_served 2 "give latest:N, all, or specific" a --policy=best
pass_if "no port" not_served 2 "there is no way in" a --port=-1 --grpc_port=-1
pass_if "an address that is none" not_served 2 "is no IP address" a --address=x
pass_if "--no_code: a plugin is not run" not_served 2 "target.so" target --no_code
run cartpole random 1 8 --total_steps=1k --logdir=random --no_plot
ended 20
pass_if "an agent that learns nothing" not_served 2 "agent random learns nothing" random
run ./senses.so ppo 1 8 --total_steps=100 --network=mlp --hidden=4 --logdir=clash --no_plot \
  --env_args='{"clash": 2}' --previous_reward
ended 20
pass_if "a tensor named as an input of the policy's own" \
  not_served 2 "two inputs would be named 'previous_reward': rename a tensor" clash

# ---- a run whose actors brought the environment
"$tree/build/learner" --env=join --agent=ppo --num_envs=8 --listen="unix:$work/socket" \
  --logdir=told --total_steps=3k --no_previous_reward --no_previous_action \
  >out 2>"$work/err" </dev/null &
run=$!
wait_for 10 says "waiting at unix:$work/socket"
"$tree/build/actor" --env=cartpole --envs=8 --learner="unix:$work/socket" >/dev/null 2>&1 &
ended 60
cp -r told here && sed -i 's/^env = join$/env = cartpole/' here/config.txt
serve told here sweep/rate=2/seed-1 x=sweep/rate=2/seed-1
answers_of() { ask 200 value "/v1/models/$1:predict" -d "{\"instances\":[$state]}"; }
as_here() { answers_of here && local here=$answer && answers_of told && is "$answer" "$here"; }
pass_if "a run of --env=join: the same as where the environment is here" as_here
pass_if "a run of a sweep, by its folder and by a name" eval 'answers_of seed-1 && answers_of x'
stop_serving
rm told/space.json
pass_if "without its spaces" not_served 2 \
  "bring back what tells its spaces: told/space.json cannot be read" told

# ---- a token
new_token token
serve a --token_file=token
pass_if "without the token" ask 401 "a token is asked for" /v2/models/a
pass_if "with the token" ask 200 state /v2/models/a -H "Authorization: Bearer $(cat token)"
pass_if "a probe needs none" ask 200 true /v2/health/live
stop_serving
if has_triton; then
  serve a lstm --token_file=token
  pass_if "Triton's clients, with a token" by_triton "$(cat token)"
  pass_if "and without it" eval '! by_triton 2>refusal && grep -q "a token is asked for" refusal'
  live="import tritonclient.grpc as c; c.InferenceServerClient('$grpc').is_server_live()"
  pass_if "nor over gRPC" eval '! "$triton" -c "$live" 2>refusal &&
    grep -q UNAUTHENTICATED refusal'
  stop_serving
fi

# ---- TLS
if command -v openssl >/dev/null; then
  "$tree/deploy/credentials.sh" keys localhost 2>/dev/null
  tls=(--tls_cert=keys/learner/tls.crt --tls_key=keys/learner/tls.key)
  serve a lstm "${tls[@]}"
  pass_if "HTTPS" ask 200 state /v2/models/a --cacert keys/ca.crt
  pass_if "HTTPS alone" eval '! curl -s -m 10 "${url/https/http}/v2" >plain'
  url=${url/127.0.0.1/localhost} grpc=${grpc/127.0.0.1/localhost}
  has_triton && pass_if "Triton's clients, by TLS" by_triton "" keys/ca.crt
  stop_serving
  pass_if "a certificate without its key" not_served 2 "tls_key" a "${tls[0]}"
  pass_if "certificates of clients, over HTTP" not_served 2 "HTTP asks no client for a certif" a \
    "${tls[@]}" --tls_ca=keys/ca.crt
else
  echo "SKIP TLS: openssl is not here"
fi

# ---- damaged requests
serve a lstm
fuzzes() {
  local fuzzer=python3
  has_triton && fuzzer=$triton
  "$fuzzer" "$helpers/fuzz.py" "$server" "${url#*://}" "$grpc" a lstm "$fuzzed" \
    >damaged 2>refusal || { tail -n 3 refusal && return 1; }
  sed 's/^/  /' damaged
}
fuzzed=${FUZZ_REQUESTS:-4000}
pass_if "$fuzzed damaged requests: it answers on, and its memory does not grow" fuzzes
stop_serving
pass_if "and a stop after them" is "$code" 0

# ---- a full queue: one request waits for others, up to a second; the next one finds no room
serve a --max_queue=1 --batch_delay_us=1000000
full() {
  curl -s -m 30 "$url/v2/models/a/infer" -d "$infer" >first &
  ask 503 "the queue is full: 1 requests wait" /v2/models/a/infer -d "$infer" >second
  local refused=$?
  wait $!
  grep -q '"outputs"' first && is $refused 0
}
pass_if "a full queue refuses, and forgets nothing that it took" wait_for 20 full
limits() { "$triton" "$helpers/limits.py" "$grpc" "$@" >"$work/out" 2>"$work/refusal"; }
has_triton && pass_if "and over gRPC" wait_for 20 limits full a
stop_serving

# ---- a GPU, which is emulated
emulated=$tree/build/tests/libacorn_cuda_emulated.so
if [ -f "$emulated" ]; then
  export ACORN_CUDA_PLUGIN=$emulated
  serve a lstm --device=cuda
  for name in a lstm; do
    pass_if "$name, on a GPU" python3 "$helpers/compare.py" "$rows" "$url" $name $name
  done
  stop_serving
  unset ACORN_CUDA_PLUGIN
else
  echo "SKIP serving on a GPU: the emulated one is not built (make units)"
fi

# ---- a sequence that never ends
serve lstm --max_sequences=2
evicted() {
  local i
  for i in 1 2 3; do
    ask 200 predictions /v1/models/lstm:predict -d "$(step $i ',"sequence_start":true')" || return
  done
  ask 404 "evicted as the one idle for longest of 2" /v1/models/lstm:predict -d "$(step 1)" &&
    ask 200 predictions /v1/models/lstm:predict -d "$(step 2)" &&
    ask 200 "acorn_serve_sequences_evicted_total 1" /metrics
}
pass_if "the one idle for longest is evicted, and told so" evicted
stop_serving
if has_triton; then
  serve lstm --max_sequences=2
  pass_if "and over gRPC" limits evicted lstm
  stop_serving
fi

# ---- versions
run cartpole ppo 1 8 --total_steps=30k --seed=2 --logdir=c --evaluators=0 --no_plot
ended 60
version() { # NUMBER RUN: comes at once
  cp -r "$2" "coming" && mv coming "models/$1"
}
served() { ask 200 "\"versions\":[$1]" /v2/models/models >/dev/null; }
mkdir models
version 1 a
serve models a c
python=python3 ways=(http)
has_triton && python=$triton ways=(http grpc stream)
[ ${#ways[@]} -gt 1 ] || echo "SKIP load over gRPC: Triton's clients are not here"
# load WAY STOP THREADS [ODD EVEN]: in the background; its id is in $load, its report in STOP-WAY.
load() {
  local place=$grpc
  [ "$1" != http ] || place=${url#*://}
  : >"$2-$1"
  "$python" "$helpers/load.py" "$1://$place" models "${@:2}" >"$2-$1" 2>"err-$1" &
  load=$!
  wait_for 20 grep -q loading "$2-$1"
}
# report WAY ID TEXT...: that load has ended, and reports all of these.
report() {
  local text
  wait "$2"
  tail -n 1 "stop-$1" | sed 's/^/  /'
  for text in "${@:3}"; do
    grep -q -- "$text" "stop-$1" || { tail -n 5 "err-$1" && return 1; }
  done
}
loads=()
for way in "${ways[@]}"; do
  load $way stop 8 a c
  loads+=("$load")
done
swaps=${SWAPS:-6} pause=0
[ "$swaps" -le 6 ] || pause=1
swap() {
  local i
  for ((i = 2; i <= swaps; i++)); do
    version $i "$([ $((i % 2)) = 1 ] && echo a || echo c)"
    wait_for 10 served "\"$i\"" || return
    sleep $pause
  done
}
pass_if "$swaps versions, one after the other, under load" swap
for way in "${ways[@]}"; do
  load $way never 4
  killed "$load" # in the middle of its requests
  pass_if "$way: a client that is killed harms none" ask 200 '"ready":true' /v2/models/models/ready
done
touch stop
for i in "${!ways[@]}"; do
  pass_if "${ways[$i]}: none is lost, none of a wrong version, each version answers" \
    report "${ways[$i]}" "${loads[$i]}" "refused=0 lost=0 wrong=0 " "versions=$swaps\$"
done
rm -r "models/$swaps"
pass_if "a roll-back by removal" wait_for 10 served "\"$((swaps - 1))\""
cp -r a coming
printf x | dd of="$(ls coming/checkpoints/best-*.acorn)" bs=1 seek=3000 conv=notrunc 2>/dev/null
mv coming models/100
pass_if "a damaged version is refused" wait_for 10 says "version 100 cannot be served"
pass_if "and the one before is served on" served "\"$((swaps - 1))\""
pass_if "and its status tells why" ask 200 '"version":"100","state":"END"' /v1/models/models
version 101 b
pass_if "one of another signature is refused" wait_for 10 says \
  "models/101 takes other inputs or gives other outputs"
version 102 lstm
pass_if "one of another environment is refused" wait_for 10 says "models/102 is a run of tmaze"
cp -r a coming && sed -i '1a option_of_2031 = 7' coming/config.txt && mv coming models/103
pass_if "one with an option of a later version is refused" wait_for 10 says "option_of_2031"
cp -r a coming
for file in coming/checkpoints/*.acorn; do
  printf '\11' | dd of="$file" bs=1 seek=8 conv=notrunc 2>/dev/null
done
mv coming models/104
pass_if "one with a checkpoint of a later format is refused" wait_for 10 says "version 104 cannot"
tells() { # VERSION TEXT: in the reason for it
  curl -s -m 30 "$url/v1/models/models" | python3 -c 'import json, sys
for version in json.load(sys.stdin)["model_version_status"]:
    if version["version"] == sys.argv[1]:
        reason = version["status"]["error_message"]
        sys.exit(version["state"] != "END" or sys.argv[2] not in reason)
sys.exit(1)' "$@"
}
pass_if "their status tells why" eval 'tells 103 option_of_2031 && tells 104 format'
pass_if "and the one before is served on, still" served "\"$((swaps - 1))\""
mv models gone
pass_if "a folder that vanishes is told" wait_for 10 says "there is nothing in models any more"
pass_if "and the version is served on" served "\"$((swaps - 1))\""
rm stop
loads=()
for way in "${ways[@]}"; do
  load $way stop 8
  loads+=("$load")
done
stop_serving
pass_if "a stop under load: exit code 0" is "$code" 0
for i in "${!ways[@]}"; do
  pass_if "${ways[$i]}: none is lost by it" \
    report "${ways[$i]}" "${loads[$i]}" "lost=0 wrong=0 "
done

# ---- a stop while gRPC has requests in hand: the order of what ends is by chance. The client gets
# an answer to each, the last of which tells it to go.
stops_well() {
  local i load all=0
  for ((i = 0; i < ${STOPS:-10}; i++)); do
    serve a
    timeout 60 "$tree/build/tests/bench/bench_serve" "$grpc" a state 4 --seconds=30 \
      --stream=$((i % 2)) >"$work/out.load" 2>&1 </dev/null &
    load=$!
    wait_for 30 grep -q "every connection has an answer" "$work/out.load" || all=1
    kill -TERM "$server"
    wait_for 20 eval '! kill -0 $server 2>/dev/null' || kill -KILL "$server"
    wait "$server" || all=1
    wait "$load"
    grep -q "status 14: the server is stopping" "$work/out.load" ||
      { tail -n 3 "$work/out.load" && all=1; }
  done
  return $all
}
pass_if "a stop under gRPC, as calls and as messages of streams" stops_well

# ---- a stop while HTTP reads requests: those that it had not read by then are refused, or end
stops_reading() {
  local i all=0
  python3 -c 'print("{\"instances\":[[1,2,3,4]],\"more\":[" + "0," * 1500000 + "0]}")' >slow
  for i in 2 3 4 5 6; do
    serve a --drain_secs=0 --batch_delay_us=100000
    local clients=()
    for _ in 1 2 3 4; do
      curl -s -m 20 -o /dev/null "$url/v1/models/a:predict" --data-binary @slow &
      clients+=($!)
    done
    sleep "0.$i"
    stop_serving
    [ "$code" -eq 0 ] || all=1
    wait "${clients[@]}"
  done
  return $all
}
pass_if "a stop while requests are read: exit code 0" stops_reading

# ---- a sequence that begins anew after a roll-back
mkdir memories && cp -r lstm memories/1 && cp -r lstm memories/2
serve memories
# remembered VERSION [PARAMETERS]: which answers the sequence $id where $at is asked; or $refusal.
remembered() {
  local text="\"model_version\":\"$1\""
  [ -z "${refusal:-}" ] || text="is not known"
  ask "${refusal:-200}" "$text" "/v2/models/${at:-memories}/infer" -d '{"parameters":{"sequence_id":
    '"${id:-7}${2:-}"'},"inputs":[{"name":"signs","shape":[1,4],"datatype":"FP32",
    "data":[0,0,0,1]},{"name":"previous_reward","shape":[1],"datatype":"FP32","data":[0]}]}'
}
goes_back() {
  remembered 2 ',"sequence_start":true' && remembered 2 || return
  rm -r memories/2
  wait_for 10 ask 200 '"versions":["1"]' /v2/models/memories && remembered 2 &&
    remembered 1 ',"sequence_start":true' && remembered 1
}
pass_if "a roll-back: a sequence goes on where it is, and begins anew in the other" goes_back
stop_serving

# ---- a sequence whose label moves, and one that has an older episode in another version
cp -r lstm memories/2
point() { # VERSION: of the label
  echo '{"m": {"path": "memories", "policy": "latest:2", "labels": {"stable": '"$1"'}}}' >next.json
  mv next.json models.json
}
point 1
serve --models=models.json --max_sequences=1
begins=',"sequence_start":true'
label_moves() {
  at=m/labels/stable remembered 1 "$begins" && point 2 &&
    wait_for 10 ask 200 '"versions":["2"]' /v2/models/m/labels/stable >/dev/null &&
    at=m/labels/stable remembered 1
}
older_episode() {
  at=m/labels/stable remembered 2 "$begins" && id=8 at=m remembered 2 "$begins" || return
  at=m/labels/stable refusal=404 remembered 2 || return
  at=m refusal=404 remembered 2 && at=m/versions/1 remembered 1
}
pass_if "a label moves: a sequence goes on where it began" label_moves
pass_if "one that was evicted does not go on with an older episode" older_episode
stop_serving

# ---- a file of models: labels, a pin, a roll-back
rm -rf gone models && mkdir models
version 1 a
version 2 c
say_models() { # POLICY LABELS
  echo '{"m": {"path": "models", "policy": "'"$1"'", "labels": '"$2"'}}' >next.json
  mv next.json models.json
}
labelled() { ask 200 predictions "/v1/models/m/labels/$1:predict" -d "{\"instances\":[$state]}"; }
serves() { ask 200 "\"versions\":[$1]" /v2/models/m >/dev/null; }
say_models latest:2 '{"stable": 1, "canary": 2}'
serve --models=models.json
pass_if "two versions" serves '"2","1"'
by_label="import tritonclient.grpc as c
assert c.InferenceServerClient('$grpc').is_model_ready('m', 'canary')
assert not c.InferenceServerClient('$grpc').is_model_ready('m', 'none')"
has_triton && pass_if "labels, over gRPC" "$triton" -c "$by_label"
pass_if "labels" eval 'labelled stable && stable=$answer && labelled canary &&
  [ "$answer" != "$stable" ]'
say_models latest:2 '{"stable": 2, "canary": 2}'
pass_if "a label moves" wait_for 10 eval 'labelled stable && [ "$answer" != "$stable" ]'
say_models specific:1 '{"stable": 1}'
pass_if "a pin" wait_for 10 serves '"1"'
pass_if "a label that is gone" ask 404 "no label 'canary'" /v1/models/m/labels/canary
mv models/2 kept && version 2 random && mv kept models/3
sed -i '1a option_of_2031 = 7' models/3/config.txt
say_models all '{"stable": 1}'
pass_if "of two that cannot be served the status tells" wait_for 10 ask 200 '"version":"3","state' \
  /v1/models/m
stop_serving
serve --models=models.json
pass_if "after a restart, too, they leave the others served" serves '"1"'
rm -r models/3
pass_if "a version that is gone is no more reported" \
  wait_for 10 eval '! ask 200 "\"version\":\"3\"" /v1/models/m >/dev/null'
echo '{"m": {"path": "models", "labels": {"stable": 1}}}' >models.json
stop_serving
rm -r models/2
version 2 c
serve --models=models.json --policy=all
echo '{"m": {"path": "models", "labels": {"stable": 2}}}' >next.json && mv next.json models.json
pass_if "a file that is changed has --policy, where it says none" \
  wait_for 10 eval 'labelled stable && serves "\"2\",\"1\""'
say_models nonsense '{}'
pass_if "a wrong file changes nothing" \
  eval 'wait_for 10 says "stays in force" && serves "\"2\",\"1\""'
stop_serving
pass_if "and is refused at the start" not_served 2 "model m: policy 'nonsense'" \
  --models=models.json
say_models all '{"bad": -1}'
pass_if "a label of a negative number is refused" not_served 2 "label 'bad'" --models=models.json

# ---- a run that is removed and made anew, whose updates are fewer
renumber() { # RUN NUMBER: of its best checkpoint
  mv "$1"/checkpoints/best-*.acorn "$1/checkpoints/best-$(printf %012d "$2").acorn"
}
cp -r a anew && renumber anew 1000
serve anew
cp -r c coming && renumber coming 10
rm -r anew
mv coming anew
pass_if "a run that is made anew is served" wait_for 10 ask 200 '"versions":["10"]' /v2/models/anew
stop_serving

# ---- the commands of docs/serving.md, at other ports; the run is a shorter one
mkdir scripts && ln -s "$tree/run_local.sh" . && ln -s "$tree/scripts/serve.sh" scripts/
port=$(free_port)
block() { # NUMBER
  doc_block serving.md "$1" | sed "s|8501|$port|; s|8500|$((port + 1))|
    s|serve.sh [^ ]*|& --port=$port --grpc_port=$((port + 1))|; s|logdir=|total_steps=50k --&|"
}
{ block 1 && echo "echo \$! >serving"; } >commands
bash commands >answer 2>"$work/err" </dev/null
pass_if "docs: from a run to an answer by curl" \
  grep -Eq '^\{"predictions":\[\{"action":[01],"logits":\[.*,"value":' answer
pass_if "docs: infer by curl" eval 'bash <(block 3) 2>/dev/null | grep -q "\"outputs\":\[{\"name\""'
has_triton && pass_if "docs: the program for gRPC" \
  eval '[[ $("$triton" <(block 4)) =~ ^\[[01]\]$ ]]'
kill -TERM "$(cat serving)"
wait_for 20 has_gone "$(cat serving)"

# ---- a run that is going on: each best checkpoint becomes a version
run cartpole ppo 1 8 --seed=1 --logdir=live --evaluators=0 --no_plot --total_steps=1000M
wait_for 30 eval '[ -s live/environment.txt ]'
"$tree/scripts/serve.sh" live --port=0 --grpc_port=-1 --poll_secs=0.05 >out 2>served </dev/null &
server=$!
several() { [ "$(grep -c "is ready" served)" -ge 2 ]; }
pass_if "a run that is going on: new versions, by the script" wait_for 60 several
kill -INT "$run"
ended 30
stop_serving
pass_if "and a stop" is "$code" 0

mkdir -p sweep/rate=3/seed-1 && echo 'env = gym:Any' >sweep/rate=3/seed-1/config.txt
for_python() { # the bridge is looked for, which is how the folder is seen to be read
  ! ACORN_PYTHON=$work "$tree/scripts/serve.sh" "$1" >out 2>"$work/err" && says "ACORN_PYTHON"
}
pass_if "the script finds an environment in Python in such a folder" \
  for_python sweep/rate=3/seed-1
pass_if "and behind a name" for_python x=sweep/rate=3/seed-1
echo '{"x": {"path": "sweep/rate=3/seed-1"}, "a": {"path": "a"}}' >models.json
pass_if "and in a file of models, of a single line" for_python --models=models.json
finish
