"""What build/apps/tasuki-experiment has recorded below results/: a Run for each run."""
import datetime
import json
import re
import statistics

ACCURACY = "validation/main/accuracy"


class Run:
    """A run that has ended: its flags (np and nodes among them), and what is in its log."""

    def __init__(self, folder, record):
        self.folder = folder
        self.settings = record["settings"]
        self.failure = record.get("failure", "")
        self.result = record.get("result")
        self.origin = record.get("origin", {})
        self.ended = datetime.date.fromtimestamp((folder / "run.json").stat().st_mtime)
        log = folder / "result" / "log"
        self.entries = (json.loads(log.read_text()) if self.result is not None and log.exists()
                        else [])
        self.epochs = [entry for entry in self.entries if ACCURACY in entry]

    @property
    def is_done(self):
        return self.result is not None

    @property
    def commit(self):
        found = re.search(r"\(([\w-]+)\)", self.origin.get("version", ""))
        return found[1] if found else "?"

    @property
    def machine(self):
        return self.origin.get("machine", "?")

    @property
    def seconds(self):
        """Of training, evaluation included."""
        return self.result["seconds"]

    @property
    def wall_seconds(self):
        return (self.result or {}).get("wall_seconds", 0)

    @property
    def np(self):
        return int(self.settings["np"])

    @property
    def processes(self):
        """For tables: marked where they have more computing threads than the machine has cores."""
        return f"{self.np}*" if self.origin.get("oversubscribed") else f"{self.np}"

    @property
    def examples_per_second(self):
        """In the median step."""
        return self.origin["global_batch"] / self.result["step_seconds"]

    def speeds(self, every=10):
        """Examples a second over each so many steps, without the first ones, from single entries."""
        times = {entry["iteration"]: entry["elapsed_time"] for entry in self.entries}
        return [every * self.origin["global_batch"] / (times[step] - times[step - every])
                for step in range(2 * every, max(times, default=0) + 1, every)]

    def accuracies(self):
        return [entry[ACCURACY] for entry in self.epochs]

    def last_five(self):
        """Mean accuracy of the last five epochs."""
        return statistics.mean(self.accuracies()[-5:])

    def mark(self):
        """What stands in a table in place of the numbers of a run that failed."""
        for cause in ["out of memory", "killed (out of memory?)"]:
            if self.failure.startswith(cause):
                advice = "the largest batch that fits is --batchsize "
                if advice in self.failure:
                    batch = self.failure.split(advice)[1].split()[0].strip(";,.")
                    return f"**{cause}** ({batch} a rank fits)"
                return f"**{cause}**"
        return "**failed**"

    def text(self, *names):
        return ", ".join(f"{name} {self.settings.get(name, '?')}" for name in names)


def runs_of(folder):
    """Those that are done or have failed, of an experiment's folder and its sections."""
    found = []
    for file in sorted(folder.glob("**/runs/*/run.json")):
        record = json.loads(file.read_text())
        if "settings" in record and ("result" in record or "failure" in record):
            found.append(Run(file.parent, record))
    return found
