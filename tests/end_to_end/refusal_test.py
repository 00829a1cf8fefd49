#!/usr/bin/env python3
"""What convert refuses: exit status, one sentence that names the place, and nothing under a final name in the output.

A refusal must also leave the source, and whatever else was in the output, as it was.
"""

import fcntl
import json
import shutil
from pathlib import Path
from typing import Callable, NamedTuple

from _support import INDEX, case, cases, close, expect, expect_error, fresh, perigee, succeed, tree

FIRST = "model-00001-of-000005.safetensors"
SECOND = "model-00002-of-000005.safetensors"  # the first one with experts
LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "0" + "\nsize 456904\n"


class Refusal(NamedTuple):
    name: str
    arguments: list  # behind "convert source OUT"
    status: int
    words: tuple


class Damage(NamedTuple):
    name: str
    change: Callable  # takes the folder of a copy of the source
    words: tuple


def edit_json(path, change):
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def truncate(path, size):
    with path.open("r+b") as file:
        file.truncate(size)


def point_index_elsewhere(folder, target):
    edit_json(folder / INDEX, lambda index: index["weight_map"].update(
        {name: target for name, shard in index["weight_map"].items() if shard == FIRST}))


def move_manifest_away(config):
    del config["text_config"]["quantization_config"]


OPTIONS = [
    Refusal("an unknown option", ["--no-such-option"], 2, ("--no-such-option",)),
    Refusal("one folder too many", ["third"], 2, ("third",)),
    Refusal("unknown --layout", ["--layout", "gguf"], 2, ("--layout gguf", "modelopt|compressed-tensors|")),
    Refusal("unknown --activations", ["--activations", "fp8"], 2, ("--activations fp8", "none|placeholder")),
    Refusal("unknown --method", ["--method", "round"], 2, ("--method round", "cast|requant|requant-4over6")),
    Refusal("unknown --over-span", ["--over-span", "clip"], 2, ("--over-span clip", "fail|saturate|requant")),
    Refusal("unknown --nan-scale", ["--nan-scale", "ok"], 2, ("--nan-scale ok", "fail|zero-groups-ok")),
    Refusal("unknown --kmax", ["--kmax", "all"], 2, ("--kmax all", "active|all-nonzero-bytes")),
    Refusal("unknown --inexact-scale", ["--inexact-scale", "no"], 2, ("--inexact-scale no", "fail|round")),
    Refusal("unknown --verify", ["--verify", "half"], 2, ("--verify half", "full|sample|none")),
    Refusal("unknown --io", ["--io", "mmap"], 2, ("--io mmap", "auto|io_uring|threads")),
    Refusal("unknown --resume-check", ["--resume-check", "no"], 2, ("--resume-check no", "probe|full")),
    Refusal("--jobs below 0", ["--jobs", "-1"], 2, ("--jobs", "-1")),
    Refusal("--jobs no number", ["--jobs", "all"], 2, ("--jobs", "all")),
    Refusal("--io-depth 0", ["--io-depth", "0"], 2, ("--io-depth", "0", "1 to 256")),
    Refusal("--io-depth too large", ["--io-depth", "257"], 2, ("--io-depth", "257", "1 to 256")),
    Refusal("--memory too small", ["--memory", "0.01"], 2, ("--memory", "0.01")),
    Refusal("--memory nan", ["--memory", "nan"], 2, ("--memory", "nan")),
    Refusal("--wait nan", ["--wait", "nan"], 2, ("--wait", "nan")),
    Refusal("--wait below 0", ["--wait", "-1"], 2, ("--wait", "-1")),
    Refusal("--wait no number", ["--wait", "long"], 2, ("--wait", "long")),
    Refusal("an unknown --log-level", ["--log-level", "loud"], 2, ("--log-level loud",)),
    Refusal("--shards 0", ["--shards", "0"], 2, ("--shards 0", "shards 1 to 5")),
    Refusal("--shards 999", ["--shards", "1,999"], 2, ("--shards 999", "shards 1 to 5")),
    Refusal("--shards a huge range", ["--shards", "1-18446744073709551615"], 2, ("--shards", "18446744073709551615")),
    Refusal("--shards runs backwards", ["--shards", "3-1"], 2, ("--shards 3-1", "backwards")),
    Refusal("--shards no number", ["--shards", "1,,2"], 2, ("--shards 1,,2",)),
    Refusal("--shards is empty", ["--shards", ""], 2, ("--shards",)),
    Refusal("--layers is empty", ["--layers", ""], 2, ("--layers",)),
    Refusal("--layers 999", ["--layers", "999"], 2, ("--layers 999", "no such layer")),
    Refusal("--shards and --layers miss each other", ["--shards", "5", "--layers", "0"], 2, ("select nothing",)),
    Refusal("--rank equal to --world-size", ["--rank", "2", "--world-size", "2"], 2, ("--rank 2", "--world-size")),
    Refusal("--rank without --world-size", ["--rank", "1"], 2, ("--rank 1", "--world-size")),
    Refusal("--world-size 0", ["--world-size", "0"], 2, ("--world-size", "0")),
    Refusal("--delete-source, half verified", ["--delete-source", "--verify", "sample"], 2, ("--verify full",)),
    Refusal("--delete-source, not verified", ["--delete-source", "--verify", "none"], 2, ("--verify full",)),
    Refusal("--overwrite by one of several", ["--overwrite", "--world-size", "2"], 2, ("--overwrite", "ranks")),
    Refusal("--overwrite with --resume", ["--overwrite", "--resume"], 2, ("--overwrite", "--resume")),
    Refusal("--kmax with --method requant", ["--kmax", "all-nonzero-bytes", "--method", "requant"], 2, ("--kmax",)),
    Refusal("--layout mxfp4 of MXFP4", ["--layout", "mxfp4"], 2, ("source is MXFP4 already", "NVFP4")),
    Refusal("--resume with nothing to resume", ["--resume"], 1, ("no interrupted conversion",)),
]

