#!/bin/sh
# gpu_check.sh - checks and measures the CUDA engine on a machine with a GPU, in less than nine minutes.
#
#   scripts/gpu_check.sh pack DIR      here, with Go, gcc and clang++-19: makes DIR, which needs no other file; with what
#                                      cudaengine/check.sh has left in RECORDINGS, if that is set
#   DIR/gpu_check.sh [--library FILE]  there, with NVIDIA's driver; PyTorch and compute-sanitizer are used where they are
#
# Results go to $OUT (./gpu-check unless set): table.txt, and everything that it was made of. FILE is another libcuda.so.1;
# with the software device's (`--library softcuda`: the one in DIR) all runs on tiny shapes, as a test of this script.
# Exits 1 if something is wrong; what could not be measured is none of that.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
budget=530 # seconds

pack() {
  to=$1
  root=$here/..
  mkdir -p "$to/recordings" "$to/ptx"
  to=$(cd "$to" && pwd)
  cd "$root"
  cuda=cudaengine/internal/driver/build.sh
  "$cuda" go build -trimpath -ldflags "-s -w" -tags cuda -o "$to/andrea" ./cmd/andrea
  go run ./scripts/gpu > "$to/launches.json"
  built=${XDG_CACHE_HOME:-$HOME/.cache}/andrea/cuda-check/plain # kept, as check.sh does
  cudaengine/softcuda/build.sh "$built"
  cp "$built/replay" "$to/"
  cp "$built/libcuda.so.1" "$to/softcuda.so"
  rm -f "$to"/recordings/*
  if [ -n "${RECORDINGS:-}" ]; then
    cp "$RECORDINGS"/*.launch "$to/recordings/"
  else
    SOFTCUDA_RECORD=$to/recordings ANDREA_CUDA_LIBRARY=$built/libcuda.so.1 "$cuda" \
      go test -short -count=1 -tags cuda -run 'Modes|Sums|Inference|TestSuite/digests' ./cudaengine > /dev/null
  fi
  cp kernels/ptx/*.ptx "$to/ptx/"
  cp scripts/gpu/*.py scripts/gpu_check.sh "$to/"
  echo "packed $(find "$to/recordings" -type f | wc -l) launches and the program: $(du -sh "$to" | cut -f1) in $to"
}

# stage NAME SECONDS COMMAND... - runs a command within its time and the whole budget. Standard output goes to NAME.json,
# the rest to NAME.log. The outcome is a line of stages.txt: NAME CODE SECONDS.
stage() {
  name=$1 limit=$2
  shift 2
  left=$((budget - $(date +%s) + began))
  if [ "$left" -lt 5 ]; then
    echo "$name skipped 0" >> "$out/stages.txt"
    return
  fi
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  from=$(date +%s)
  code=0
  timeout "$limit" "$@" > "$out/$name.json" 2> "$out/$name.log" || code=$?
  echo "$name $code $(($(date +%s) - from))" >> "$out/stages.txt"
  echo "$name: exit $code" >&2
}

# absent NAME WHY - a stage that this machine cannot run.
absent() { echo "$1 absent 0 $2" >> "$out/stages.txt"; }

# watch_power writes what the GPU draws, in watts, until the script ends.
watch_power() {
  if ! command -v nvidia-smi > /dev/null; then return; fi
  nvidia-smi > "$out/nvidia-smi.txt" 2>&1 || true
  nvidia-smi -i 0 --query-gpu=timestamp,power.draw --format=csv,noheader,nounits -lms 200 > "$out/power.csv" 2> /dev/null &
  watcher=$!
  trap 'kill $watcher 2>/dev/null || true' EXIT
}

# flags_of VARIANT - what both programs are told of it: 65,536 tokens a step.
flags_of() {
  case $1 in
    tiny) echo "--shape 64,2,2,32,61 --windows 2 --measurements 3 --seconds 0" ;;
    480m) echo "--variant 480m --windows 16 --microbatches 4" ;;
    *) echo "--variant $1 --windows 64" ;;
  esac
}

train_ours() {
  for variant in $variants; do
    # shellcheck disable=SC2046 # several flags
    stage "ours-$variant" 60 "$here/andrea" bench gpu --json $(flags_of "$variant")
  done
  for variant in $variants; do
    if [ "$variant" = 480m ]; then continue; fi
    # shellcheck disable=SC2046
    stage "again-$variant" 30 "$here/andrea" bench gpu --json $(flags_of "$variant") --measurements 1 --seconds 0
  done
  # shellcheck disable=SC2046
  stage "fp32-${variants%% *}" 30 "$here/andrea" bench gpu --json --precision fp32 $(flags_of "${variants%% *}") --measurements 2
}

beside_pytorch() {
  if ! "$python" -c 'import torch' 2> /dev/null; then
    absent kernels "no PyTorch"
    for variant in $variants; do absent "torch-$variant" "no PyTorch"; done
    return
  fi
  stage kernels 100 "$python" "$here/kernels.py" "$library" "$here/ptx" "$here/launches.json" "$out/kernels.jsonl"
  for variant in $variants; do
    if [ "$variant" = tiny ]; then
      absent torch-tiny "PyTorch is compared on a GPU alone"
      continue
    fi
    # shellcheck disable=SC2046
    stage "torch-$variant" 75 "$python" "$here/pytorch.py" $(flags_of "$variant")
  done
}

# sanitize runs the small launches under NVIDIA's own sanitizer.
sanitize() {
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null || true)
  for tool in memcheck racecheck; do
    if [ -z "$sanitizer" ] || [ "$software" = yes ]; then
      absent "$tool" "no compute-sanitizer"
      continue
    fi
    stage "$tool" 60 "$sanitizer" --tool "$tool" --error-exitcode 1 "$here/replay" "$library" "$here/ptx" "$here"/recordings/*.launch
  done
}

check() {
  library=libcuda.so.1
  if [ "${1:-}" = --library ]; then
    library=${2:?gpu_check.sh: --library needs a file}
    if [ "$library" = softcuda ]; then library=$here/softcuda.so; fi
    export ANDREA_CUDA_LIBRARY="$library"
  elif [ $# -gt 0 ]; then
    echo "gpu_check.sh: $1 is no flag: see its first lines" >&2
    exit 2
  fi
  if [ ! -x "$here/andrea" ]; then
    echo "gpu_check.sh: $here has no program: make a folder with 'scripts/gpu_check.sh pack DIR' and run the script in it" >&2
    exit 2
  fi
  out=${OUT:-gpu-check}
  python=${PYTHON:-python3}
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  rm -f "$out"/*.json "$out"/*.jsonl "$out"/*.log "$out"/*.txt "$out"/*.csv
  began=$(date +%s)
  watch_power
  stage doctor 30 "$here/andrea" doctor --engine cuda --json
  software=no variants="120m 12m 480m"
  if grep -q 'software CUDA device' "$out/doctor.json"; then software=yes variants=tiny; fi
  stage primitives 60 "$here/replay" "$library" "$here/ptx" "$here"/recordings/*.launch
  train_ours
  beside_pytorch
  sanitize
  echo "total 0 $(($(date +%s) - began))" >> "$out/stages.txt"
  "$python" "$here/table.py" "$out" | tee "$out/table.txt"
  ! grep -q WRONG "$out/table.txt"
}

case ${1:-} in
  pack) pack "${2:?usage: gpu_check.sh pack DIR}" ;;
  *) check "$@" ;;
esac
