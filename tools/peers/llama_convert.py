#!/usr/bin/env python3
"""Converts a Kimi K3 checkpoint to GGUF with llama.cpp's own converter, without its vocabulary.

Only token ids are measured, so the vocabulary is left out: synthetic checkpoints have none that a tokenizer could
load. Everything else is the converter's work; no tensor is touched here.

Usage: llama_convert.py LLAMA_CPP CHECKPOINT OUT.gguf [--outtype bf16|f32]
Run by llama_cpp.py with the Python that has the converter's packages.
"""

import runpy
import sys


def main():
    llama_cpp, *arguments = sys.argv[1:]
    sys.path[:0] = [f"{llama_cpp}/gguf-py", llama_cpp]
    from conversion.kimi_k3 import KimiK3Model

    KimiK3Model.set_vocab = KimiK3Model._set_vocab_none  # what the converter does for models without text
    checkpoint, out, *options = arguments
    sys.argv = ["convert_hf_to_gguf.py", checkpoint, "--outfile", out, *options]
    runpy.run_path(f"{llama_cpp}/convert_hf_to_gguf.py", run_name="__main__")


if __name__ == "__main__":
    main()
