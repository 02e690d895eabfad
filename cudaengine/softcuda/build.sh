#!/bin/sh
# build.sh OUTDIR [plain|asan|tsan] - compiles the software CUDA device and every kernels/*.cu for this machine
# into OUTDIR/libcuda.so.1, and replay/replay.cc into OUTDIR/replay, without a CUDA toolkit. CXX is clang++-19 unless set (g++ works for
# `plain`, without a check of alignment).
#
#   plain  for any program that finds it as its libcuda.so.1
#   asan   every access checked by the address sanitizer: the program needs the runtime too
#          (compiled with -fsanitize=address, or started with LD_PRELOAD=OUTDIR/asan_runtime.so)
#   tsan   races between the threads of a block are found; the program must be compiled with -fsanitize=thread
#
# KERNELS is another folder of sources. Objects are kept in the user's cache under the digest of what they are made from, so that all
# that are built here share them. Modes of the device at run time: see README.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kernels=${KERNELS:-$here/../../kernels}
out=${1:?usage: build.sh OUTDIR [plain|asan|tsan]}
mode=${2:-plain}
cxx=${CXX:-clang++-19}
cache=${OBJECTS:-${XDG_CACHE_HOME:-$HOME/.cache}/andrea/softcuda/objects}
mkdir -p "$out" "$cache"
out=$(cd "$out" && pwd)

# Products and sums are never fused here: what a kernel means to fuse, it says.
flags="-std=c++17 -g -fPIC -Wall -Wextra -ffp-contract=off -fvisibility=hidden -DDEV_HOST"
if [ "$(uname -m)" = x86_64 ]; then flags="$flags -march=x86-64-v3"; fi
# As on a GPU, an address must be a multiple of the size of what is read there.
aligned=
case $cxx in *clang*) aligned="-fsanitize=alignment -fsanitize-trap=alignment" ;; esac
case $mode in
  plain) device="-O2"; kernel="-O2 $aligned"; link="" ;;
  asan) device="-O1 -fsanitize=address -fno-omit-frame-pointer -shared-libasan"; kernel="$device $aligned"; link="-fsanitize=address -shared-libasan" ;;
  tsan) device="-O2 -DSOFT_TSAN"; kernel="-O1 -fsanitize=thread"; link="" ;; # the device itself is not instrumented: device/fiber.h
  *) echo "build.sh: the mode is $mode: must be plain, asan or tsan" >&2; exit 2 ;;
esac

# digest_of FILE... - of the content of files.
digest_of() { cat "$@" 2>/dev/null | sha256sum; }
device_headers=$(digest_of "$here"/device/*.h)
kernel_headers=$(digest_of "$here"/device/soft.h "$kernels"/*.h)
# compile SOURCE HEADERS FLAGS... - prints the object's path. HEADERS is the digest of those that it may include.
compile() {
  source=$1; headers=$2; shift 2
  object=$cache/$(basename "$source").$(printf '%s ' "$headers" "$cxx" "$@" | cat - "$source" | sha256sum | cut -c1-16).o
  if [ ! -f "$object" ]; then
    nice -n 10 "$cxx" "$@" -I"$here/device" -I"$kernels" -c -x c++ "$source" -o "$object.tmp.$$" || return 1
    mv "$object.tmp.$$" "$object"
  fi
  echo "$object"
}

objects=
for source in "$here"/device/*.cc; do objects="$objects $(compile "$source" "$device_headers" $flags $device)"; done
for source in "$kernels"/*.cu; do
  [ -f "$source" ] || continue
  objects="$objects $(compile "$source" "$kernel_headers" $flags $kernel)"
done
"$cxx" -shared $link -Wl,-soname,libcuda.so.1 $objects -o "$out/libcuda.so.1.tmp.$$"
mv "$out/libcuda.so.1.tmp.$$" "$out/libcuda.so.1"
case $mode in
  plain) program="" ;;
  asan)
    runtime=$("$cxx" -print-file-name=libclang_rt.asan-"$(uname -m)".so)
    program="-fsanitize=address -shared-libasan -Wl,-rpath,$(dirname "$runtime")"
    ;;
  tsan) program="-fsanitize=thread" ;;
esac
"$cxx" $program "$(compile "$here/replay/replay.cc" "$device_headers" $flags -O1 $program)" -ldl -o "$out/replay.tmp.$$"
mv "$out/replay.tmp.$$" "$out/replay"
if [ "$mode" = asan ]; then
  ln -sf "$runtime" "$out/asan_runtime.so"
fi
