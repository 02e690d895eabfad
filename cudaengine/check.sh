#!/bin/sh
# check.sh [quick] - checks of the CUDA engine that need no GPU: every kernel and the engine on the software device, one planted
# fault of each kind, whole trainings in the pipeline; then the launches of a step, recorded, under the address and the thread
# sanitizer and in other orders. quick runs the short tests and one order. Needs gcc, clang++-19 and its runtime
# (libclang-rt-19-dev). OUT is kept between runs, for what has been compiled; the recordings go to RECORDINGS, if that is set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-${XDG_CACHE_HOME:-$HOME/.cache}/andrea/cuda-check}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cuda="$here/internal/driver/build.sh"
device="$here/softcuda/build.sh"
cd "$here/.."

"$cuda" go vet -tags cuda ./cudaengine/... ./launch ./cli ./cmd/...
go test -count=1 ./kernels # not from the cache: it does not know whether there was a compiler
if [ "${1:-}" = quick ]; then
  "$cuda" go test -count=1 -short -tags cuda ./cudaengine/...
  "$cuda" go test -count=1 -tags cuda -run Pipeline ./cudaengine
  orders=rand:1
else
  "$cuda" go test -tags cuda ./cudaengine/...
  orders="rev rand:1 rand:2"
fi

for mode in plain asan tsan; do "$device" "$out/$mode" "$mode"; done
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0
# replay MODE [RECORDING...] - replays on the device that was built in that mode.
replay() {
  mode=$1; shift
  "$out/$mode/replay" "$out/$mode/libcuda.so.1" kernels/ptx "$@" > "$scratch/replay.log" 2>&1
}
# clean WHAT MODE - replays everything, which must end well.
clean() {
  if ! replay "$2" "$recordings"/*.launch; then
    cat "$scratch/replay.log" >&2
    echo "check.sh: replaying $1: failed" >&2
    exit 1
  fi
  echo "replayed $1: $(ls "$recordings"/*.launch | wc -l) launches, all equal"
}

recordings=${RECORDINGS:-$scratch}
mkdir -p "$recordings"
SOFTCUDA_RECORD=$recordings ANDREA_CUDA_LIBRARY=$out/plain/libcuda.so.1 "$cuda" \
  go test -short -count=1 -tags cuda -run 'Modes|Sums|Inference|TestSuite/digests' ./cudaengine
for order in $orders; do SOFTCUDA_ORDER=$order SOFTCUDA_CP=early clean "in order $order" plain; done
clean "under the address sanitizer" asan
SOFTCUDA_CP=early clean "under the thread sanitizer" tsan

# The comparison itself must be able to fail: the last byte of what a fold left is changed.
set -- "$recordings"/*-fold.launch
cp "$1" "$scratch/changed.launch"
set -- "$scratch/changed.launch"
size=$(wc -c < "$1")
parameters=$((8 + 3 * 24)) # behind the buffers
printf '\125' | dd of="$1" bs=1 seek=$((size - parameters - 600)) conv=notrunc 2>/dev/null
if replay plain "$1"; then
  echo "check.sh: a changed recording was not noticed" >&2
  exit 1
fi
echo "all checks passed"
