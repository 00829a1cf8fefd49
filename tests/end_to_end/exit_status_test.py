#!/usr/bin/env python3
"""What scripts rely on: exit statuses of convert, its JSON, that --dry-run writes nothing, and that Ctrl-C stops it."""

import errno
import json
import signal
import time
from pathlib import Path

from _support import (INDEX, UNSYNCED, case, cases, close, expect, expect_nothing_half_done, expect_same, has_sanitizer,
                      perigee, remove, start, succeed, tree)

LOSSLESS, FAILED, USAGE, LOSSY, INTERRUPTED = 0, 1, 2, 3, 130
STOPS_WITHIN = 3.0  # seconds; promised is one, on a machine with nothing else to do

# name, source, options, exit status
STATUSES = [
    ("cast", "source", [], LOSSLESS),
    ("cast to compressed-tensors", "source", ["--layout", "compressed-tensors"], LOSSLESS),
    ("cast, weight-only", "source", ["--activations", "none"], LOSSLESS),
    ("--over-span saturate with nothing over", "source", ["--over-span", "saturate"], LOSSLESS),
    ("transcoding", "nvfp4", ["--layout", "compressed-tensors"], LOSSLESS),
    ("back to MXFP4", "nvfp4", ["--layout", "mxfp4"], LOSSLESS),
    ("zero groups with NaN scales allowed", "nan-zeros", ["--nan-scale", "zero-groups-ok"], LOSSLESS),
    ("nvidia-mixed rounds attention to FP8", "source", ["--layout", "nvidia-mixed"], LOSSY),
    ("requant", "source", ["--method", "requant"], LOSSY),
    ("requant for compressed-tensors", "source", ["--method", "requant", "--layout", "compressed-tensors"], LOSSY),
    ("requant-4over6", "source", ["--method", "requant-4over6"], LOSSY),
    ("--over-span saturate", "wide", ["--over-span", "saturate"], LOSSY),
    ("--over-span requant", "wide", ["--over-span", "requant"], LOSSY),
    ("over-span refused", "wide", [], FAILED),
    ("NaN refused", "nan-zeros", [], FAILED),
    ("wrong usage", "source", ["--layout", "gguf"], USAGE),
]


def has_status(item):
    name, source, options, status = item
    out = Path("statuses") / name
    result = succeed("convert", source, out, *options, status=status)
    expect((out / INDEX).exists() == (status in (LOSSLESS, LOSSY)), "the index is there or not, against the status")
    if status not in (LOSSLESS, LOSSY):
        return expect(not result.stdout, result.stdout)
    expect(("LOSSLESS" in result.stdout) == (status == LOSSLESS), result.stdout)
    report = json.loads((out / "conversion_report.json").read_text(encoding="utf-8"))
    expect(report["lossless"] == (status == LOSSLESS), report)
    return has_status_again(source, out, options, status)


def has_status_again(source, out, options, status):
    before = tree(out)
    result = succeed("convert", source, out, *options, status=status)
    expect("nothing to do" in result.stdout, result.stdout)
    expect_same(out, before)
    succeed("verify", source, out, status=status)


def dry_runs():
    with case("--dry-run writes nothing and foretells the sizes"):
        result = succeed("convert", "source", "dry", "--dry-run", "--json")
        expect(not Path("dry").exists(), "dry was made")
        estimate = json.loads(result.stdout)
        written = list(Path("nvfp4").glob("*.safetensors"))
        expect(estimate["shards"] == len(written), estimate)
        expect(estimate["output_bytes"] == sum(path.stat().st_size for path in written), estimate)
    with case("--dry-run beside a foreign folder leaves it alone"):
        Path("foreign").mkdir()
        (Path("foreign") / "mine.txt").write_text("mine", encoding="ascii")
        succeed("convert", "source", "foreign", "--dry-run")
        expect(list(tree("foreign")) == ["mine.txt"], tree("foreign"))
    with case("--dry-run of a bad source fails"):
        succeed("convert", "nowhere", "dry", "--dry-run", status=FAILED)


