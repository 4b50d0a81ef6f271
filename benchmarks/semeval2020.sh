#!/usr/bin/env bash
# SemEval-2020 Task 1, English, subtask 2: rank 37 words by their change from 1810-1860 to 1960-2010.
# Prints the Spearman correlation of PRT and APD with the judgments of annotators.
#
#   benchmarks/semeval2020.sh [FOLDER [MODEL]]
#
# FOLDER receives the data (it is downloaded once, about 100 MB) and the results. Needs curl, unzip,
# `elmo` and a `python` with NumPy on the PATH.
set -euo pipefail

folder=${1:-semeval2020}
model=${2:-elmo-en}
url=https://www2.ims.uni-stuttgart.de/data/sem-eval-ulscd/semeval2020_ulscd_eng.zip
data=$folder/semeval2020_ulscd_eng

mkdir -p "$folder"
if [ ! -d "$data" ]; then
    curl --fail --location --output "$folder/data.zip" "$url"
    rm -rf "$folder/unzipped"  # of a run that was stopped
    unzip -q "$folder/data.zip" -d "$folder/unzipped"
    mv "$folder/unzipped/${data##*/}" "$data"
    rm -r "$folder/data.zip" "$folder/unzipped"
fi

for number in 1 2; do
    corpus=$data/corpus$number/lemma/ccoha$number.txt.gz
    elmo usages "$corpus" --words "$data/targets.txt" -m "$model" -o "$folder/c$number.npz" -f
done
elmo change "$folder/c1.npz" "$folder/c2.npz" --words "$data/targets.txt" \
    -o "$folder/change.tsv" -f

python - "$data/truth/graded.txt" "$folder/change.tsv" <<'PYTHON'
import csv
import sys

import numpy as np


def ranks(values):
    """Ranks from 1; equal values have the mean of theirs."""
    below = (values[:, None] > values).sum(1)
    equal = (values[:, None] == values).sum(1)
    return below + (equal + 1) / 2


def spearman(x, y):
    return np.corrcoef(ranks(np.array(x)), ranks(np.array(y)))[0, 1]


judged_path, change_path = sys.argv[1:]
with open(judged_path, encoding="utf-8") as file:
    judged = {word: float(value) for word, value in map(str.split, file)}
with open(change_path, encoding="utf-8") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
for measure in ("prt", "apd"):
    values = {row["target"]: float(row[measure]) for row in rows if row[measure]}
    words = [word for word in judged if word in values]
    correlation = spearman([judged[word] for word in words], [values[word] for word in words])
    print(f"{measure}: Spearman {correlation:.3f} on {len(words)} of {len(judged)} words")
PYTHON
