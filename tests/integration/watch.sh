#!/usr/bin/env bash
# scripts/watch.sh: what it records, that it plays as evaluation does, and what is said where
# something is missing or wrong.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
watch=$tree/scripts/watch.sh

# call COMMAND...: its output in out and err, its exit code in $code.
call() {
  code=0
  "$@" >out 2>err </dev/null || code=$?
}
fails() { [ "$code" -ne 0 ] && says "$1"; }

run catch vtrace 1 8 --total_steps=3000 --batch_size=4 --logdir=catch
ended
run cartpole vtrace 1 8 --total_steps=20k --logdir=cartpole
ended
run tmaze vtrace 1 8 --total_steps=3000 --batch_size=4 --env_args='{"length": 4}' --logdir=tmaze
ended
# What it has learned may be little, but it must look at what it sees.
run catch vtrace 1 8 --env_args='{"size": 40}' --network=nature --total_steps=6000 --batch_size=4 \
  --learning_rate=0.003 --entropy_cost=0 --logdir=stacked
ended
# Nothing is trained, so that random actions are not the best ones.
run cartpole dqn 1 8 --total_steps=3000 --replay_min_steps=1e4 --replay_steps=2e4 \
  --exploration=linear --epsilon_start=0.5 --eval_epsilon=0.2 --logdir=values
ended
echo 'lambda = 0.9' >>values/config.txt # of another algorithm, as presets once wrote it
run tmaze r2d2 1 8 --total_steps=3000 --env_args='{"length": 4}' --replay_min_steps=500 \
  --replay_steps=2e4 --dueling --atoms=11 --value_rescaling=0 --logdir=memory
ended
run synthetic vtrace 1 4 --total_steps=2000 --batch_size=4 --logdir=blind
ended

# ---- it plays as evaluation with one environment does: networks with memory, stacked frames, drawn
# actions. The pictures go nowhere.
pass_if "greedy play is that of evaluation" as_evaluated cartpole greedy 4
pass_if "so are drawn actions" as_evaluated cartpole sample 4
pass_if "with an LSTM" as_evaluated tmaze sample 40
pass_if "with stacked frames" as_evaluated stacked sample 40
pass_if "with values of actions, greedily but for --eval_epsilon" as_evaluated values greedy 10
pass_if "and as random as in training" as_evaluated values sample 10
pass_if "with distributions of them, advantages and an LSTM" as_evaluated memory sample 20
"$tree/build/watch" catch --hold=3 2>err >pictures
# 9 steps, the end three times; each "P6", 720 x 680.
pictures() {
  is "$(head -n 2 pictures | tr '\n' ' ')" "P6 720 680 " &&
    is "$(stat -c %s pictures)" $((12 * (15 + 720 * 680 * 3)))
}
pass_if "a picture for each step, and the end for as long as asked" pictures
"$tree/build/watch" cartpole --max_steps=3 --episodes=2 2>err >pictures
short() { is "$(grep -c 'in 3 steps, not to its end (--max_steps)' err)" 2; }
pass_if "an episode is shown no longer than asked" short

# ---- recordings
# about FILE: codec, width and height, number of pictures.
about() {
  ffprobe -v error -count_frames -show_entries stream=codec_name,width,height,nb_read_frames \
    -of csv=p=0 "$1"
}
if command -v ffmpeg >/dev/null; then
  if [ -n "${SLOW_TESTS:-}" ]; then
    run synthetic vtrace 1 4 --total_steps=200 --batch_size=2 --logdir=endless \
      --env_args='{"rows": 40, "columns": 40, "episode_steps": 1000000000}'
    ended
    call timeout 300 "$watch" endless --fps=1
    ten_minutes() {
      is "$code" 0 && says "in 600 steps, not to its end (--max_steps)" &&
        is "$(about endless/play.mp4 | sed 's/.*,//')" 601
    }
    pass_if "an episode that does not end is shown for ten minutes of a video" ten_minutes
  fi
  call "$watch" catch
  recorded() { is "$code" 0 && says "recorded: catch/play.mp4"; }
  pass_if "it records into the run folder" recorded
  pass_if "a video of all that was seen" is "$(about catch/play.mp4)" "h264,720,680,13"
  call "$watch" "$(newest_checkpoint catch)" --out="two episodes.gif" \
    --episodes=2 --fps=5 --sampled --seed=3
  pass_if "a GIF of a checkpoint file" is "$(about "two episodes.gif")" "gif,720,680,28"
  # The ball falls: the brightest of its colour is lower in a later picture.
  ball() {
    ffmpeg -v error -i catch/play.mp4 -vf "select=eq(n\,$1),crop=320:640:20:20,scale=5:10" \
      -frames:v 1 -f rawvideo -pix_fmt rgb24 - | od -An -v -tu1 -w15 |
      awk '{for (i = 1; i < 15; i += 3) if ($i > 180) print NR - 1}'
  }
  falls() { is "$(ball 2)" 2 && is "$(ball 6)" 6; }
  pass_if "in which the ball falls" falls
  rm catch/play.mp4
  mkdir folder.mp4
  call "$watch" catch --out=folder.mp4/x/play.gif
  pass_if "a folder that is not there is refused" fails "there is no folder folder.mp4/x"
  # A bound on the size of files stands for a full disk.
  code=0
  (
    trap '' XFSZ
    ulimit -f 4
    "$watch" catch --out=full.mp4 >out 2>err
  ) || code=$?
  full() { [ "$code" -ne 0 ] && says "ffmpeg could not make full.mp4" && ! ls full* 2>/dev/null; }
  pass_if "a full disk is said, and half a video is not left" full
