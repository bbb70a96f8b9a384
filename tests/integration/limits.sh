#!/usr/bin/env bash
# Limits of the system (ulimit): each is named where it stands in the way, and nothing waits for
# ever or dies of a signal.
. "$(dirname "$0")/lib.sh"

# ---- ulimit -f, the size of files: a failed write like any other

# limited COMMAND...: with files of 1 KiB at most; what it prints goes to err, through a pipe.
limited() {
  (
    ulimit -f 1
    exec "$@"
  ) 2>&1 </dev/null | cat >"$work/err"
  code=${PIPESTATUS[0]}
}
limited "$tree/run_local.sh" cartpole vtrace 2 8 --total_steps=30k --metrics_secs=0.05 \
  --logdir=limited
each_is_named() {
  says "cannot write limited/config.txt: File too large" &&
    says "cannot write limited/metrics.jsonl: File too large" &&
    says "cannot be written: File too large; raise the limit of file sizes (ulimit -f)"
}
pass_if "files that reach the limit of their size are each named with the reason" each_is_named
to_its_end() { is $code 1 && says "result env=cartpole" && says "reason=total_steps"; }
pass_if "the run goes on to its end, with exit code 1 for its last checkpoint" to_its_end
run cartpole vtrace 2 8 --total_steps=30k --logdir=usual --metrics_secs=0.05
ended
limited "$tree/build/checkpoint" usual --npz=limited.npz
no_export() { is $code 1 && says "limited.npz cannot be written: File too large"; }
pass_if "so is an export" no_export
pass_if "of which no half is left" eval '! ls limited.npz* >/dev/null 2>&1'
limited sh -c "$tree/build/curves usual --title='$(printf '%1024s' x)' >script"
no_curve() { is $code 1 && says "plot: cannot write to stdout: File too large"; }
pass_if "and a plot" no_curve

finish
