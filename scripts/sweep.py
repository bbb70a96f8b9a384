#!/usr/bin/env python3
"""Trains with several seeds; or tries values of options, every combination of them or random ones,
each with several seeds. Sums the runs up in a table and a plot.

Usage: scripts/sweep.py ENV AGENT [--seeds=1..5] [--flag=a,b,c ...] [--trials=N] [--draw_seed=1]
       [--jobs=N] [--actors=4] [--envs_per_actor=N] [--dir=FOLDER]

  --flag       any option of ./run_local.sh. One value: all runs have it. Several, separated by
               commas or by giving the option again: they are tried. A value of --hidden or
               --wrapper, and one that begins with { or [ (JSON), has commas of its own and is
               never split: --hidden=64,64 --hidden=256,256
  --seeds      3: the seeds 1, 2 and 3; or 1..3, or 1,2,7; default: 1
  --trials     so many random combinations instead of all. Then LOW..HIGH is a range, too:
               drawn log-uniformly, and rounded where both are whole numbers
  --draw_seed  of these draws: the same ones each time it is started; more --trials add to them
  --jobs       so many runs at a time; default: as many as there are cores for, each taking one
               for its learner and one for each of its actors; of seeds alone: 1
  --dir        default: runs/ENV-AGENT-sweep; the runs are FOLDER/flag=a,other=x/seed-1, ...;
               of seeds alone: runs/ENV-AGENT-seeds, and FOLDER/seed-1, ...

The options are checked before anything runs. Of seeds alone the table has a row for each, and the
mean with its 95 % confidence interval (Student's t). Of values it has a row for each combination,
the best first: that with the highest mean return; with --target_return that which reached it with
the most seeds, then in the fewest steps, or where none did with the highest mean return. sweep.csv
has a row for each run, the plot has the best five combinations, and the last line is the command
that trains the best again.
Started again it goes on where it was, also with other values or seeds: a run that has finished is
not run again, one that was stopped is resumed. Exit code 0: all have finished; 3: some missed
--target_return; 1: some failed; 2: wrong options; 130: stopped.
"""
import csv
import fcntl
import hashlib
import itertools
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLOTTED = 5  # combinations in the plot
WHOLE = "hidden", "wrapper"  # options whose values have commas of their own
LARGEST_SEED = 9000000000000000  # --seed's
RANGE = re.compile(r"({0})\.\.({0})".format(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"))


def say(text):
    print(text, file=sys.stderr, flush=True)


def require(condition, text):
    if not condition:
        say(f"sweep.py: {text}")
        sys.exit(2)


def output_of(program, text):
    return subprocess.run(program, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""


def read_words(words, own):
    """Words without --, and {name: values} of options, {--name: []} of a switch. Values of those
    that `own` has go there."""
    plain, options = [], {}
    for word in words:
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if word in ("--help", "-h"):
            sys.exit(print(__doc__.strip()))
        if not word.startswith("--"):
            plain.append(word)
        elif not equals:
            options[word] = []
        else:
            require(name, f"{word}: there is no name")
            require(value, f"{word}: there is no value")
            require(name not in ("seed", "logdir", "job_dir"),
                    f"{word} cannot be given: each run has its own")
            is_whole = name in own or name in WHOLE or value[0] in "{["
            values = [value] if is_whole else value.split(",")
            require("" not in values, f"{word}: there is nothing before or after a comma")
            if name in own:
                own[name] = value
            else:
                options[name] = list(dict.fromkeys(options.get(name, []) + values))
    return plain, options


def read_seeds(text):
    numbers = [min(int(number), LARGEST_SEED + 1) for number in re.findall("[0-9]+", text)]
    seeds = []
    if re.fullmatch(r"[0-9]+\.\.[0-9]+|[1-9][0-9]*", text):
        seeds = range(numbers[0] if ".." in text else 1, numbers[-1] + 1)
    elif re.fullmatch("[0-9]+(,[0-9]+)*", text):
        seeds = sorted(set(numbers))
    require(0 < len(seeds) <= 1000 and seeds[-1] <= LARGEST_SEED, f"--seeds={text}: seeds are from "
            f"0 to {LARGEST_SEED}, written 1..5 or 1,2,7, at most 1000")
    return seeds


def ends_of(value):
    """Both of a range; another value alone."""
    found = RANGE.fullmatch(value)
    return found.groups() if found else (value,)


def is_swept(name, values, trials):
    ranges = [found for found in map(RANGE.fullmatch, values) if found]
    for text, low, high in ((found[0], float(found[1]), float(found[2])) for found in ranges):
        require(trials, f"--{name}={text}: a range needs --trials=N, how many values to draw")
        require(0 < low < high, f"--{name}={text}: a range goes from a number above 0 to a larger "
                "one")
    return ranges or len(values) > 1


def draw_value(words, values):
    """The same for the same words."""
    digest = hashlib.sha256(os.fsencode(words)).hexdigest()
    low, *high = ends_of(values[int(digest[:8], 16) % len(values)])
    if not high:
        return low
    share = int(digest[8:16], 16) / 2 ** 32
    drawn = float(low) * math.exp(share * math.log(float(high[0]) / float(low)))
    whole = float(low).is_integer() and float(high[0]).is_integer()
    return f"{drawn:.0f}" if whole else f"{drawn:.3g}"


def combine(swept, trials, draw_seed):
    """Tuples of values; of all combinations the first option changes slowest."""
    if not trials:
        require(math.prod(map(len, swept.values())) <= 1000,
                "more than 1000 combinations: --trials=N tries N of them")
        return list(itertools.product(*swept.values()))
    drawn = [tuple(draw_value(f"{draw_seed} {trial} {name}", swept[name]) for name in swept)
             for trial in range(1, int(trials) + 1)]
    if len(set(drawn)) < len(drawn):
        say(f"sweep.py: of {trials} trials {len(set(drawn))} are different")
    return list(dict.fromkeys(drawn))


# ---- processes, which a signal stops

running, signals = set(), []  # their ids; those that have come


def stop(signum, frame):
    signals.append(signum)
    for pid in list(running):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def call(command, **keywords):
    """Its exit code. Thread: any."""
    process = subprocess.Popen(command, **keywords)
    running.add(process.pid)
    if signals:  # those that came before have not reached it
        process.terminate()
    code = process.wait()
    running.remove(process.pid)
    return code if code >= 0 else 128 - code


def launch(words, folder, **keywords):
    return call([ROOT / "build/launch", *words, f"--logdir={folder}", "--no_plot"],
                stdin=subprocess.DEVNULL, **keywords)


def end_if_stopped():
    if signal.SIGINT in signals:  # ends as SIGINT ends a process: a shell ends its loop, too
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if signals:
        sys.exit(130)


def folder_of(flags):
    """"name=value,name=value". What a file name should not have is replaced, and a checksum keeps
    such names different."""
    plain = ",".join(flag[2:] for flag in flags)
    safe = re.sub("[^A-Za-z0-9.,=+_-]", "_", plain)[:120]
    if safe != plain:
        safe += "-" + output_of("cksum", "".join(f"{flag}\n" for flag in flags)).split()[0]
    return safe


class Run:
    """Values of the swept options with a seed, in a folder of their own."""

    def __init__(self, sweep, values, seed):
        flags = sweep.flags_of(values)
        self.values, self.seed, self.group = values, seed, folder_of(flags)
        self.words = [*sweep.words, *flags, f"--seed={seed}"]
        self.label = f"{self.group}/seed-{seed}" if values else f"seed {seed}"
        self.folder = sweep.folder / self.group / f"seed-{seed}"
        self.read_result()

    def read_result(self):
        """A budget or a target that has ended a run makes its result line a result."""
        figures = dict(re.findall("([^ =]+)=([^ ]*)", read(self.folder / "stdout.txt").strip()))
        code = re.search('"exit_code": ([0-9]+)', read(self.folder / "result.json"))
        ended = code and code[1], figures.get("reason")
        self.done = ended in (("0", "total_steps"), ("0", "target_return"), ("3", "total_steps"))
        self.missed = self.done and code[1] == "3"
        if self.done:
            self.count_all_starts(figures)
        self.figures = figures if self.done else {"reason": "failed"}

    def count_all_starts(self, figures):
        """The seconds of the line are those of the run's last start alone."""
        lines = read(self.folder / "metrics.jsonl").splitlines()
        seconds = re.search('"seconds": ?([0-9.e+]+)', lines[-1]) if lines else None
        if seconds and float(seconds[1]) > float(figures["seconds"]):
            figures["seconds"] = f"{float(seconds[1]):.2f}"
            figures["sps"] = f"{int(figures['steps']) / float(seconds[1]):.0f}"

    def play(self, lock):
        """In a session of its own: a terminal's Ctrl-C comes to this script alone, which passes it
        on. It inherits the lock, which lasts while it goes on."""
        if signals:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        say(f"{self.label}: runs")
        with open(self.folder / "stdout.txt", "w") as out, \
                open(self.folder / "stderr.txt", "a") as err:
            code = launch([*self.words, "--resume"], self.folder, stdout=out, stderr=err,
                          start_new_session=True, pass_fds=[lock])
        self.read_result()
        if self.done:
            say("{}: return {return_mean} after {steps} steps, {reason}".format(
                self.label, **self.figures))
        elif signals:
            say(f"{self.label}: stopped")
        else:
            say("\n".join(read(self.folder / "stderr.txt").splitlines()[-5:]))
            say(f"{self.label}: failed with exit code {code} (its last words are above)")


class Sweep:
    """What the command line asks for: `words` that start all runs, `swept` options with their
    values, and `groups` of runs that differ only in the seed."""

    def __init__(self, arguments):
        own = {"seeds": "", "trials": "", "draw_seed": "1", "jobs": "", "actors": "4",
               "envs_per_actor": "", "dir": ""}
        plain, options = read_words(arguments, own)
        require(len(plain) < 3, f"{''.join(plain[2:3])} is one word too many after ENV AGENT: "
                "options are written --name=value (see --help)")
        require(len(plain) == 2,
                "ENV AGENT are needed: cartpole vtrace --learning_rate=3e-4,1e-3 (see --help)")
        for name, more, limit in ("trials", 3, "to 9999"), ("actors", 4, "on"), ("jobs", 2, "on"):
            require(not own[name] or re.fullmatch(f"[1-9][0-9]{{0,{more}}}", own[name]),
                    f"--{name}={own[name]}: a number from 1 {limit} is needed")
        require(not (os.environ.get("ACORN_PACKAGE_PYTHON") and plain[0].startswith("gym:")),
                f"{plain[0]}: this package sweeps built-in environments and plugins alone: sweep "
                "those of Gymnasium in the source tree")
        seeds = read_seeds(own["seeds"] or "1")
        self.swept = {name: options[name] for name in options
                      if is_swept(name, options[name], own["trials"])}
        require(self.swept or own["seeds"], "no option has several values to try, and no --seeds "
                "are given: --learning_rate=3e-4,1e-3 or --seeds=1..5 (see --help)")
        self.has_target = "target_return" in options
        self.words = [*plain, own["actors"], *filter(None, [own["envs_per_actor"]])]
        self.words += [f"--{name}={options[name][0]}" if options[name] else name
                       for name in options if name not in self.swept]
        cores = len(os.sched_getaffinity(0)) if self.swept else 1
        self.jobs = int(own["jobs"] or max(1, cores // (int(own["actors"]) + 1)))
        name = f"{Path(plain[0]).name.removesuffix('.so')}-{plain[1]}"
        self.folder = Path(own["dir"] or f"runs/{name}-{'sweep' if self.swept else 'seeds'}")
        self.groups = [[Run(self, values, seed) for seed in seeds]
                       for values in combine(self.swept, own["trials"], own["draw_seed"])]
        self.runs = [run for group in self.groups for run in group]

    def flags_of(self, values):
        return [f"--{name}={value}" for name, value in zip(self.swept, values)]

    def claim_folder(self):
        """One folder holds one experiment, which the words describe that are returned."""
        words = self.words + (["sweep", *self.swept] if self.swept else [])
        held = read(self.folder / "experiment.txt").strip()
        for path in ("config.txt", "*/config.txt", "*/*/config.txt"):
            require(shlex.split(held) == words or not any(self.folder.glob(path)), f"{self.folder} "
                    f"holds runs of another experiment ({held}): choose another --dir")
        return words

    def check_values(self):
        """In runs of one step: the first values of all options, the second ones, and so on; of a
        range both ends."""
        ends = [list(itertools.chain(*map(ends_of, values))) for values in self.swept.values()]
        for i in range(max(map(len, ends), default=1)):
            flags = self.flags_of(values[i % len(values)] for values in ends)
            with tempfile.TemporaryDirectory() as work, open(f"{work}/out", "w") as out:
                code = launch([*self.words, *flags, "--total_steps=1"], f"{work}/run", stdout=out,
                              stderr=out)
                words = "\n".join(read(Path(work) / "out").splitlines()[-5:])
            end_if_stopped()
            require(code != 2, f"these options are refused; nothing was run:\n{words}")

    def play(self):
        """Returns when each run has ended."""
        words = self.claim_folder()
        code = call(["bash", "-euo", "pipefail", "-c", '. "$0"; build_for_run "$1"; offer_plot',
                     ROOT / "scripts/lib.sh", words[0]])
        end_if_stopped()
        if code != 0:
            sys.exit(code)
        if not all(run.done for run in self.runs):
            self.check_values()
        if self.swept:
            say(f"sweep.py: {len(self.groups)} configurations x {len(self.groups[0])} seeds, "
                f"{self.jobs} at a time, in {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            require(False, f"{self.folder} is in use by another sweep.py, or by runs that it left")
        (self.folder / "experiment.txt").write_text(shlex.join(words) + "\n")
        for run in self.runs:
            if run.done:
                say(f"{run.label}: has finished before")
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda run: run.done or run.play(lock), self.runs))
        end_if_stopped()

    def report(self):
        """Returns the exit code."""
        done, best = [run for run in self.runs if run.done], [self.runs]
        if self.swept:
            best = self.print_groups()
            self.write_csv()
            if done and len(best) > PLOTTED:
                say(f"sweep.py: the plot has the best {PLOTTED} of {len(best)} configurations")
        else:
            self.print_seeds(done)
        sys.stdout.flush()
        drawn = [run.folder for group in best[:PLOTTED] for run in group if run.done]
        if done and shutil.which("gnuplot"):  # of the returns that the results are over
            call([ROOT / "scripts/plot.sh", *drawn, f"--y={done[0].figures['over']}/episode_return",
                  f"--out={self.folder}/learning_curve.png"])
            end_if_stopped()
        if done and self.swept and best[0][0].figures.get("return_mean") == "nan":
            say("sweep.py: no episode has ended, so that none is the best: give more --total_steps")
        elif done and self.swept:
            script = "./run_local.sh" if Path.cwd() == ROOT else str(ROOT / "run_local.sh")
            print("the best again:", shlex.join([script, *best[0][0].words]))
        return 1 if len(done) < len(self.runs) else 3 if any(run.missed for run in done) else 0

    def print_seeds(self, done):
        line = "{:<8} {:>12} {:>10} {:>12} {:>10}  {:<6} {}".format
        keys = "steps", "seconds", "return_mean", "return_std", "over", "reason"
        print(line("seed", "steps", "seconds", "return", "std", "over", "reason"))
        for run in self.runs:
            print(line(run.seed, *(run.figures.get(key, "-") for key in keys)))
        for i, name in enumerate(("mean", "95 % low", "95 % high") if len(done) > 1 else ()):
            steps, seconds, mean = (interval(done, key)[i] for key in keys[:3])
            print(line(name, f"{steps:.0f}", f"{seconds:.2f}", f"{mean:.3f}", "", "",
                       f"({len(done)} seeds)"))

    def print_groups(self):
        """Returns them, the best first."""
        rows = sorted(map(self.row_of, self.groups), key=lambda row: row[0])
        table = [[*self.swept, "seeds", "return", "95 % low", "95 % high", "steps", "seconds",
                  "failed"], *(cells for _, cells, _ in rows)]
        widths = [max(map(len, column)) + 2 for column in zip(*table)]
        for cells in table:
            print("".join(map(str.ljust, cells, widths)).rstrip(" "))
        return [group for *_, group in rows]

    def row_of(self, group):
        """What it is sorted by, its cells, the group."""
        done = [run for run in group if run.done]
        failed = " ".join(run.folder.name for run in group if not run.done) or "-"
        if not done:
            return (math.inf, math.inf), [*group[0].values, "0", *"-----", failed], group
        mean, low, high = interval(done, "return_mean")
        steps, seconds = interval(done, "steps")[0], interval(done, "seconds")[0]
        bounds = [f"{low:.3f}", f"{high:.3f}"] if len(done) > 1 else ["-", "-"]
        reached = sum(run.figures["reason"] == "target_return" for run in done)
        # Runs that did not reach the target differ in steps by chance.
        rank = steps if reached else math.inf if math.isnan(mean) else -mean
        return (-reached, rank), [*group[0].values, str(len(done)), f"{mean:.3f}", *bounds,
                                  f"{steps:.0f}", f"{seconds:.2f}", failed], group

    def write_csv(self):
        """For pandas: a row for each run; of one that failed the figures are empty."""
        keys = "return_mean", "return_std", "steps", "seconds", "sps", "episodes", "over", "reason"
        path = self.folder / "sweep.csv"
        with open(f"{path}.new", "w", newline="") as file:
            write = csv.writer(file, lineterminator="\n").writerow
            write(["configuration", *self.swept, "seed", *keys, "folder"])
            for run in self.runs:
                figures = [run.figures.get(key, "") for key in keys]
                write([run.group, *run.values, run.seed, *figures, run.folder])
        os.replace(f"{path}.new", path)
        say(f"sweep.py: each run is a row of {path}")


def interval(runs, key):
    """The mean of a figure, and low and high of its confidence interval."""
    told = output_of(ROOT / "build/interval", "\n".join(run.figures[key] for run in runs))
    figures = dict(word.split("=") for word in told.split())
    return [float(figures[part]) for part in ("mean", "low", "high")]


def main():
    if sys.argv[1:2] == ["--version"]:
        os.execv(ROOT / "scripts/version.sh", ["version.sh", "--name=sweep.py"])
    os.environ["LC_ALL"] = "C.UTF-8"  # as scripts/lib.sh does
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) != signal.SIG_IGN:  # as with nohup
            signal.signal(signum, stop)
    sweep = Sweep(sys.argv[1:])
    try:
        sweep.play()
        sys.exit(sweep.report())
    except OSError as error:
        say(f"sweep.py: {error}")
        sys.exit(1)


main()
