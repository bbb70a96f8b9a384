# One host's part of a fleet. deploy/fleet.sh sends this file to the bash of the host, after:
#   dir, state     folder with the programs and run folders; below it: lock, pid, task.log, logs
#   words          the task's arguments; ACORN_TASK, ACORN_LEARNER, ACORN_WORKERS: its place
#   learner_port   where the learner listens, on its own host; else empty
#   credentials    files in an archive, for host_start; empty: there are none
# Every function says what is wrong on stderr and returns 1; other codes are the launcher's.
# shellcheck shell=bash disable=SC2154
export LC_ALL=C.UTF-8 ACORN_TASK ACORN_LEARNER ACORN_WORKERS
export -n credentials # the environment may have such a variable

complain() {
  echo "$*" >&2
  return 1
}

# The task holds a lock as long as it lives, whatever becomes of its process id.
runs() { [ -f "$state/lock" ] && ! flock -n "$state/lock" true; }
gone() { ! runs; }

until_so() { # SECONDS COMMAND...
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    [ $SECONDS -lt $end ] || return
    sleep 0.1
  done
}

# Whether the programs can run here and take the words.
host_check() {
  local error
  error=$(cd "$dir" 2>&1 && build/actor --help 2>&1 >/dev/null) ||
    complain "no programs run in $dir (${error%%$'\n'*}): build them there, share the folder," \
      "or unpack a bundle (make bundle) and name it with --dir=FOLDER" || return
  cd "$dir" || return
  [ -n "$resume" ] || gone || complain "this fleet runs here already: stop it first, or" \
    "--resume to start what is missing" || return
  build/task "${words[@]}" --dry_run >/dev/null
}

# Each file may be read by its owner alone. Those that are there are replaced at once, and read
# again by what runs.
write_credentials() {
  [ -n "$credentials" ] || { rm -rf "$state/credentials" && return; } # those of an earlier fleet
  umask 077
  mkdir -p "$state/credentials/new" && cd "$state/credentials" &&
    base64 -d <<<"$credentials" | tar -x -C new && mv new/* . && rmdir new
}

# Prints the flags for them, a line each.
credential_words() {
  local files=$PWD/$state/credentials
  [ ! -f "$files/token" ] || printf -- "--%s=$files/%s\n" token_file token tls_ca ca.crt \
    tls_cert tls.crt tls_key tls.key
}

# Asked of the kernel: a connection that only looks is a failed TLS handshake in the learner's log.
is_up() {
  gone || grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$learner_port") [0-9A-F]+:0000 0A " \
    /proc/net/tcp{,6}
}

host_start() {
  local secured=()
  cd "$dir" && mkdir -p "$state" && (write_credentials) ||
    complain "cannot write to the folder $dir/$state" || return
  exec 9>"$state/lock"
  flock -w 2 9 || return 0 # it runs
  mapfile -t secured < <(credential_words)
  setsid nohup build/task "${words[@]}" "${secured[@]}" --log_folder="$PWD/$state/logs" \
    </dev/null >>"$state/task.log" 2>&1 &
  exec 9>&-
  echo $! >"$state/pid"
  if [ -n "$learner_port" ]; then until_so 60 is_up; else sleep 0.3; fi
  # A short run may be over by now; its last actors have ended with it.
  runs || wait $! && return
  complain "$(tail -n 3 "$state/task.log")"
}

# "running", "ended" or "none", and the task's last words; then what the learner says of itself.
host_status() {
  local secured=()
  cd "$dir" 2>/dev/null && [ -d "$state" ] || { echo none && return; }
  if gone; then
    echo "ended: $(tail -n 1 "$state/task.log" 2>/dev/null)"
    grep -s '^result ' "$state/task.log" | tail -n 1
    return 0
  fi
  echo "running, $(grep -c 'starting it again' "$state/task.log") restarts"
  mapfile -t secured < <(credential_words)
  [ -z "$learner_port" ] ||
    timeout 5 build/status "127.0.0.1:$learner_port" "${secured[@]}" </dev/null 2>&1 || true
}

# As one asks a run: in order; then at once; then without asking, by which all that the task has
# started ends. Then an archive of the logs on stdout.
host_stop() { # SECONDS
  local pid
  cd "$dir" 2>/dev/null && [ -d "$state" ] || return 0
  pid=$(cat "$state/pid" 2>/dev/null)
  if runs; then
    kill -TERM "$pid"
    until_so "$1" gone || kill -TERM "$pid"
    until_so 5 gone || kill -KILL "$pid"
    until_so 5 gone || complain "process $pid does not end" || return
  fi
  tar -C "$state" -cz --exclude=./pid --exclude=./lock --exclude=./credentials . || return
  rm -rf "${state:?}" && { rmdir -p "${state%/*}" 2>/dev/null || true; }
}
