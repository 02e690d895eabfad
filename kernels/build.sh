#!/bin/sh
# build.sh [OUTDIR] - compiles every kernels/*.cu to PTX in OUTDIR (kernels/ptx unless given), with Debian's clang-19 and
# nothing of NVIDIA's. An image that is there already, from the same sources and by the same compiler, is kept.
#
# compute_80 is the floor: it has mma.sync for bf16 and cp.async, and the driver compiles it for every later GPU.
# -ffp-contract=off makes every product and sum .rn, which the driver's compiler may not fuse; short pointers are those
# into shared memory, of 32 bits, which saves registers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/ptx}
cxx=${CLANG:-clang++-19}
flags="-x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx70 -nocudainc -nocudalib -std=c++17 -O3 -ffp-contract=off -fcuda-short-ptr -mllvm -nvptx-short-ptr -Wall -Wextra -Werror -S"
compiler=$("$cxx" --version | head -n 1)
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here"
headers=$(ls ./*.h | LC_ALL=C sort | grep -v dev_host.h)
for source in *.cu; do
  name=$(basename "$source" .cu)
  # The first lines of an image: what it is made of, and by what.
  digest=$({ printf '%s\n' "$flags"; cat $headers "$source"; } | sha256sum | cut -d ' ' -f 1)
  head="// $name.cu sources $digest
// $compiler"
  [ "$(head -n 2 "$out/$name.ptx" 2>/dev/null)" = "$head" ] && continue
  temporary=$out/.$name.$$
  nice -n 10 "$cxx" $flags "$source" -o "$temporary.body"
  { printf '%s\n' "$head"; cat "$temporary.body"; } >"$temporary"
  rm "$temporary.body"
  mv "$temporary" "$out/$name.ptx"
done
