"""What a run folder holds."""
import csv
import json
from pathlib import Path

from acorn.bundle import AcornError


def _value(text):
    """A number, a truth value, or the text itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _option(text):
    """The same of a line of config.txt, where a text may be in quotes, with escapes."""
    return json.loads(text, strict=False) if text[:1] == '"' else _value(text)


def _table(rows):
    """A DataFrame where pandas is installed, else the list of dicts."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


class Run:
    """A run folder. Its files are read at each access, so that it may be of a run that goes on."""

    def __init__(self, folder):
        self.folder = Path(folder)
        if not (self.folder / "config.txt").is_file():
            raise AcornError(f"{folder} is no run folder: there is no {self.folder / 'config.txt'}")

    def __repr__(self):
        return f"Run({str(self.folder)!r})"

    def _json(self, name):
        path = self.folder / name
        if not path.exists():
            return None
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise AcornError(f"{path} is damaged: {error}") from None

    @property
    def config(self):
        """The options, a dict."""
        lines = (self.folder / "config.txt").read_text().splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line and line[:1] != "#")
        return {name.strip(): _option(value.strip()) for name, _, value in pairs}

    @property
    def result(self):
        """How it ended, a dict (docs/usage.md, "Results in a program"); None: it has not."""
        return self._json("result.json")

    @property
    def starts(self):
        """Each start of the run: version, commit, host, time, options; a list of dicts."""
        return (self._json("run.json") or {}).get("starts", [])

    def metrics(self):
        """metrics.jsonl: a row each time metrics were written (docs/operations.md)."""
        rows, path = [], self.folder / "metrics.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                rows.append(json.loads(line))
            except ValueError:
                pass  # a last line that is being written
        return _table(rows)

    def episodes(self):
        """episodes.csv: a row for each episode."""
        path = self.folder / "episodes.csv"
        if not path.exists():
            return _table([])
        with path.open(newline="") as file:
            return _table([{name: _value(text) for name, text in row.items()}
                           for row in csv.DictReader(file)])

    def parameters(self, token_file=None):
        """Of its learner, which has to be running: float32 arrays by name (docs/protocol.md), and
        the number of updates that it had made. token_file: the operator's; None: that which the
        run folder names."""
        from acorn.parameters import get
        return get(self.folder, token_file)

    def set_parameters(self, arrays, expected_version=None, token_file=None):
        """Sets those of these names, between two updates; all or none. expected_version: refused
        unless the learner has made so many updates. Returns how many it had made."""
        from acorn.parameters import set_some
        return set_some(self.folder, arrays, expected_version, token_file)
