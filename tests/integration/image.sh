#!/usr/bin/env bash
# The image of deploy/kubernetes/Containerfile: built by buildah on a base of Debian's packages,
# with no image from a registry; its size; what runs in it as its user on a read-only root. A part
# of --all: it compiles the product once more. Its containers are processes in namespaces of their
# own, as buildah alone has no read-only root, and runtimes of containers want a machine's cgroups.
# With CUDA_IMAGE=1 the image for GPUs, too, for which more than 1 GB of wheels is fetched.
. "$(dirname "$(readlink -f "$0")")/kubernetes/lib.sh"
# Never into a file system that is mounted below it.
trap 'end_all; rm -rf --one-file-system "$work"' EXIT
[ -n "${ALL:-}" ] || finish
for program in buildah mmdebstrap unshare setpriv; do
  command -v $program >/dev/null && continue
  echo "SKIP the image: $program is not installed (Debian: buildah, mmdebstrap, util-linux)"
  finish
done
if [ "$(id -u)" != 0 ] || ! unshare --mount --pid --fork --mount-proc true 2>err; then
  echo "SKIP the image: no namespaces can be made here (root only)"
  finish
fi
if ! "$python" -c 'import yaml' 2>/dev/null; then
  echo "SKIP the image: PyYAML is not in .venv (scripts/setup_python.sh kubernetes)"
  finish
fi

# ---- built
# Mounts and processes end with the command, also where this test is killed.
apart() { unshare --mount --pid --fork --kill-child --mount-proc "$@"; }
store() {
  apart buildah --root "$work/images" --runroot "$work/images-run" --storage-driver vfs "$@"
}
# The base by the name that the Containerfile gives it.
make_base() {
  local container
  TMPDIR=$work apart mmdebstrap --quiet --variant=minbase bookworm base.tar &&
    container=$(store from scratch) && store add --quiet "$container" base.tar / &&
    store commit --quiet --rm "$container" docker.io/library/debian:12-slim && rm base.tar
}
if ! make_base >out 2>err; then
  echo "SKIP the image: no base of Debian's packages can be made here: $(tail -n 1 err)"
  finish
fi
build_image() { # TAG [OPTION...]
  store build --isolation chroot --pull-never --tag "$1" "${@:2}" \
    --file "$tree/deploy/kubernetes/Containerfile" "$tree" >out 2>err
}
pass_if "buildah builds the image" build_image acorn --build-arg COMMIT=c0ffee
root=$(store mount "$(store from --pull-never localhost/acorn)") || exit 1
megabytes=$(du -s --apparent-size --block-size=1MB "$root" | cut -f 1)
echo "the image has $megabytes MB"
pass_if "of at most 120 MB" [ "$megabytes" -le 120 ]
pass_if "which is no machine to build on" [ ! -e "$root/usr/bin/gcc" -a ! -e "$root/usr/bin/apt" ]
config() { store inspect --type image --format "{{$1}}" localhost/acorn; }
entrypoint=$(config 'index .OCIv1.Config.Entrypoint 0') user=$(config .OCIv1.Config.User)
place=$(config .OCIv1.Config.WorkingDir)
mapfile -t variables < <(config 'range .OCIv1.Config.Env}}{{println .}}{{end' | grep .)
pass_if "which runs as user 1000" is "$user" 1000:1000

# ---- containers: as a runtime makes them, with the image's user, folder and variables
mkdir "$root/secrets" # as a runtime does for a volume
cat >container <<'EOF'
root=$0 data=$1 secrets=$2 user=$3
mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" &&
  mount -t tmpfs tmpfs "$root/dev/shm" && mount --bind "$secrets" "$root/secrets" &&
  { [ -z "$data" ] || mount --bind "$data" "$root/data"; } && mount -o remount,bind,ro "$root" &&
  exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "${@:4}"
EOF
# contain JOB COMMAND...: one of actors has no volume. The last variable is for pids().
contain() {
  local data=$work/data role=learner
  case $1 in actor | worker | evaluator) data='' role=actor ;; esac
  apart bash -c "$(cat container)" \
    "$root" "$data" "$work/secrets-$role" "$user" /usr/bin/env --ignore-environment \
    --chdir="$place" "${variables[@]}" "TEST_XDG_RUNTIME_DIR=$work" "${@:2}"
}
places() { :; } # as they are in the manifests

