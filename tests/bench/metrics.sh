#!/usr/bin/env bash
# What seeing costs: CartPole, 4 actors x 64 environments, steps/s with all metrics on (event files,
# metrics.jsonl, episodes.csv, the Prometheus page scraped every second) over all metrics off. Pairs
# of runs one after the other, each pair in the other order than the one before; the median of their
# ratios.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
pairs=${1:-11}
steps=${2:-30M}

# Asks for the page every second, as Prometheus does, until it is ended; counts the pages.
scrape_every_second() {
  while sleep 1; do
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || continue
    printf 'GET /metrics HTTP/1.1\r\n\r\n' >&3
    grep -q '^acorn_train_env_steps_total' <&3 && echo page
    exec 3>&-
  done
}

# measure on|off: a run; its steps per second.
measure() {
  local flags=(--metrics_secs=0 --no_tensorboard) scraper='' port
  rm -rf "$work/run"
  if [ "$1" = on ]; then
    port=$((10000 + RANDOM % 20000))
    flags=(--metrics_port="$port")
    scrape_every_second "$port" >>"$work/pages" &
    scraper=$!
  fi
  build/launch cartpole vtrace 4 64 --total_steps="$steps" --seed=1 --logdir="$work/run" \
    "${flags[@]}" >"$work/out" 2>"$work/err"
  if [ -n "$scraper" ]; then
    kill $scraper
    wait $scraper 2>/dev/null
    [ -n "$(ls "$work"/run/events.out.tfevents.* 2>/dev/null)" ] || echo "no event file" >&2
    [ "$(wc -l <"$work/run/episodes.csv")" -gt 100 ] || echo "no episodes.csv" >&2
  fi
  tail -n 1 "$work/out" | value sps
}

for ((pair = 1; pair <= pairs; pair++)); do
  order=(on off)
  [ $((pair % 2)) -eq 0 ] && order=(off on)
  for state in "${order[@]}"; do
    rate=$(measure $state)
    [ -n "$rate" ] || { cat "$work/err" && exit 1; }
    echo "$rate" >>"$work/$state"
    declare "rate_$state=$rate"
  done
  ratio "$rate_on" "$rate_off" >>"$work/ratios"
  echo "pair $pair: on $rate_on, off $rate_off, ratio $(tail -n 1 "$work/ratios")"
done
echo "medians: on $(median <"$work/on"), off $(median <"$work/off") steps/s;" \
  "$(wc -l <"$work/pages") pages scraped"
echo "machine: $(machine)"
row "CartPole 4 x 64, steps/s with all metrics, episodes.csv among them, over none" \
  "$(median <"$work/ratios")" ">= 0.97"
