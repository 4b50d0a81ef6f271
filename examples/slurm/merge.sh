#!/bin/bash
#SBATCH --job-name=elmo-merge
#SBATCH --mem=8G
#SBATCH --time=04:00:00
# Join the shards of slurm/array.sh to the file that a single run would have written.
set -euo pipefail
folder=$1
output=$2
elmo merge "$folder"/part-*.hdf5 -o "$output"
