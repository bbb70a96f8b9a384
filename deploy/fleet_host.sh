# One host's part of a fleet. deploy/fleet.sh sends this file through the launcher (ssh) to the bash
# of the host, after the values that it needs:
#   host      its name, as the user wrote it
#   base      folder of the fleet on the host: run folders, state, and the programs
#   program   folder that holds build/task; relative to base, or absolute
#   state     folder of this host in this fleet, relative to base: pid, task.log, logs/actor-<i>.log
#   tf_config, words   the task's environment and arguments
#   port      where the learner listens, on its own host; else empty
#   token, tls_ca, tls_cert, tls_key   texts for host_start and host_rotate; empty: there are none
# Every function says what is wrong on stderr and returns 1; other codes are the launcher's.
# shellcheck shell=bash disable=SC2154
export LC_ALL=C.UTF-8
# The environment may have variables of these names; then they would be exported.
export -n token tls_ca tls_cert tls_key
credentials=$state/credentials

complain() {
  echo "$*" >&2
  return 1
}

enter() {
  mkdir -p "$base/$state" 2>/dev/null || complain "cannot make the folder $base/$state" || return
  cd "$base" || return 1
  base=$PWD
}

# False where this fleet has never been.
return_to_base() { [ -d "$base/$state" ] && cd "$base" && base=$PWD; }

# ---- the process of the task: its number may be another's by now, its start time is not

# Prints state and start time of a process.
process() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return
  read -ra stat <<<"${stat##*) }"
  echo "${stat[0]} ${stat[19]}"
}

boot() { cat /proc/sys/kernel/random/boot_id; }

# Whether the task runs; its process id is in $pid.
runs() {
  local started booted now
  { read -r pid started booted <"$base/$state/pid"; } 2>/dev/null || return
  [ "$booted" = "$(boot)" ] || return
  now=$(process "$pid")
  [ "${now#* }" = "$started" ] && [ "${now%% *}" != Z ]
}

# Prints the process ids of what the task has started.
children() {
  local ids=
  runs && { read -r ids <"/proc/$pid/task/$pid/children"; } 2>/dev/null
  printf '%s\n' $ids
}

# Prints how many of them are called so.
count() {
  local child program number=0
  for child in $(children); do
    { IFS= read -r -d '' program <"/proc/$child/cmdline"; } 2>/dev/null
    [ "${program##*/}" = "$1" ] && number=$((number + 1))
  done
  echo $number
}

# until_so SECONDS COMMAND...
until_so() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -ge $end ] && return 1
    sleep 0.1
  done
}

# ---- start

# Whether the programs can run here and take the words.
host_check() {
  enter || return
  [ -x "$program/build/task" ] ||
    complain "there is no $program/build/task under $base: build it there, share the folder," \
      "name another with --dir=FOLDER, or use --copy" || return
  local error
  if ! error=$("$program/build/actor" --help 2>&1 >/dev/null); then
    case "$error" in
      *"shared librar"* | *GLIBC*)
        complain "${error%%$'\n'*}: this host has not the libraries that the programs need;" \
          "on Debian scripts/setup.sh installs them, elsewhere use --copy"
        ;;
      *) complain "$program/build/actor does not run: $error" ;;
    esac
    return
  fi
  if runs && [ -z "$resume" ]; then
    complain "this fleet runs here already: stop it first, or --resume to start what is missing"
    return
  fi
  TF_CONFIG=$tf_config "$program/build/task" "${words[@]}" --dry_run >/dev/null
}

# Each in a file that its owner alone may read. Files that are there are replaced at once, and read
# again by what runs.
write_credentials() {
  [ -n "$token" ] || return 0
  (
    umask 077
    mkdir -p "$credentials" && cd "$credentials" || exit
    local name
    for name in token tls_ca tls_cert tls_key; do
      printf '%s\n' "${!name}" >"$name.new" || exit
    done
    for name in token tls_ca tls_cert tls_key; do mv "$name.new" "$name" || exit; done
  ) || complain "cannot write the folder $base/$credentials"
}

