#!/usr/bin/env bash
# The networks where oneDNN may use fewer sets of instructions than this machine has: the forms of
# its tensors and the precisions depend on them.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
programs=(build/tests/unit/learner/device/test_image build/tests/unit/learner/network/test_pixels)
cd "$tree" || exit 1
. scripts/lib.sh
build "${programs[@]}" || exit 1

# networks_hold ISA
networks_hold() { ONEDNN_MAX_CPU_ISA=$1 scripts/run_units.sh "${programs[@]}" >"$work/out" 2>&1; }

while read -r isa flag; do
  if grep -qw "$flag" /proc/cpuinfo; then
    pass_if "networks with no more than $isa" networks_hold "$isa"
  else
    echo "SKIP networks with no more than $isa: this machine does not have it"
  fi
done <<'END'
SSE41 sse4_1
AVX2 avx2
AVX2_VNNI avx_vnni
AVX512_CORE avx512bw
END
finish