# run_image WORDS...: `podman run --read-only IMAGE WORDS...`, in the background.
run_image() {
  contain run "$entrypoint" "$@" >out 2>err </dev/null &
  run=$!
}
writes_nowhere() { ! contain actor /usr/bin/env touch /file /opt/acorn/file /tmp/file 2>err; }
pass_if "no file can be made in it" writes_nowhere
run_image cartpole vtrace 4
ended 120
pass_if "the README's first command trains in it" is "$code $(value reason)" "0 total_steps"
pass_if "CartPole" awk -v mean="$(value return_mean)" 'BEGIN {exit !(mean >= 475)}'
made=(data/runs/cartpole-vtrace-*)
next() { contain run "/opt/acorn/scripts/$1" "${made[0]#data/}" "${@:2}" >out 2>err; }
plays() { next eval.sh --episodes=8 && grep -q '^evaluation .*policy=greedy' out; }
pass_if "into its volume, as user 1000" is "$(stat -c %u "${made[@]}")" 1000
pass_if "and prints no warning" [ -z "$(grep -i 'warning\|cannot' err)" ]
pass_if "nor names a script that a bundle lacks" [ -z "$(grep setup.sh err)" ]
pass_if "its commit is the one that the image was built with" grep -q c0ffee "${made[0]}/run.json"
pass_if "eval.sh, which it names next, plays the policy" plays
curve() { next plot.sh --data && grep -q '^# cartpole vtrace' out; }
pass_if "and plot.sh finds the run" curve

run_image cartpole vtrace 4 --total_steps=1e9 --logdir=stopped
trains() { metric_passes train/updates 100 data/stopped; }
pass_if "a long run trains" wait_for 60 trains
kill -TERM "$(pids launch)"
ended
pass_if "which SIGTERM stops with exit code 0" is "$code $(value reason)" "0 signal"
steps_of() { "$tree/build/checkpoint" "$1" | sed -n 's/^steps  *\([0-9]*\).*/\1/p'; } # RUN
pass_if "and a checkpoint of its last step" is "$(steps_of data/stopped)" "$(value steps)"

# ---- pods
check_pods

rm -rf data/acorn
unset steps
# tf_config TYPE INDEX: the operator's.
tf_config() {
  printf '{"cluster": {"chief": ["127.0.0.1:%d"], "worker": ["w0:2222", "w1:2222", "w2:2222",
    "w3:2222"]}, "task": {"type": "%s", "index": %d}, "environment": "cloud"}' "$port" "$@"
}
for pod in "worker 0" "worker 1" "worker 2" "worker 3" "evaluator 0" "chief 0"; do
  # shellcheck disable=SC2086
  pod tfjob $pod TF_CONFIG="$(tf_config $pod)"
done
pass_if "the pods of tfjob.yaml train to the end" \
  all_end 120 0 chief-0 worker-0 worker-1 worker-2 worker-3 evaluator-0
pass_if "which is that of the budget" is "$(result chief-0 reason)" total_steps

# ---- for GPUs
[ -n "${CUDA_IMAGE:-}" ] || finish
# By the certificates that this machine trusts: pip may go through a proxy.
printf '[global]\ncert = /trusted.crt\n' >pip.conf
pass_if "buildah builds the image for GPUs" build_image acorn:cuda --target cuda \
  --volume "$PWD/pip.conf:/etc/pip.conf:ro" \
  --volume /etc/ssl/certs/ca-certificates.crt:/trusted.crt:ro
root=$(store mount "$(store from --pull-never localhost/acorn:cuda)") || exit 1
mkdir -p "$root/secrets"
echo "it has $(du -s --apparent-size --block-size=1MB "$root" | cut -f 1) MB"
pass_if "it has the plugin" [ -e "$root/opt/acorn/build/libacorn_cuda.so" ]
for library in libcublasLt.so.13 libcudnn.so.9; do
  pass_if "and $library where the plugin looks" [ -e "$root/usr/local/cuda/lib64/$library" ]
done
run_image cartpole vtrace 1 --device=cuda
ended 60
pass_if "which loads, and misses the driver of a GPU" grep -q 'libcuda.so.1' err
run_image cartpole vtrace 1 --total_steps=20k
ended 60
pass_if "without a GPU it trains on the CPU" is "$code $(value reason)" "0 total_steps"
finish
