#!/usr/bin/env python3
"""The bytes of a conversion depend on source and options alone: not on threads, disk access, memory, the order of the
source or the way taken from layout to layout. Tensors are read here by a parser of its own, not by perigee's.
"""

import hashlib
import itertools
import json
import struct
from pathlib import Path

from _support import INDEX, case, cases, close, expect, expect_same, fresh, shards, succeed, tree

SIZES = ["--preset", "tiny", "--layers", "3", "--experts", "4"]
# Values that take other paths through the code than ordinary ones; every second expert is ordinary.
HARD = ["--every", "2", "--span", "16", "--uneven-pair", "1", "--zero-groups", "0.1", "--zero-scale", "random",
        "--negative-zeros", "0.3"]
SOURCES = {"plain": [], "hard": HARD}
TARGETS = {"modelopt": [], "compressed-tensors": ["--layout", "compressed-tensors"],
           "weight-only": ["--layout", "compressed-tensors", "--activations", "none"]}


def read_tensors(folder):
    """Name -> (dtype, shape, SHA-256 of the bytes), after https://huggingface.co/docs/safetensors."""
    tensors = {}
    for path in shards(folder):
        data = path.read_bytes()
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            expect(name not in tensors, f"{name} is there twice")
            digest = hashlib.sha256(data[8 + size + begin:8 + size + end]).hexdigest()
            tensors[name] = (tensor["dtype"], tensor["shape"], digest)
    return tensors


def expect_same_tensors(folder, other):
    found, wanted = read_tensors(folder), read_tensors(other)
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    expect(not names and found, f"{folder} and {other} differ in {len(names)} tensors: {names[:3]}")


def running_options():
    """Each option on its own, and the extremes together."""
    yield from (["--jobs", jobs] for jobs in ("1", "2", "5"))
    yield from (["--io", io, "--io-depth", depth] for io in ("threads", "io_uring") for depth in ("1", "8"))
    yield from (["--memory", memory] for memory in ("0.05", "1"))
    yield ["--jobs", "1", "--io", "threads", "--io-depth", "1", "--memory", "0.05"]
    yield ["--jobs", "7", "--io", "io_uring", "--io-depth", "64", "--memory", "1"]


def running():
    wanted = {}
    for source, layout in (("plain", "modelopt"), ("hard", "compressed-tensors"), ("plain", "nvidia-mixed")):
        out = f"wanted-{source}-{layout}"
        succeed("convert", source, out, "--layout", layout, status=3 if layout == "nvidia-mixed" else 0)
        wanted[source, layout] = tree(out)

    def convert(item):
        (source, layout), options = item
        out = fresh("-".join([source, layout, *options]).replace("/", ""))
        succeed("convert", source, out, "--layout", layout, *options, status=3 if layout == "nvidia-mixed" else 0)
        expect_same(out, wanted[source, layout])
    cases(convert, list(itertools.product(wanted, running_options())),
          lambda item: f"{item[0][0]} to {item[0][1]} with {' '.join(item[1])}")


def requantising():
    """Rounding, too, and the sums that its report prints."""
    for method in ("requant", "requant-4over6"):
        out = fresh(method)
        succeed("convert", "hard", out, "--method", method, "--jobs", "1", "--io", "threads", status=3)
        with case(f"{method} with other numbers of threads"):
            for jobs in ("2", "5"):
                again = fresh(f"{method}-{jobs}")
                succeed("convert", "hard", again, "--method", method, "--jobs", jobs, status=3)
                expect_same(again, tree(out))


def without_verification(name, text):
    if name == "README.md":
        before, _, after = text.partition("## How this was checked\n\n")
        return before, after.partition("\n")[2]
    report = json.loads(text)
    for part in [report, *report["shards"]]:
        part.pop("verification")
    return report