DAMAGES = [
    Damage("a missing shard", lambda folder: (folder / SECOND).unlink(), (SECOND, "download it")),
    Damage("a Git LFS pointer", lambda folder: (folder / SECOND).write_text(LFS_POINTER), (SECOND, "Git LFS")),
    Damage("a truncated shard", lambda folder: truncate(folder / SECOND, 300000), (SECOND, "download")),
    Damage("a shard cut inside its header", lambda folder: truncate(folder / SECOND, 100), (SECOND,)),
    Damage("an empty shard", lambda folder: truncate(folder / SECOND, 0), (SECOND,)),
    Damage("a shard that is another", lambda folder: shutil.copyfile(folder / FIRST, folder / SECOND), (SECOND,)),
    Damage("no index", lambda folder: (folder / INDEX).unlink(), (INDEX,)),
    Damage("an index that is no JSON", lambda folder: (folder / INDEX).write_text("{\"weight_map\": {"), (INDEX,)),
    Damage("an index without weight_map", lambda folder: (folder / INDEX).write_text("{}"), (INDEX, "weight_map")),
    Damage("an index that leads out of the folder",
           lambda folder: point_index_elsewhere(folder, "../" + FIRST), (INDEX, "../" + FIRST)),
    Damage("an index with an absolute path",
           lambda folder: point_index_elsewhere(folder, "/" + FIRST), (INDEX, "/" + FIRST)),
    Damage("no config.json", lambda folder: (folder / "config.json").unlink(), ("config.json",)),
    Damage("a config.json that is no JSON", lambda folder: (folder / "config.json").write_text("{"), ("config.json",)),
    Damage("a config without a key",
           lambda folder: edit_json(folder / "config.json",
                                    lambda config: config["text_config"].pop("num_hidden_layers")),
           ("config.json", "num_hidden_layers")),
    Damage("a config without a quantization manifest",
           lambda folder: edit_json(folder / "config.json", move_manifest_away),
           ("config.json has no quantization_config",)),
    Damage("a sidecar file that is a dangling link",
           lambda folder: (folder / "tokenizer.json").symlink_to("nowhere"), ("tokenizer.json", "link")),
]

