#!/bin/sh
# build.sh [COMMAND...] - makes what `go build -tags cuda` needs, and runs COMMAND with it, for example
#
#   cudaengine/internal/driver/build.sh go build -tags cuda ./cmd/andrea
#
# It needs gcc, and neither a CUDA toolkit nor a driver. Into abi/ beside this file it writes
#
#   cuda.h      the declarations that the module gorgonia.org/cu carries, read from the module cache, with every function bound to
#               the versioned name that all drivers since CUDA 4 to 11 export: a newer toolkit's renames never enter
#   libcuda.a   every driver function as a jump through a pointer that trampoline/trampoline.c fills at run time: the program has
#               no libcuda.so.1 among its libraries, and starts on a machine without a driver
set -eu
here=$(cd "$(dirname "$0")" && pwd)
abi=$here/abi
cc=${CC:-gcc}

# Functions whose name in the driver ends in _v2.
v2="cuDeviceTotalMem cuCtxCreate cuCtxDestroy cuCtxPopCurrent cuCtxPushCurrent cuModuleGetGlobal cuMemGetInfo cuMemAlloc cuMemAllocPitch
 cuMemFree cuMemGetAddressRange cuMemAllocHost cuMemHostGetDevicePointer cuMemHostRegister cuMemcpyDtoH cuMemcpyHtoD cuMemcpyDtoD cuMemcpyDtoA
 cuMemcpyAtoD cuMemcpyHtoA cuMemcpyAtoH cuMemcpyAtoA cuMemcpyHtoAAsync cuMemcpyAtoHAsync cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy3D
 cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyDtoDAsync cuMemcpy2DAsync cuMemcpy3DAsync cuMemsetD8 cuMemsetD16 cuMemsetD32 cuMemsetD2D8
 cuMemsetD2D16 cuMemsetD2D32 cuArrayCreate cuArrayGetDescriptor cuArray3DCreate cuArray3DGetDescriptor cuTexRefSetAddress cuTexRefGetAddress
 cuStreamDestroy cuEventDestroy cuLinkCreate cuLinkAddData cuLinkAddFile cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset
 cuDevicePrimaryCtxSetFlags cuStreamBeginCapture"

write_header() {
  echo '// Written by build.sh.'
  echo '#pragma once'
  printf '#include <%s>\n' stddef.h stdint.h stdlib.h
  for f in $v2; do echo "#define $f ${f}_v2"; done
  echo '#define cuTexRefSetAddress2D cuTexRefSetAddress2D_v3'
  echo '#define cuGraphInstantiate cuGraphInstantiateWithFlags'
  echo '#define CU_TRSF_READ_AS_INTEGER 1'
  echo '#define CU_TRSF_NORMALIZED_COORDINATES 2'
  sed -n '/^typedef uint32_t cuuint32_t/,$p' "$cu/cmd/genlib/cuda.h" | grep -v 'cuGraphInstantiate('
  echo 'CUresult cuGraphInstantiate(CUgraphExec*, CUgraph, unsigned long long);'
}

# write_symbols lists the functions that the Go packages call, under their names in the driver.
write_symbols() {
  grep -ohE 'C\.cu[A-Z][A-Za-z0-9_]+' "$cu"/*.go "$here"/*.go | sed 's/C\.//' | sort -u |
    grep -vxE 'cuAllocAndCopy|cuDeviceGetAttributes|cuLaunchAndSync|cuGraphNode' | sed 's/.*/SYMBOL(&)/' > "$scratch/names.c"
  { echo '#include "cuda.h"'; cat "$scratch/names.c"; } | "$cc" -E -P -I"$scratch" -x c - | grep '^SYMBOL' | sort -u
}

if ! command -v "$cc" >/dev/null; then
  echo "build.sh: preparing a CUDA build: $cc is missing: install gcc, or set CC to a C compiler" >&2
  exit 1
fi
cu=$(cd "$here" && go list -m -f '{{.Dir}}' gorgonia.org/cu)
if [ -z "$cu" ]; then
  echo "build.sh: preparing a CUDA build: gorgonia.org/cu is not in the module cache: run go mod download" >&2
  exit 1
fi
digest=$(cat "$0" "$here"/trampoline/trampoline.c "$here"/*.go "$cu/cmd/genlib/cuda.h" | sha256sum | cut -c1-64)
if [ "$(cat "$abi/digest" 2>/dev/null)" != "$digest" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  write_header > "$scratch/cuda.h"
  write_symbols > "$scratch/symbols.inc"
  "$cc" -O2 -fPIC -Wall -I"$scratch" -c "$here/trampoline/trampoline.c" -o "$scratch/trampoline.o"
  (cd "$scratch" && ar rcs libcuda.a trampoline.o)
  mkdir -p "$abi"
  cp "$scratch/cuda.h" "$scratch/libcuda.a" "$abi/"
  echo "$digest" > "$abi/digest"
  rm -rf "$scratch"
  trap - EXIT
fi

CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$abi" CGO_LDFLAGS="-L$abi"
export CGO_ENABLED CGO_CFLAGS CGO_LDFLAGS
if [ $# -gt 0 ]; then exec "$@"; fi
