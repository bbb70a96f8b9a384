"""Prints the environment and the words that the kubelet gives to a container of a manifest, one a
line, as `env` takes them.

Usage: pod.py MANIFEST JOB INDEX LEARNER=ADDRESS [FROM=TO ...]
JOB is a replicated job of the JobSet, or of the runtime, in MANIFEST, or a TFJob's replica type in
small letters; INDEX the completion index of its pod. A TrainJob in the file changes the runtime as
its operator would. ADDRESS stands for the coordinator's name. TO takes the place of FROM where that
is the command, an argument or an option's value, or the beginning of its path, or a name in
ACORN_LEARNER.
"""
import re
import sys

import yaml


def container_of(pod):
    return pod["containers"][0]


def with_env(container, env):
    """As a TrainJob's env: entries of the same name are replaced."""
    names = {entry["name"] for entry in env}
    kept = [entry for entry in container["env"] if entry["name"] not in names]
    return {**container, "env": kept + env}


def replicated_jobs(documents):
    """name -> its pod's container and parallelism."""
    by_kind = {document["kind"]: document for document in documents}
    if "TFJob" in by_kind:
        return {name.lower(): (container_of(replica["template"]["spec"]), replica["replicas"])
                for name, replica in by_kind["TFJob"]["spec"]["tfReplicaSpecs"].items()}
    jobset = by_kind.get("JobSet") or by_kind["ClusterTrainingRuntime"]["spec"]["template"]
    jobs = {}
    for job in jobset["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        jobs[job["name"]] = container_of(spec["template"]["spec"]), spec.get("parallelism", 1)
    if "TrainJob" in by_kind:
        train = by_kind["TrainJob"]["spec"]
        container, _ = jobs["node"]
        jobs["node"] = with_env(container, train["trainer"]["env"]), train["trainer"]["numNodes"]
        for patch in train["runtimePatches"]:
            for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
                container, parallelism = jobs[job["name"]]
                env = container_of(job["template"]["spec"]["template"]["spec"])["env"]
                jobs[job["name"]] = with_env(container, env), parallelism
    return jobs


def expand(text, variables):
    """$(NAME), as the kubelet does it: one that is not there stays."""
    return re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), text)


def environment(container, index, learner):
    fields = {"metadata.annotations['jobset.sigs.k8s.io/coordinator']": learner,
              "metadata.annotations['batch.kubernetes.io/job-completion-index']": index}
    variables = {}
    for entry in container.get("env", []):
        if "value" in entry:
            variables[entry["name"]] = expand(entry["value"], variables)
        else:
            variables[entry["name"]] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
    variables["JOB_COMPLETION_INDEX"] = index
    return variables


def replace(text, places):
    """One of a path's beginning, or of a list's members."""
    for source, target in places.items():
        text = re.sub(rf"(^|[=,]){re.escape(source)}(?=[/,]|$)", rf"\g<1>{target}", text)
    return text


def main():
    manifest, name, index, *rest = sys.argv[1:]
    places = dict(word.split("=", 1) for word in rest)
    container, parallelism = replicated_jobs(list(yaml.safe_load_all(open(manifest))))[name]
    assert int(index) < parallelism, f"{name} has {parallelism} pods"
    variables = environment(container, index, places.pop("LEARNER"))
    words = [expand(word, variables) for word in container["command"] + container["args"]]
    words = [replace(word, places) for word in words]
    if "ACORN_LEARNER" in variables:
        variables["ACORN_LEARNER"] = replace(variables["ACORN_LEARNER"], places)
    print(*(f"{key}={value}" for key, value in variables.items()), *words, sep="\n")


if __name__ == "__main__":
    main()