# options of synth, options of convert, words
VALUES = [
    ("over-span", ["--span", "20"], [], ("experts.", " row ", "binades below", "choose --over-span")),
    ("NaN scales", ["--byte-ff"], [], ("NaN scale at ", "experts.", " row ")),
    ("NaN scales, zero groups allowed", ["--byte-ff"], ["--nan-scale", "zero-groups-ok"], ("NaN scale at ",)),
    ("NaN scales of zeros", ["--byte-ff-zero"], [], ("NaN scale at ", "--nan-scale zero-groups-ok")),
    ("NaN values to FP8", ["--nan"], ["--layout", "nvidia-mixed"], ("self_attn.o_proj", "NaN", "row 0 column 0")),
]


def expect_no_checkpoint(out, allowed):
    found = {path.name for path in Path(out).rglob("*") if path.suffix == ".safetensors" or path.name == INDEX}
    expect(found <= allowed, f"{found} in {out}, at most {allowed} may be there")


def refuse(source, out, *arguments, status, words, allowed=frozenset()):
    """Refused, with neither the source changed nor the output made."""
    before = tree(source)
    expect_error(perigee("convert", source, out, *arguments), status, *words)
    expect_no_checkpoint(out, allowed)
    expect(tree(source) == before, f"{source} was changed")


def refuse_options(refusal):
    out = Path("options") / refusal.name
    refuse("source", out, *refusal.arguments, status=refusal.status, words=refusal.words)
    expect(not out.exists(), f"{out} was made")


def refuse_damage(damage):
    source = Path("damaged") / damage.name
    shutil.copytree("source", source)
    damage.change(source)
    refuse(source, Path("from-damaged") / damage.name, status=1, words=damage.words)


def refuse_values(item):
    name, synth, convert, words = item
    source = Path("values") / name
    succeed("synth", source, "--preset", "tiny", "--layers", "2", "--experts", "2", *synth)
    # Values are known only when they are read: shards before the bad one are finished, and stay for a resumption.
    refuse(source, Path("from-values") / name, *convert, status=1, words=words, allowed={FIRST})


def places():
    with case("the output is the source"):
        expect_error(perigee("convert", "source", "source"), 2, "separate folders")
    with case("the output is inside the source"):
        expect_error(perigee("convert", "source", "source/out"), 2, "separate folders")
        expect(not Path("source/out").exists(), "source/out was made")
    with case("the source is inside the output"):
        expect_error(perigee("convert", "source", "."), 2, "separate folders")
    with case("the output is another name of the source"):
        Path("alias").symlink_to("source")
        expect_error(perigee("convert", "source", "alias"), 2, "separate folders")
        expect_error(perigee("convert", "alias", "source/../source"), 2, "separate folders")
    with case("no such source"):
        expect_error(perigee("convert", "nowhere", "out"), 1, "nowhere is not a folder")
        expect(not Path("out").exists(), "out was made")
    with case("the source is a file"):
        expect_error(perigee("convert", "source/config.json", "out"), 1, "source/config.json is not a folder")
    with case("a folder missing on the command line"):
        expect_error(perigee("convert", "source"), 2, "OUT")
        expect_error(perigee("convert"), 2, "SRC")