# Prints the flags for them, a line each.
credential_words() {
  [ -f "$credentials/token" ] || return 0
  local name
  for name in tls_ca tls_cert tls_key; do echo "--$name=$base/$credentials/$name"; done
  echo "--token_file=$base/$credentials/token"
}

# Asked of the kernel: a connection that only looks is a failed TLS handshake in the learner's log.
listens() {
  grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$port") [0-9A-F]+:0000 0A " /proc/net/tcp{,6}
}
is_up() { ! runs || listens; }

host_start() {
  enter && write_credentials || return
  if runs; then
    echo "runs already"
    return
  fi
  local first_line=1 secured=()
  [ -n "$token" ] || rm -rf "$credentials" # those of an earlier fleet
  mapfile -t secured < <(credential_words)
  [ -f "$state/task.log" ] && first_line=$(($(wc -l <"$state/task.log") + 1))
  TF_CONFIG=$tf_config setsid nohup "$program/build/task" "${words[@]}" "${secured[@]}" \
    --log_folder="$base/$state/logs" </dev/null >>"$state/task.log" 2>&1 &
  local now
  now=$(process $!)
  echo "$! ${now#* } $(boot)" >"$state/pid"
  if [ -n "$port" ]; then until_so 60 is_up; else sleep 0.3; fi
  # A short run may be over by now; its last actors have ended with it.
  runs || wait "$!" && return
  tail -n "+$first_line" "$state/task.log" | tail -n 10 >&2
  return 1
}

# ---- rotate: what runs reads its files again

host_rotate() {
  [ -f "$base/$credentials/token" ] ||
    complain "no credentials of this fleet are under $base/$credentials" || return
  enter && write_credentials
}

# ---- copy: the archive follows on stdin

host_has_copy() { [ -x "$base/$program/build/task" ]; }

host_copy() {
  mkdir -p "$base" || return 1
  local fresh
  fresh=$(mktemp -d "$base/.copy-XXXXXX") || return 1
  if tar -xz -C "$fresh" && chmod 755 "$fresh"; then
    # Somebody else may have been faster, where several hosts share the folder.
    mv -T "$fresh" "$base/$program" 2>/dev/null
  fi
  rm -rf "$fresh"
  host_has_copy || complain "the programs could not be copied to $base/$program"
}

# ---- status: one line "STATE LEARNERS ACTORS RESTARTS GIVEN_UP"; then the learner's figures

# What it says of itself, if it can be asked; its last words; the result, once there is one.
figures() {
  local log=$1
  if [ -n "$port" ] && runs && [ -x "$program/build/status" ]; then
    local secured=()
    mapfile -t secured < <(credential_words)
    timeout 5 "$program/build/status" "127.0.0.1:$port" "${secured[@]}" </dev/null 2>/dev/null &&
      return
  fi
  grep -E '^result |learner: .* steps .* environments' "$log" 2>/dev/null | tail -n 1
}

host_status() {
  if ! return_to_base; then
    echo "none 0 0 0 0"
    return
  fi
  local what=ended log=$state/task.log
  runs && what=running
  echo "$what $(count learner) $(count actor) $(grep -c 'starting it again' "$log" 2>/dev/null)" \
    "$(grep -cE 'deaths within|has found no learner' "$log" 2>/dev/null)"
  figures "$log"
  return 0
}

# An archive of the host's logs on stdout.
host_logs() {
  return_to_base || return 0
  cd "$state" && tar -cz --exclude=pid --exclude=credentials .
}

# ---- stop

gone() { ! runs; }

# As one asks a run: in order; then at once; then without asking.
host_stop() {
  return_to_base && runs || return 0
  local patience=$1 ids
  ids="$pid $(children)"
  kill -TERM "$pid"
  until_so "$patience" gone && return
  kill -TERM "$pid" 2>/dev/null
  until_so 5 gone && return
  kill -KILL $ids 2>/dev/null
  until_so 5 gone || complain "process $pid does not end"
}

host_remove() {
  return_to_base || return 0
  runs && complain "the task still runs" && return
  rm -rf "${state:?}"
  rmdir -p "${state%/*}" 2>/dev/null
  return 0
}
