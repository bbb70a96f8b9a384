"""Checks manifests against the schemas of their kinds, which have no other fields than these.

Usage: check.py FILE...
Prints "ok FILE KIND NAME", "unknown FILE KIND NAME" where there is no schema here, or "FILE KIND
NAME: FIELD: why"; exits with 1 if there is one of the last sort. Custom resources are checked
against crds/, Kubernetes' own kinds by kubernetes-validate. Rules in CEL (x-kubernetes-validations)
are not evaluated.
"""
import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

CRDS = pathlib.Path(__file__).parent / "crds"


def strict(schema):
    """The schema, whose objects have no other properties than those that are named."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def read_crds():
    crds = map(json.loads, (path.read_text() for path in CRDS.glob("*.json")))
    return {(crd["apiVersion"], crd["kind"]): strict(crd["schema"]) for crd in crds}


def describe(error):
    return "%s: %s" % (".".join(map(str, error.path)), error.message[:300])


def problems(document, crds):
    """What is wrong, sentences; None if there is no schema."""
    kind = document["apiVersion"], document["kind"]
    if kind in crds:
        errors = jsonschema.Draft202012Validator(crds[kind]).iter_errors(document)
        return [describe(error) for error in errors]
    version = kubernetes_validate.latest_version()
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        return None
    except kubernetes_validate.ValidationError as error:
        return [describe(error)]
    return []


def main():
    crds, failed = read_crds(), False
    for path in sys.argv[1:]:
        for document in yaml.safe_load_all(open(path)):
            name = f"{pathlib.Path(path).name} {document['kind']} {document['metadata']['name']}"
            found = problems(document, crds)
            if found is None:
                print("unknown", name)
            elif not found:
                print("ok", name)
            for problem in found or ():
                print(f"{name}: {problem}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