def verification():
    """Only the words about it differ, and the checksums of the files that hold those words."""
    worded = {"README.md", "conversion_report.json"}
    for mode in ("sample", "none"):
        with case(f"--verify {mode} makes what --verify full makes"):
            out, full = fresh(f"verify-{mode}"), "wanted-plain-modelopt"
            succeed("convert", "plain", out, "--verify", mode)
            found, wanted = tree(out), tree(full)
            differing = {name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)}
            expect(differing == worded | {"SHA256SUMS"}, differing)
            for name in worded:
                texts = [Path(folder, name).read_text(encoding="utf-8") for folder in (out, full)]
                rests = [without_verification(name, text) for text in texts]
                expect(rests[0] == rests[1] and all(rests[0]), *rests)
            sums = [set(Path(folder, "SHA256SUMS").read_text(encoding="ascii").splitlines()) for folder in (out, full)]
            expect({line.split()[1] for line in sums[0] ^ sums[1]} == worded, sums[0] ^ sums[1])
            report = json.loads((out / "conversion_report.json").read_text(encoding="utf-8"))
            expect(report["verification"] == mode, report["verification"])


def order_of_the_source():
    orders = (["--shuffle"], ["--split-pairs"], ["--shuffle", "--split-pairs"])
    for flags, (target, options) in itertools.product(orders, TARGETS.items()):
        with case(f"a source with {' '.join(flags)} gives the same tensors, {target}"):
            source, out = "source" + "".join(flags), fresh("order" + "".join(flags) + target)
            if not Path(source).exists():
                succeed("synth", source, *SIZES, *HARD, *flags)
                expect_same_tensors(source, "hard")  # the premise
                expect({path.name: path.read_bytes() for path in shards(source)} !=
                       {path.name: path.read_bytes() for path in shards("hard")}, "it is not another order")
            succeed("convert", source, out, *options)
            expect_same_tensors(out, direct("hard", target))
            succeed("verify", source, out)


def direct(source, target):
    out = f"direct-{source}-{target}"
    if not Path(out).exists():
        succeed("convert", source, out, *TARGETS[target])
    return out


def ways_between_layouts():
    for source, begin, end in itertools.product(SOURCES, TARGETS, TARGETS):
        with case(f"{source}: {begin} to {end} equals the direct conversion"):
            out = fresh(f"way-{source}-{begin}-{end}")
            succeed("convert", direct(source, begin), out, *TARGETS[end])
            expect_same_tensors(out, direct(source, end))
    for source, begin in itertools.product(SOURCES, TARGETS):
        with case(f"{source}: {begin} and back to MXFP4 gives the source's tensors"):
            out = fresh(f"back-{source}-{begin}")
            succeed("convert", direct(source, begin), out, "--layout", "mxfp4")
            expect_back(out, source)


def expect_back(out, source):
    """Byte for byte; only the scale byte of an all-zero group, which carries no value, may be another."""
    if source == "plain":
        expect_same_tensors(out, source)
        expect(index_of(out) == index_of(source), "the index differs")
        return
    found, wanted = read_tensors(out), read_tensors(source)
    expect(found.keys() == wanted.keys(), "other names")
    scales = {name for name in found if found[name] != wanted[name]}
    expect(all(name.endswith("weight_scale") for name in scales), scales)
    succeed("verify", source, out)


def index_of(folder):
    return json.loads((Path(folder) / INDEX).read_text(encoding="utf-8"))


def rank_order():
    with case("shards converted in another order, one at a time, in other runs"):
        out = fresh("one-at-a-time")
        count = len(shards("plain"))
        for rank in reversed(range(count)):
            succeed("convert", "plain", out, "--world-size", count, "--rank", rank, "--wait", "0")
        expect_same(out, tree("wanted-plain-modelopt"))


def main():
    for name, flags in SOURCES.items():
        succeed("synth", name, *SIZES, *flags)
    running()
    requantising()
    verification()
    order_of_the_source()
    ways_between_layouts()
    rank_order()
    close()


main()