else
  echo "SKIP recordings: there is no ffmpeg here (scripts/setup.sh watch)"
fi

# ---- what is missing or wrong
# A machine that has no ffmpeg and cannot have it: all programs but that, and a broken apt-get.
mkdir bin
ln -s /usr/bin/* /usr/local/bin/* bin/ 2>/dev/null
ln -sf "$(command -v gcc)" bin/gcc
rm -f bin/ffmpeg bin/apt-get bin/dpkg-query bin/sudo
printf '#!/bin/sh\necho no network; exit 100\n' >bin/apt-get
printf '#!/bin/sh\n/usr/bin/dpkg-query "$@" | grep -v ffmpeg\n' >bin/dpkg-query
chmod +x bin/apt-get bin/dpkg-query
call env PATH="$work/bin" "$watch" catch --out=bare.mp4
without_ffmpeg() {
  is "$code" 1 && says "ffmpeg is missing" && says "apt-get install ffmpeg" &&
    ! says "playing the checkpoint" && [ ! -e bare.mp4 ]
}
pass_if "without ffmpeg it says what to install, before it plays" without_ffmpeg

# The rest is said by build/watch; a program of ffmpeg's name is enough.
command -v ffmpeg >/dev/null || {
  mkdir fake && printf '#!/bin/sh\ncat >/dev/null\n' >fake/ffmpeg && chmod +x fake/ffmpeg
  PATH=$work/fake:$PATH
}
call "$watch" blind --out=blind.mp4
blind() { fails "environment synthetic cannot be watched" && [ ! -e blind.mp4 ]; }
pass_if "an environment without a picture is named" blind
mkdir -p empty/checkpoints && cp catch/config.txt empty/
call "$watch" empty
pass_if "a run without a checkpoint is an error" fails "there is no checkpoint in empty/checkpoints"
call "$watch" nowhere
pass_if "so is a folder without a run" fails "nowhere is no run folder"
call "$tree/build/watch" nowhere
pass_if "and by the program" fails "nowhere holds no run: there is no config.txt"
call "$watch" catch --out=play.avi
pass_if "and what is neither .mp4 nor .gif" fails "--out=play.avi: it records .mp4 and .gif"
call "$watch" catch --outt=x.mp4
pass_if "and an option that does not exist" fails "--outt=x.mp4 is no option"
call "$watch" catch --fps=0
pass_if "and no steps in a second" fails "--fps=0: a whole number from 1 to 99"
call "$watch" catch --episodes=0
pass_if "and no episodes" fails "--episodes: '0' is out of range"
call "$watch" catch --env_args='{"rows": 12}'
pass_if "a network that does not fit is refused" fails "params/"
mkdir joined && cp -r catch/* joined/ && sed -i 's/^env = .*/env = join/' joined/config.txt
call "$watch" joined
pass_if "a run of an actor's environment asks where it is" fails "say where it is here, --env="
call "$watch"
pass_if "without a word it prints its help" is "$code" 2
"$tree/build/watch" catch 2>err | head -c 100 >/dev/null
pass_if "a reader that goes away is no crash" says "nobody reads the pictures any more"

# ---- environments in Python
. "$tree/scripts/lib.sh"
if build gymnasium >err 2>&1 && "$tree/.venv/bin/python" -c 'import ale_py, gymnasium' 2>err; then
  run atari vtrace 1 2 --game=Breakout --total_steps=60 --batch_size=2 --unroll_length=5 \
    --logdir=atari
  ended
  "$tree/build/watch" atari --max_steps=5 2>err >pictures
  # 160 x 210 three times as large, and the panel.
  atari() { is "$(head -n 2 pictures | tail -n 1)" "880 670" && says "return 0 in 5 steps"; }
  pass_if "the Atari shows its own screen" atari
  run gym:CartPole-v1 vtrace 1 2 --total_steps=600 --batch_size=2 --logdir=gym
  ended
  pass_if "Gymnasium's play is that of evaluation" as_evaluated gym sample 4
  "$tree/build/watch" gym --max_steps=5 2>err >pictures
  pass_if "and shows its picture" is "$(head -n 2 pictures | tail -n 1)" "1000 440"
  export PYTHONPATH=$tree/tests/integration/gymnasium
  run gym:zoo:Wrong-v0 vtrace 1 2 --env_args='{"what": ""}' --total_steps=600 --batch_size=2 \
    --logdir=wrong
  ended
  "$tree/build/watch" wrong >pictures 2>err
  pass_if "one without render is named" says "environment gym-zoo-Wrong-v0 cannot be watched"
else
  echo "SKIP environments in Python: there is no Gymnasium here (scripts/setup.sh gym)"
fi
finish
