#!/usr/bin/env bash
# --checkpoint_replay: runs that are resumed with the replay that was saved with their checkpoint,
# to the same bits each time; that are saved while they go on, and killed at any time; and files
# that are damaged, missing, of another checkpoint, of other sizes, or with values that nothing may
# be trained on.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# play FOLDER WORDS...: a run with its one actor.
play() {
  learner --env=cartpole --agent=dqn --num_envs=4 --logdir="$1" --checkpoint_replay \
    --replay_steps=20k --replay_min_steps=1k --metrics_secs=0.25 "${@:2}"
  actor 0 --env=cartpole --envs=4 --streams=1
}
# to_end FOLDER WORDS...: until it ends by itself, the same each time.
to_end() {
  play "$@" --deterministic --checkpoint_secs=0
  ended
  end_by_hand
}
crash() {
  killed "$run"
  end_by_hand
}
checkpoints() { find "$1/checkpoints" -name 'checkpoint-*.acorn' 2>/dev/null | sort; }
replays() { find "$1/checkpoints" -name 'replay*' 2>/dev/null | sort; }
number_of() { echo $((10#$(basename "$1" .acorn | cut -d- -f2))); }
newest() { checkpoints "$1" | tail -n 1; }
one_replay() {
  is "$(replays "$1")" "$1/checkpoints/replay-$(basename "$(newest "$1")" | cut -d- -f2)"
}
same_end() {
  cmp -s "$(newest "$1")" "$(newest "$2")" && cmp -s "$(replays "$1")" "$(replays "$2")"
}
of_newest() { says "the replay of update $(number_of "$(newest "$1")") is $2: "; }

# ---- the same bits

to_end a --total_steps=6000
saved() { is "$code" 0 && one_replay a && of_newest a saved; }
pass_if "the replay is saved with the last checkpoint, and nothing else of it is there" saved
cp -r a b
cp -r a c
cp -r a finished
to_end a --total_steps=12000 --resume
was_restored() { is "$code" 0 && of_newest finished restored; }
pass_if "a resumed run begins with it" was_restored
to_end b --total_steps=12000 --resume
pass_if "twice resumed, it ends with the same checkpoint and replay, to the bit" same_end a b
pass_if "and with those alone" one_replay b
rm c/checkpoints/replay*
to_end c --total_steps=12000 --resume
no_replay() {
  says "no replay was saved with the checkpoint of update" && says "goes on with an empty one"
}
pass_if "without its file it begins with an empty replay and says so" no_replay
pass_if "and learns something else" eval '! cmp -s "$(newest a)" "$(newest c)"'

cp -r finished before
to_end finished --total_steps=6000 --resume
as_it_was() {
  is "$code" 0 && cmp -s "$(replays finished)" "$(replays before)" && one_replay finished
}
pass_if "a finished run leaves its replay as it is" as_it_was
to_end finished --total_steps=7000 --resume
goes_on_with_it() { is "$code" 0 && says "is restored"; }
pass_if "so that it can still be continued with it" goes_on_with_it

# A budget bounds the replay of a run, but not below what was saved.
play shorter --replay_steps=1M --total_steps=1e9 --checkpoint_secs=0.5
wait_for 20 metric_passes train/updates 100 shorter
kill -TERM "$run"
ended 20
end_by_hand
steps=$(value steps)
to_end shorter --replay_steps=1M --total_steps=$((steps + 500)) --resume
pass_if "a run that is resumed with a smaller budget has its replay" goes_on_with_it
to_end brief --replay_steps=1M --total_steps=20k
to_end brief --replay_steps=1M --total_steps=24k --resume
bounded() {
  says "replay: 30000 steps instead of --replay_steps=1000000" && goes_on_with_it
}
pass_if "which is no larger than its steps, or than the one that was saved" bounded

# Steps go on while a replay is written, whose pages they take: nothing depends on when.
often() {
  play "$@" --deterministic --total_steps=14000 --replay_steps=8k
  ended
  end_by_hand
}
often seldom --checkpoint_secs=0
often again --checkpoint_secs=0.02
saves() { grep -c "is saved: " "$work/err"; }
pass_if "a run that is saved again and again while it goes on" eval '[ "$(saves)" -gt 1 ]'
pass_if "ends as one that is saved once, to the bit" same_end seldom again

# On a device whose memory the host cannot read: as on ref.
make -s -C "$tree" build/tests/libguarded.so >make.log 2>&1 || cat make.log
export ACORN_CUDA_PLUGIN=$tree/build/tests/libguarded.so
for device in ref guarded; do
  to_end $device --device="${device/guarded/cuda}" --total_steps=3000
  to_end $device --device="${device/guarded/cuda}" --total_steps=4500 --resume
  pass_if "on $device it is restored" eval 'is "$code" 0 && says "is restored"'
done
same_replay() { cmp -s "$(replays ref)" "$(replays guarded)"; }
pass_if "both end with the same replay" same_replay

# ---- killed at any time

play killed --total_steps=1e9 --checkpoint_secs=0.1
wait_for 20 eval '[ -n "$(newest killed)" ]'
for round in $(seq "${ROUNDS:-3}"); do
  sleep 0.$((RANDOM % 5 + 1))
  crash
  count=$(number_of "$(newest killed)")
  play killed --total_steps=1e9 --checkpoint_secs=0.1 --resume
  wait_for 10 says "run folder"
  pass_if "kill $round: the newest checkpoint has its replay" \
    says "the replay of update $count is restored: "
  newer() { [ "$(number_of "$(newest killed)")" -gt "$count" ]; }
  pass_if "kill $round: the run goes on" wait_for 20 newer
done
kill -INT "$run"
ended 10
stopped() { is "$code" 130 && one_replay killed; }
pass_if "after Ctrl-C there is one replay, that of the last checkpoint" stopped
end_by_hand

# ---- what cannot be used is named, and the run goes on

# goes_on_empty WORDS...: the run in `killed` is resumed with these words, and its log has $reason.
goes_on_empty() {
  play killed --total_steps=1e9 --checkpoint_secs=0.3 --resume "$@"
  wait_for 10 says "run folder"
  says "$reason" && says "empty" && wait_for 20 says "is saved: "
}
again() {
  kill -INT "$run"
  ended 10
  end_by_hand
  one_replay killed
}
reason="is damaged: bytes 0 to"
file=$(replays killed)
byte=$(od -An -tu1 -j5000 -N1 "$file")
printf "%b" "\\x$(printf %x $((byte ^ 16)))" | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
pass_if "one bit that is wrong" goes_on_empty
pass_if "the next checkpoint has a replay again" again
truncate -s 70000 "$(replays killed)"
reason="is damaged: "
pass_if "a file that is cut short" goes_on_empty
pass_if "the next checkpoint has a replay again" again
truncate -s 0 "$(replays killed)"
reason="is damaged: it is cut short at byte 0"
pass_if "an empty file" goes_on_empty
pass_if "the next checkpoint has a replay again" again
file=$(replays killed)
rm "$file" && mkfifo "$file"
reason="is damaged: it is no regular file"
pass_if "a FIFO" goes_on_empty
pass_if "the next checkpoint has a replay again" again
# spoil FILE VALUE: puts the value into the first records of steps that have reward 1 and no flags,
# and the right checksums behind it all: "reward" NaN, "action" 7 of 2, or "flags" that none has.
spoil() {
  python3 - "$@" <<'EOF'
import re, struct, sys
path, value = sys.argv[1:]
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)
def extend(crc, data):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF
data, block = open(path, "rb").read(), 1 << 20
content = b"".join(data[i:i + block + 4][:-4] for i in range(0, len(data), block + 4))
spoilt = {"reward": lambda m: struct.pack("<fI", float("nan"), 0) + m[1] + m[2],
          "flags": lambda m: struct.pack("<fI", 1, 6) + m[1] + m[2],
          "action": lambda m: struct.pack("<fI", 1, 0) + m[1] + struct.pack("<i", 7)}[value]
record = re.compile(re.escape(struct.pack("<fI", 1, 0)) + b"(.{8})([\\0\\1]\\0\\0\\0)", re.S)
content, count = record.subn(spoilt, content, 5)
assert count == 5
crc, out = 0, b""
for i in range(0, len(content), block):
    crc = extend(crc, content[i:i + block])
    out += content[i:i + block] + struct.pack("<I", crc)
open(path, "wb").write(out)
EOF
}
for value in reward action flags; do
  pass_if "a file can be given another $value" spoil "$(replays killed)" $value
  reason="is damaged: a step in it has $value"
  pass_if "which is named, and nothing is trained on it" goes_on_empty
  pass_if "the next checkpoint has a replay again" again
done
reason="does not fit: the replay had"
pass_if "a smaller replay" goes_on_empty --replay_steps=8k
pass_if "the next checkpoint has a replay again" again
reason="--priority_exponent=0.3 here, and its priorities are of"
pass_if "another exponent of priorities" goes_on_empty --priority_exponent=0.3
pass_if "the next checkpoint has a replay again" again
truncate -s 1000 "$(newest killed)"
reason="the saved replay is of update $(number_of "$(newest killed)"), and the checkpoint of update"
pass_if "a replay of another checkpoint" goes_on_empty
pass_if "the next checkpoint has a replay again" again

# What could not be used stays until something has been trained.
cp -r killed before-other
learner --logdir=killed --resume --replay_steps=8k
wait_for 10 says "run folder"
pass_if "a replay that does not fit" says "does not fit: the replay had"
kill -INT "$run"
ended 10
pass_if "is left as it is by a run that trains nothing" \
  cmp -s "$(replays killed)" "$(replays before-other)"
finish
