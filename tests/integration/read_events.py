"""Reads a run folder as TensorBoard does and compares it with metrics.jsonl and config.txt.

Usage: read_events.py RUN NUM_FILES. Prints a line "PASS name" or "FAIL name: why" for each check.
"""
import glob
import json
import math
import os
import sys

from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import backend_context
from tensorboard.plugins.hparams import list_session_groups
from tensorboard.util import tensor_util

REQUIRED = """charts/episode_return charts/length loss/policy loss/baseline loss/entropy loss/total
loss/explained_variance policy/entropy policy/lag_updates policy/kl loss/gradient_norm charts/learning_rate
speed/env_steps_per_second speed/trained_steps_per_second speed/updates_per_second telemetry/batch/fill
telemetry/batch/wait_us telemetry/fifo/trainer_wait_us telemetry/inference/run_us telemetry/actor/step_us
telemetry/actor/wait_us""".split()
DISTRIBUTIONS = """policy/window_lag_updates telemetry/batch/wait_us telemetry/actor/step_us
telemetry/actor/wait_us""".split()
# As docs/operations.md has them; what begins with none of these is telemetry.
TAGS = {
    "train/episode_return": "charts/episode_return",
    "train/episode_length": "charts/length",
    "train/reward": "charts/reward",
    "train/value": "charts/value",
    "eval/episode_return": "charts/eval_episode_return",
    "eval/episode_length": "charts/eval_length",
    "learning_rate": "charts/learning_rate",
    "grad/norm": "loss/gradient_norm",
    **{group: group for group in ("loss/", "policy/", "speed/")},
}
SHOWN = {"agent", "entropy_cost", "env", "learning_rate", "seed"}

run, num_files = sys.argv[1], int(sys.argv[2])
failures = 0


def check(name, problem):
    global failures
    failures += bool(problem)
    print(f"FAIL {name}: {problem}" if problem else f"PASS {name}")


def read(size_guidance):
    accumulator = event_accumulator.EventAccumulator(run, size_guidance)
    accumulator.Reload()
    return accumulator


everything = {"scalars": 0, "histograms": 0, "tensors": 0}
events = read(everything)
lines = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
tags = events.Tags()


def files():
    found = glob.glob(os.path.join(run, "events.out.tfevents.*"))
    return f"{len(found)} files, not {num_files}" if len(found) != num_files else ""


def tag_of(name):
    for begin, tag in TAGS.items():
        if name.startswith(begin):
            return tag + name[len(begin):]
    return "telemetry/" + name


def quantiles():
    """They are in the distributions, and nowhere a second time."""
    return ", ".join(tag for tag in tags["scalars"] if tag.endswith(("/p50", "/p99", "/max")))


def scalars():
    """The same numbers as in metrics.jsonl, at the same steps, as far as float32 holds them."""
    missing = [tag for tag in REQUIRED if tag not in tags["scalars"]]
    if missing:
        return f"no {missing}"
    names = {name for line in lines for name in line} - {"step", "seconds"}
    names = {name for name in names if not name.endswith(("/p50", "/p99", "/max"))}
    for name in sorted(names):
        expected = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
        found = events.Scalars(tag_of(name)) if tag_of(name) in tags["scalars"] else []
        if [e.step for e in found] != [step for step, _ in expected]:
            return f"{name} has the steps {[e.step for e in found]}, not {expected}"
        following = [value for _, value in expected[1:]] + [math.inf]
        for event, (step, value), later in zip(found, expected, following):
            # A counter that a thread keeps goes on while the two are written, the file first.
            if name == "inference/batches" and value <= event.value <= later:
                continue
            if not math.isclose(event.value, value, rel_tol=1e-6, abs_tol=1e-30):
                return f"{name} at step {step} is {event.value}, not {value}"
    return ""


def histograms():
    for tag in ["returns/train"] + [tag + "/histogram" for tag in DISTRIBUTIONS]:
        if tag not in tags["histograms"]:
            return f"no {tag}"
        value = events.Histograms(tag)[-1].histogram_value
        if value.num <= 0 or value.num != sum(value.bucket):
            return f"{tag} holds {value.num} values, its buckets {sum(value.bucket)}"
    returns = events.Histograms("returns/train")[-1].histogram_value
    mean = returns.sum / returns.num
    last = lines[-1]["train/episode_return"]
    return "" if math.isclose(mean, last, rel_tol=1e-6) else f"mean {mean}, not {last}"


def configuration():
    """Every option of config.txt is a row of the table."""
    text = tensor_util.make_ndarray(events.Tensors("configuration")[-1].tensor_proto)[0].decode()
    rows = dict(line.strip("| ").split(" | ")[:2] for line in text.splitlines()[2:])
    for line in open(os.path.join(run, "config.txt")):
        name, _, value = line.partition(" = ")
        if value and line[0] != "#" and '"' not in value and rows.get(name) != value.strip():
            return f"{name} is {rows.get(name)}, not {value.strip()}"
    return "" if len(rows) > 50 else f"{len(rows)} rows"


def hparams():
    """What the HPARAMS tab would show: the hyperparameters, and the last return beside them."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 0})
    multiplexer.AddRunsFromDirectory(os.path.dirname(os.path.abspath(run)))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, run)
    context = backend_context.Context(FakeContext(provider))
    request = RequestContext()
    experiment = context.experiment_from_metadata(
        request, "", True, context.hparams_metadata(request, ""), []
    )
    metric = api_pb2.ColParams(metric=api_pb2.MetricName(tag="charts/episode_return"))
    groups = list_session_groups.Handler(
        request,
        context,
        "",
        api_pb2.ListSessionGroupsRequest(
            start_index=0,
            slice_size=10,
            allowed_statuses=[0, 1, 2, 3],
            col_params=[metric],
        ),
    ).run().session_groups
    mine = [g for g in groups if os.path.basename(run) in g.sessions[0].name]
    if len(mine) != 1:
        return f"{len(mine)} of {len(groups)} groups are this run's"
    names = {info.name for info in experiment.hparam_infos}
    if not {"learning_rate", "agent", "batch_size"} <= names:
        return f"its hyperparameters are {names}"
    shown = {info.name for info in experiment.hparam_infos if info.differs}
    if shown != SHOWN:
        return f"it begins with the columns {shown}"
    if mine[0].hparams["agent"].string_value != "vtrace":
        return f"the agent is {mine[0].hparams['agent']}"
    last = lines[-1]["train/episode_return"]
    shown = [m.value for m in mine[0].metric_values if m.name.tag == "charts/episode_return"]
    if not shown or not math.isclose(shown[0], last, rel_tol=1e-6):
        return f"the final return is {shown}, not {last}"
    return ""


class FakeContext:
    """What the plugin asks of TensorBoard itself."""

    def __init__(self, provider):
        self.data_provider = provider
        self.multiplexer = None


check("TensorBoard finds the event files", files())
check("its scalars are those of metrics.jsonl", scalars())
check("quantiles are not shown twice", quantiles())
check("its histograms hold what was measured", histograms())
check("its text is the configuration", configuration())
check("its HPARAMS tab shows the hyperparameters and the final return", hparams())
sys.exit(failures > 0)
