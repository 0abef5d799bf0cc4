#!/usr/bin/env bash
# The figures of docs/speed.md and docs/speed-details.md on a CPU, half an hour on 2 cores:
#
#     bash benchmarks/cpu.sh STORE OUT_FOLDER
#
# STORE is a cloze store (ELE's train.pt). Leaves a JSON file per figure.
set -euo pipefail
store=$1 out=$2
mkdir -p "$out"
against=(--against transformers --data "$store")
albert-rc bench train --size base --rounds 3 "${against[@]}" --out "$out/train_base.json"
albert-rc bench predict --size base --steps 16 --rounds 3 "${against[@]}" --out "$out/predict_base.json"
albert-rc bench predict --size base --precision int8 --steps 16 --rounds 3 "${against[@]}" \
  --out "$out/predict_base_int8.json"
albert-rc bench predict --size xxlarge --steps 2 --rounds 2 "${against[@]}" \
  --out "$out/predict_xxlarge.json"
albert-rc bench predict --size xxlarge --precision int8 --steps 2 --rounds 2 "${against[@]}" \
  --out "$out/predict_xxlarge_int8.json"
# The planner against what is: the same batch of 2 x 512 tokens under smaller and smaller budgets.
for budget in 24 6 4; do
  albert-rc bench train --size xxlarge --length 512 --steps 1 --rounds 1 --memory "${budget}GiB" \
    --out "$out/train_xxlarge_${budget}gib.json"
done
