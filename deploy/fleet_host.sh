# One host's part of a fleet. deploy/fleet.sh sends this file to the bash of the host, after:
#   dir, state     folder with the programs and run folders; below it: lock, pid, task.log, logs,
#                  told (that the learner's task has to stop)
#   words          the task's arguments; ACORN_TASK, ACORN_LEARNER, ACORN_WORKERS: its place
#   logdir         the run folder, for host_status; empty where it is not known
#   learner_port, credentials   of the learner's host, files in an archive for host_start; or empty
# Every function says what is wrong on stderr and returns 1; other codes are the launcher's.
# shellcheck shell=bash disable=SC2154
export LC_ALL=C.UTF-8 ACORN_TASK ACORN_LEARNER ACORN_WORKERS
export -n credentials # the environment may have such a variable

echo acorn # what the host's shell prints before is none of it

complain() { echo "$*" >&2 && return 1; }

# is_held FLOCK'S WORDS...: its code is 1 where the lock is held. Any other one is of a host without
# flock or a file system without locks, where no function here can go on.
is_held() {
  local error code
  error=$(flock "$@" 2>&1)
  code=$?
  [ $code -le 1 ] || complain "$dir/$state/lock cannot be locked, flock's exit code is $code" \
    "($error): it needs util-linux, and a file system with locks (--dir=FOLDER)" || exit
  [ $code -eq 1 ]
}

# The task holds a lock as long as it lives, whatever becomes of its process id.
runs() { [ -f "$state/lock" ] && is_held -n "$state/lock" true; }
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
  local error trial
  error=$(cd "$dir" 2>&1 && build/actor --help 2>&1 >/dev/null) ||
    complain "no programs run in $dir (${error%%$'\n'*}): build them there, share the folder," \
      "or unpack a bundle (make bundle) and name it with --dir=FOLDER" || return
  cd "$dir" && trial=$(mktemp .fleet-XXXXXX) || complain "cannot write to the folder $dir" || return
  exec 9>"$trial" && rm "$trial" && ! is_held -n 9 && exec 9>&-
  ! { gone && listens; } || complain "something else listens at port $learner_port" || return
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
  [ ! -f "$files/token" ] || printf -- '--%s\n' "token_file=$files/token" \
    "tls_ca=$files/ca.crt" "tls_cert=$files/tls.crt" "tls_key=$files/tls.key"
}

# Asked of the kernel: a connection that only looks is a failed TLS handshake in the learner's log.
listens() {
  [ -n "$learner_port" ] &&
    grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$learner_port") [0-9A-F]+:0000 0A " \
      /proc/net/tcp{,6}
}
is_up() { gone || [ -z "$learner_port" ] && sleep 0.3 || listens; }

host_start() {
  local secured=()
  cd "$dir" && mkdir -p "$state" && (write_credentials) ||
    complain "cannot write to the folder $dir/$state" || return
  exec 9>"$state/lock"
  ! is_held -w 2 9 || return 0 # it runs
  rm -f "$state/told"
  mapfile -t secured < <(credential_words)
  [ ! -f "$state/task.log" ] || mv "$state/task.log" "$state/task.log.before"
  setsid nohup build/task "${words[@]}" "${secured[@]}" --log_folder="$PWD/$state/logs" \
    </dev/null >"$state/task.log" 2>&1 &
  exec 9>&-
  echo $! >"$state/pid"
  until_so 60 is_up || complain "the learner runs, and does not listen at port" \
    "$learner_port yet (it reads a large replay?): to go on, start --resume once more" || return
  # A short run may be over by now; its last actors have ended with it.
  runs || wait $! && return
  complain "$(tail -n 3 "$state/task.log")"
}

# "running", "ended" or "none", the last line of the task's log; then the learner's status.
host_status() {
  cd "$dir" 2>/dev/null && [ -d "$state" ] || { echo none && return; }
  if gone; then
    echo "ended: $(tail -n 1 "$state/task.log" 2>/dev/null)"
    grep -s '^result ' "$state/task.log" | tail -n 1
    return 0
  fi
  echo "running, $(grep -c 'starting it again' "$state/task.log") restarts"
  # The file `address` in the run folder has the learner's address, and the files to ask it with.
  [ -z "$learner_port" ] || [ -z "$logdir" ] ||
    timeout 10 build/status "$logdir" </dev/null 2>&1 ||
    echo "the learner's figures are missing: build/status ended with code $?"
}

# On the learner's host TERM, once: a second one, also of a stop after one that was interrupted,
# would end a learner that still saves its replay; its supervisor ends one that hangs. On the others
# TERM, TERM again, then KILL, which ends all that the task has started. An archive of the logs.
host_stop() { # SECONDS
  local pid
  cd "$dir" 2>/dev/null && [ -d "$state" ] || return 0
  pid=$(cat "$state/pid" 2>/dev/null)
  if runs && [ -n "$learner_port" ]; then
    [ -f "$state/told" ] || { kill -TERM "$pid" && : >"$state/told"; } || return
    until gone; do sleep 0.1; done
  elif runs; then
    kill -TERM "$pid"
    until_so "$1" gone || kill -TERM "$pid"
    until_so 5 gone || kill -KILL "$pid"
    until_so 5 gone || complain "process $pid does not end" || return
  fi
  tar -C "$state" -cz --exclude=./pid --exclude=./lock --exclude=./credentials .
}
host_remove() {
  cd "$dir" && rm -rf "${state:?}" && { rmdir -p "${state%/*}" 2>/dev/null || true; }
}
