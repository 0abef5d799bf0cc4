#!/usr/bin/env bash
# All figures that need a GPU, in one command of under 9 minutes:
#
#     OUT=results bash benchmarks/gpu.sh
#
# Leaves a JSON file per figure, gpu.log and summary.txt in $OUT. Wheels of orjson and torchao are
# taken from a folder `wheels` beside the checkout's files where they are not installed.
set -uo pipefail
OUT=${OUT:-build/gpu}
mkdir -p "$OUT"
exec > >(tee "$OUT/gpu.log") 2>&1
started=$SECONDS
python -c 'import orjson, torchao' 2>/dev/null \
  || python -m pip install --quiet --no-index --no-deps --find-links wheels orjson torchao typer rich
export PYTHONPATH=$PWD
bench() { # name, time limit, arguments
  local name=$1 limit=$2
  shift 2
  echo "== $name ($((SECONDS - started)) s)"
  timeout "$limit" python -m albert_rc bench "$@" --device cuda --out "$OUT/$name.json" \
    || echo "$name: failed with $?"
}
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv
timeout 60 python -m pytest -q tests/gpu || echo "tests/gpu: failed"
# The figures wanted most come first, should time run out.
bench train_xxlarge_b16 150 train --size xxlarge --batch-size 16 --length 512 --steps 6 --rounds 2 \
  --against transformers
for budget in 8 6 4; do
  bench "train_xxlarge_${budget}gib" 60 train --size xxlarge --batch-size 2 --length 512 \
    --steps 10 --rounds 1 --memory "${budget}GiB"
done
bench predict_xxlarge_400 60 predict --size xxlarge --batch-size 2 --steps 200 --length 368 --rounds 1
bench predict_xxlarge_400_int8 60 predict --size xxlarge --batch-size 2 --steps 200 --length 368 \
  --rounds 1 --precision int8
bench train_xxlarge_b2 60 train --size xxlarge --batch-size 2 --length 512 --steps 10 --rounds 2 \
  --against transformers
bench train_base_b16 60 train --size base --batch-size 16 --length 512 --steps 20 --rounds 2 \
  --against transformers
grep -h -A99 -e '^== ' "$OUT/gpu.log" | grep -v '^$' > "$OUT/summary.txt"
echo "done in $((SECONDS - started)) s"
