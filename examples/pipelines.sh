#!/usr/bin/env bash
# elmo in pipelines. Run it in this folder; it writes into the folder `pipes`.
set -euo pipefail
mkdir -p pipes

# Raw English from a pipe: sentences and tokens are found.
echo "The play didn't end. Did they play on?" | elmo embed - --tokenize -o pipes/raw.hdf5 -q

# A compressed text; only the top layer, in half the bits, is stored.
xz -c play.txt | elmo embed - -o pipes/top.hdf5 --layers top --dtype float16 -q

# The lines with a word, as JSON for a program in any language: one object per line.
grep theatre play.txt | elmo embed - -o - --output-format jsonl --layers top -q | wc -l

# What a file contains, for a script.
elmo inspect pipes/raw.hdf5 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"])'

# The occurrences of a word, as a table for other programs.
elmo kwic pipes/raw.hdf5 play | cut -f 1,3