def json_outputs():
    with case("--json prints one document; --report writes the same"):
        result = succeed("convert", "source", "json", "--json", "--report", "report.json")
        document = json.loads(result.stdout)
        expect(document == json.loads(Path("report.json").read_text(encoding="utf-8")), "they differ")
        expect(document["run"]["finalised"] and document["run"]["shards_converted"] == len(document["shards"]),
               document)
        for line in result.stderr.splitlines():
            json.loads(line)
    with case("a repeated run says so in --json"):
        document = json.loads(succeed("convert", "source", "json", "--json").stdout)
        expect(document["run"]["already_complete"] and document["run"]["shards_converted"] == 0, document["run"])
    with case("the report in the checkpoint parses, line by line for modules"):
        json.loads(Path("json/conversion_report.json").read_text(encoding="utf-8"))
        lines = Path("json/conversion_modules.jsonl").read_text(encoding="utf-8").splitlines()
        expect(lines and all(json.loads(line) for line in lines), lines)
    with case("--json-errors prints an error as JSON"):
        result = succeed("convert", "nowhere", "out", "--json-errors", status=FAILED)
        expect("nowhere" in json.loads(result.stderr)["message"], result.stderr)


def interrupt(item):
    """Stops soon, and goes on to the same bytes."""
    number, (signal_number, delay, options) = item
    out = f"interrupted-{number}"
    slow = [("any", out, 0, "delay", delay), UNSYNCED]
    process = start("convert", "source", out, "--io", "threads", "--jobs", "2", *options, rules=slow)
    time.sleep(0.7)
    expect(process.poll() is None, "the run was over too soon to be interrupted")
    begin = time.monotonic()
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    took = time.monotonic() - begin
    expect(process.returncode == INTERRUPTED, f"exit status {process.returncode}", errors)
    expect(took < STOPS_WITHIN, f"stopped after {took:.1f} s")
    expect("interrupted" in errors, errors)
    wanted = tree("nvfp4")
    expect_nothing_half_done(out, wanted)
    expect(not (Path(out) / INDEX).exists(), "the index was written")
    succeed("convert", "source", out, "--resume")
    expect_same(out, wanted)
    remove(out)


def interruptions():
    if has_sanitizer():
        return
    # Delays of a call: short ones, so that a shard is being computed, and long ones, as of a slow disk.
    cases(interrupt, list(enumerate([(signal.SIGINT, 20000, []), (signal.SIGINT, 100000, ["--io-depth", "1"]),
                                     (signal.SIGTERM, 50000, []), (signal.SIGINT, 50000, ["--follow"])])),
          lambda item: f"signal {item[1][0]} with calls that take {item[1][1]} us")
    with case("interrupted while it waits for a download"):
        Path("empty").mkdir()
        for name in ("config.json", INDEX):
            (Path("empty") / name).write_bytes((Path("source") / name).read_bytes())
        process = start("convert", "empty", "waiting", "--follow")
        time.sleep(0.5)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        expect(process.returncode == INTERRUPTED and time.monotonic() - begin < STOPS_WITHIN, errors)
    for check in ("full", "probe"):
        with case(f"interrupted while finished shards are checked ({check})"):
            out = f"checked-{check}"
            perigee("convert", "source", out, rules=[("rename", "SHA256SUMS", 1, "error", errno.EIO), UNSYNCED])
            process = start("convert", "source", out, "--resume-check", check,
                            rules=[("pread", f"/{out}/model-", 0, "delay", 500000)])
            time.sleep(0.5)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            took = time.monotonic() - begin
            expect(process.returncode == INTERRUPTED and took < STOPS_WITHIN, process.returncode, took, errors)
            succeed("convert", "source", out)
            expect_same(out, tree("nvfp4"))
    with case("the second signal kills at once"):
        process = start("convert", "source", "killed", "--io", "threads", "--jobs", "1", "--io-depth", "1",
                        rules=[("any", "killed", 0, "delay", 2000000)])
        time.sleep(0.5)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        process.communicate(timeout=60)
        expect(process.returncode == -signal.SIGINT, f"exit status {process.returncode}")
        succeed("convert", "source", "killed")
        expect_same("killed", tree("nvfp4"))


def main():
    sizes = ["--preset", "tiny", "--layers", "3", "--experts", "2"]
    succeed("synth", "source", *sizes)
    succeed("synth", "wide", *sizes, "--span", "20")
    succeed("synth", "nan-zeros", *sizes, "--byte-ff-zero")
    succeed("convert", "source", "nvfp4")
    cases(has_status, STATUSES, lambda item: item[0])
    dry_runs()
    json_outputs()
    with case("a report that cannot be written is a failure"):
        result = perigee("convert", "source", "nvfp4", "--report", "no-such-folder/report.json")
        expect(result.returncode == FAILED and "no-such-folder" in result.stderr, result.stderr)
    interruptions()
    close()


main()
