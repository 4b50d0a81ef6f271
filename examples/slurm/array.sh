#!/bin/bash
#SBATCH --job-name=elmo
#SBATCH --array=1-16
#SBATCH --cpus-per-task=2
#SBATCH --mem=8G
#SBATCH --time=24:00:00
# One shard of a corpus for each task of a job array. A task that was killed continues when it is
# submitted again, and one that is complete ends at once.
#
#     sbatch slurm/array.sh corpus.txt shards
#     sbatch --dependency=afterok:JOB slurm/merge.sh shards corpus.hdf5
set -euo pipefail
text=$1
folder=$2
number=$SLURM_ARRAY_TASK_ID
mkdir -p "$folder"
elmo embed "$text" -o "$folder/part-$number.hdf5" --shard "$number/$SLURM_ARRAY_TASK_COUNT" \
    --resume --threads "${SLURM_CPUS_PER_TASK:-1}"
