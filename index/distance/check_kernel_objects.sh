#!/bin/sh
# check_kernel_objects.sh <nm> <objdump> <object>...: checks that a file compiled for one instruction set does not affect others.
# An inline function that it emits is a weak symbol, and the linker may keep that copy for code that runs on any CPU.
nm=$1
objdump=$2
shift 2
failed=0
kernels=0
complain() {
  echo "$1"
  failed=1
}
wide_registers() { "$objdump" -d --no-show-raw-insn "$1" | grep -c -E '%(ymm|zmm)[0-9]'; }
for object in "$@"; do
  case $object in
    *kernels_*.o)
      kernels=$((kernels + 1))
      weak=$("$nm" -C "$object" | grep -E ' [WVu] ')
      [ -z "$weak" ] || complain "$object: weak symbols: $weak"
      exported=$("$nm" "$object" | grep -c ' [TDBR] ')
      [ "$exported" -eq 1 ] || complain "$object: expected one exported symbol, found $exported"
      calls=$("$nm" "$object" | grep ' U ' | grep -v _GLOBAL_OFFSET_TABLE_)
      [ -z "$calls" ] || complain "$object: calls out of a kernel file: $calls"
      ;;
  esac
  case $object in
    *kernels_avx*.o) [ "$(wide_registers "$object")" -gt 0 ] || complain "$object: no AVX instruction: the flags or this check are lost" ;;
    *) [ "$(wide_registers "$object")" -eq 0 ] || complain "$object: AVX instructions outside the files compiled for them" ;;
  esac
done
[ "$kernels" -gt 1 ] || complain "expected several kernels_*.o, found $kernels"
exit $failed
