#!/bin/sh
# ptxas.sh [PTXAS] - assembles the images for the GPUs of three generations, prints the registers, shared memory and
# spills of every kernel, and fails where one needs more registers than budgets.txt allows or spills more bytes.
# ptxas comes with CUDA, or alone in the wheel nvidia-cuda-nvcc-cu12; nothing else in this folder needs it. It also
# checks the inline PTX, which clang does not.
set -eu
cd "$(dirname "$0")"
ptxas=${1:-ptxas}
command -v "$ptxas" >/dev/null || { echo "ptxas.sh: $ptxas is not there: install CUDA, or name a ptxas" >&2; exit 2; }
temporary=$(mktemp -d)
trap 'rm -r "$temporary"' EXIT
for arch in sm_80 sm_90 sm_100; do
  for image in ptx/*.ptx; do
    "$ptxas" -v -arch=$arch "$image" -o "$temporary/cubin" 2>&1 | awk -v arch=$arch '
      /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
      /bytes stack frame/ { spill = 0; for (i = 1; i < NF; i++) if ($i == "spill" && $(i + 1) ~ /stores/) spill = $(i - 2) }
      /Used [0-9]+ registers/ { for (i = 1; i <= NF; i++) if ($i == "Used") print name, arch, $(i + 1), spill }
      /error|fatal/ { print > "/dev/stderr"; exit 1 }'
  done
done | sort >"$temporary/used"
awk '
  NR == FNR { if ($0 !~ /^#/) { registers[$1] = $2; spilled[$1] = $3 }; next }
  { printf "%-28s %-7s %3d registers %4d bytes spilled\n", $1, $2, $3, $4; seen[$1] = 1 }
  !($1 in registers) { print "ptxas.sh: " $1 " has no budget" > "/dev/stderr"; bad = 1; next }
  $3 > registers[$1] || $4 > spilled[$1] { print "ptxas.sh: " $1 " on " $2 " needs " $3 " registers and spills " $4 " bytes: its budget is " registers[$1] " and " spilled[$1] > "/dev/stderr"; bad = 1 }
  END { for (name in registers) if (!(name in seen)) { print "ptxas.sh: " name " has a budget and no image" > "/dev/stderr"; bad = 1 }; exit bad }
' budgets.txt "$temporary/used"