def outputs():
    with case("the output is a file"):
        Path("file").write_text("mine", encoding="ascii")
        expect_error(perigee("convert", "source", "file"), 1, "file is not a folder")
        expect_error(perigee("convert", "source", "file", "--overwrite"), 1, "file")
        expect(Path("file").read_text(encoding="ascii") == "mine", "the file was changed")
    with case("the output holds something else"):
        foreign = fresh("foreign")
        foreign.mkdir()
        (foreign / "thesis.txt").write_text("mine", encoding="ascii")
        expect_error(perigee("convert", "source", foreign), 1, "foreign already holds thesis.txt", "--overwrite")
        expect_error(perigee("convert", "source", foreign, "--overwrite"), 1, "foreign was not made by perigee")
        expect(list(tree(foreign)) == ["thesis.txt"], tree(foreign))
    with case("the output is a finished conversion with other options"):
        before = tree("nvfp4")
        expect_error(perigee("convert", "source", "nvfp4", "--method", "requant"), 1, "nvfp4 already holds")
        expect(tree("nvfp4") == before, "it was changed")
    with case("the output is a link to nowhere"):
        Path("dangling").symlink_to("nowhere-else")
        result = perigee("convert", "source", "dangling")
        expect_error(result, 1, "dangling")
        expect("filesystem error" not in result.stderr, result.stderr)
    with case("the output cannot be made"):
        expect_error(perigee("convert", "source", "file/out"), 1, "file/out")


def journals():
    out = fresh("interrupted")
    with case("another job has begun in the output"):
        expect_error(perigee("convert", "source", out, "--world-size", "2", "--wait", "0"), 1, "of rank 1")
        before = tree(out)
        words = ("interrupted holds an unfinished conversion with other options", "--overwrite")
        for options in (["--layout", "compressed-tensors"], ["--activations", "none"], ["--method", "requant"],
                        ["--over-span", "saturate"], ["--nan-scale", "zero-groups-ok"], ["--shards", "1-3"],
                        ["--kmax", "all-nonzero-bytes"], ["--inexact-scale", "round"]):
            expect_error(perigee("convert", "source", out, *options), 1, *words)
        expect_error(perigee("convert", "other-source", out), 1, *words)
        expect(tree(out) == before, "the journal was changed")
    with case("a second converter in the same folder"):
        with (out / ".perigee" / "rank-0.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            expect_error(perigee("convert", "source", out), 1, "another converter (rank 0) is at work in interrupted")
        expect(not (out / INDEX).exists(), "the index was written")
    with case("--overwrite while another converter is at work"):
        begun = fresh("begun")
        expect_error(perigee("convert", "source", begun, "--world-size", "2", "--wait", "0"), 1, "of rank 1")
        for rank in (0, 1):
            with (begun / ".perigee" / f"rank-{rank}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                result = perigee("convert", "source", begun, "--overwrite")
                expect_error(result, 1, f"another converter (rank {rank}) is at work")
            expect((begun / ".perigee" / "job.json").exists(), "the journal of the other one was removed")
    for text in ("[]", "3", "null", "{\"fingerprint\": 5}", "{}", ""):
        with case(f"a journal that says {text}"):
            (out / ".perigee" / "job.json").write_text(text, encoding="ascii")
            expect_error(perigee("convert", "source", out), 1, "interrupted holds an unfinished conversion")


def main():
    succeed("synth", "source", "--preset", "tiny", "--layers", "2", "--experts", "2")
    succeed("synth", "other-source", "--preset", "tiny", "--layers", "2", "--experts", "3")
    succeed("convert", "source", "nvfp4")
    original = tree("source")
    cases(refuse_options, OPTIONS, lambda refusal: refusal.name)
    cases(refuse_damage, DAMAGES, lambda damage: damage.name)
    cases(refuse_values, VALUES, lambda item: item[0])
    for method in ("requant", "requant-4over6"):
        with case(f"--method {method} of NVFP4"):
            refuse("nvfp4", f"{method}-out", "--method", method, status=2,
                   words=(f"--method {method} needs an MXFP4 source",))
    places()
    outputs()
    journals()
    with case("all those refusals left the source alone"):
        expect(tree("source") == original, "source was changed")
    close()


main()
