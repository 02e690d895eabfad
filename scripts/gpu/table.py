"""table.py OUT - makes the table of gpu_check.sh from what its stages left in OUT. What is missing is "not measured"."""
import datetime
import json
import os
import sys

PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # bf16 with fp32 sums, dense, FLOP/s, by the maker's data sheets
GOALS = {"12m": 3_000_000, "120m": 560_000, "480m": 128_000}  # tokens/s on one H200
NONE = "not measured"


class Results:
    """The files of a folder."""

    def __init__(self, out):
        self.out = out
        self.stages = {}
        for line in self.lines("stages.txt"):
            name, code, seconds, *why = line.split(maxsplit=3)
            self.stages[name] = code, int(seconds), " ".join(why)
        self.doctor = self.json("doctor") or {}
        self.power = [self.sample(line) for line in self.lines("power.csv")]

    def lines(self, name):
        path = os.path.join(self.out, name)
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [line.rstrip("\n") for line in file if line.strip()]

    def json(self, name):
        try:
            return json.loads("\n".join(self.lines(name + ".json")))
        except json.JSONDecodeError:
            return None

    def sample(self, line):
        """Time in seconds since 1970 and watts; no number where the GPU does not say."""
        when, watts = line.split(",")
        try:
            return datetime.datetime.strptime(when.strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp(), float(watts)
        except ValueError:
            return 0.0, 0.0

    def watts(self, measured):
        """Mean power during the measurements."""
        drawn = [w for t, w in self.power if measured["started_unix"] <= t <= measured["ended_unix"]]
        return sum(drawn) / len(drawn) if drawn else None

    def outcome(self, stage):
        code, seconds, why = self.stages.get(stage, ("skipped", 0, ""))
        if code == "absent":
            return f"{NONE}: {why}"
        if code == "skipped":
            return f"{NONE}: no time was left"
        if code == "124":
            return f"{NONE}: not done after {seconds} s"
        return "passed" if code == "0" else f"WRONG: exit {code}, see {stage}.log and {stage}.json"


def table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def number(x, digits=0):
    return NONE if x is None else f"{x:,.{digits}f}"


def share(x):
    return NONE if x is None else f"{100 * x:.1f} %"


def checks(results):
    rows = [["check", "result"]]
    for stage, text in {
        "doctor": "the program starts and finds the GPU", "primitives": "kernels leave what the emulation recorded",
        "kernels": "kernels agree with PyTorch", "memcheck": "compute-sanitizer memcheck", "racecheck": "compute-sanitizer racecheck",
    }.items():
        rows.append([text, results.outcome(stage)])
    for variant in ["12m", "120m", "tiny"]:
        first, second = results.json("ours-" + variant), results.json("again-" + variant)
        if first and second:
            same = first["digest"] == second["digest"]
            rows.append([f"{variant} twice: the same bits", "passed" if same else f"WRONG: {first['digest']} and {second['digest']}"])
    rows.append(["cost of being deterministic", f"{NONE}: the engine has no other mode"])
    table(rows)


def peak(results):
    return next((p for name, p in PEAKS.items() if name in results.doctor.get("device", "")), None)


def training(results):
    rows = [["training", "tokens/s", "spread", "MFU", "MFU (6N+12LTd)", "GiB", "J/token", "PyTorch tokens/s", "GiB", "J/token", "ratio", "goal tokens/s"]]
    known = [v for v in ["tiny"] if results.json("ours-tiny")]
    for variant in ["12m", "120m", "480m", *known]:
        ours, theirs = results.json("ours-" + variant), results.json("torch-" + variant)
        top = peak(results)
        rate = ours and ours["tokens_per_second"]
        ratio = rate / theirs["tokens_per_second"] if ours and theirs else None
        spread = ours and (max(ours["tokens_per_second_measured"]) / min(ours["tokens_per_second_measured"]) - 1)
        name = variant if variant != "tiny" else "tiny (a test: no measure)"
        rows.append([name, number(rate), share(spread), share(ours and top and rate * ours["flops_per_token"] / top),
                     share(ours and top and rate * ours["full_flops_per_token"] / top), *cost(results, ours), number(theirs and theirs["tokens_per_second"]),
                     *cost(results, theirs), number(ratio, 2), number(GOALS.get(variant))])
    table(rows)
    for name in results.stages:
        measured = results.json(name) if name.startswith("fp32-") else None
        if measured:
            print(f"{name[5:]} in fp32: {measured['tokens_per_second']:,.0f} tokens/s\n")


def cost(results, measured):
    """GiB on the device, and joules a token."""
    if not measured:
        return NONE, NONE
    watts = results.watts(measured)
    return number(measured["engine_bytes"] / 2**30, 1), number(watts and watts / measured["tokens_per_second"], 5)


def kernels(results):
    rows = [["kernel", "of", "distance to PyTorch", "ms", "TFLOP/s", "GB/s", "PyTorch ms", "ratio"]]
    for line in results.lines("kernels.jsonl"):
        k = json.loads(line)
        ratio = k["torch_ms"] / k["ms"] if k["torch_ms"] and k["ms"] else None
        rows.append([k["kernel"], k["name"], f"{k['distance']:.1e}" + ("" if k["agrees"] else "  WRONG"), number(k["ms"], 3), number(k.get("tflops"), 1),
                     number(k.get("gb_per_s")), number(k["torch_ms"], 3), number(ratio, 2)])
    table(rows if len(rows) > 1 else [*rows, ["all"] + [NONE] * 7])


def main(out):
    results = Results(out)
    print(f"{results.doctor.get('device') or 'no GPU'}; {results.doctor.get('version', 'no program')}; {results.stages.get('total', ('', 0))[1]} s in all\n")
    checks(results)
    training(results)
    print("ratio: PyTorch's time over ours. PyTorch's time of attention_keys is forward and backward together, ours is one of four kernels.\n")
    kernels(results)


if __name__ == "__main__":
    main(sys.argv[1])
