#!/bin/busybox sh
# Runs inside the virtual machine of tests/vm/run.sh. It has two NUMA nodes, with CPUs on node 0 alone, and two NVDIMMs on node 1: one with
# a DAX file system and one as a devdax node. Prints "hmann-vm: passed" if every step passed.
/bin/busybox --install -s /bin
export HOME=/tmp TEST_TMPDIR=/tmp
cd / || exit 1
failures=0

# step "what it shows" command...
step() {
  what=$1
  shift
  begin=$(cut -d. -f1 /proc/uptime)
  if "$@" >/tmp/step.log 2>&1; then verdict=ok; else verdict="FAILED ($?)"; failures=$((failures + 1)); fi
  echo "hmann-vm: [$(($(cut -d. -f1 /proc/uptime) - begin)) s] $what: $verdict"
  [ "$verdict" = ok ] || sed 's/^/    /' /tmp/step.log | tail -n 60
}

# Binds namespace$1 to a device of kind $2 (pfn: fsdax, dax: devdax) with driver $3, as `ndctl create-namespace` does.
configure_namespace() {
  bus=/sys/bus/nd
  region=${1%.*}
  seed=$(cat "$bus/devices/region$region/$2_seed") || return 1
  echo "namespace$1" >"$bus/drivers/nd_pmem/unbind" || return 1
  cat /proc/sys/kernel/random/uuid >"$bus/devices/$seed/uuid" || return 1
  echo pmem >"$bus/devices/$seed/mode" || return 1
  echo 2097152 >"$bus/devices/$seed/align" || return 1
  echo "namespace$1" >"$bus/devices/$seed/namespace" || return 1
  echo "$seed" >"$bus/drivers/$3/bind"
}

two_nodes() {
  grep . /sys/devices/system/node/node*/cpulist /sys/devices/system/node/has_memory
  [ "$(cat /sys/devices/system/node/has_memory)" = 0-1 ] && [ "$(cat /sys/devices/system/node/node0/cpulist)" = 0-1 ] &&
    [ -z "$(cat /sys/devices/system/node/node1/cpulist)" ]
}

# Sets the kernel's pool of 2 MiB pages: $1 pages on each node.
huge_page_pools() {
  for node in 0 1; do
    pool=/sys/devices/system/node/node$node/hugepages/hugepages-2048kB
    echo "$1" >$pool/nr_hugepages
    [ "$(cat $pool/nr_hugepages)" = "$1" ] || { echo "node $node gave $(cat $pool/nr_hugepages) of $1 pages"; return 1; }
  done
}

dax_file_system() {
  configure_namespace 0.0 pfn nd_pmem && mkfs.ext4 -q -b 4096 /dev/pmem0 && mount -t ext4 -o dax=always /dev/pmem0 /mnt/pmem && dmesg | tail -n 5
}

devdax_node() {
  configure_namespace 1.0 dax dax_pmem && ls -l /dev/dax1.0 /sys/bus/dax/devices
  [ -c /dev/dax1.0 ]
}

# conformance FILTER TEST: the suite passes, and TEST was not skipped. Tests that need a TSC of constant rate are left out, since an
# emulated CPU does not promise one: see clockless.
conformance() {
  HMANN_TEST_TIERS="numa:1 dax:/mnt/pmem/conformance dax:/dev/dax1.0" tiers_test --gtest_filter="$1-*emulated*" >/tmp/conformance 2>&1
  result=$?
  rm -f /mnt/pmem/conformance
  cat /tmp/conformance
  grep -q "OK .*$2 (" /tmp/conformance || { echo "$2 was skipped"; return 1; }
  return $result
}

# search FAST SLOW OUT: searches in each mode with fixed parameters, since the default ones depend on the tier; answers in OUT.MODE.gt.
search() {
  for mode in graph multi-start "quantized --nprobe 16 --beam-width 4"; do
    # shellcheck disable=SC2086 # a mode is several words
    hmann search /tmp/sample.hmann --queries /sample/query.u8bin --groundtruth /sample/query.gt100 --k 10 --ef-l1 32 --ef-l0 48 \
      --mode $mode --fast "$1" --slow "$2" --out "$3.${mode%% *}.gt" || return 1
  done
}

same_answers() {
  search "$1" "$2" /tmp/answers && cmp /tmp/answers.graph.gt /tmp/dram.graph.gt && cmp /tmp/answers.multi-start.gt /tmp/dram.multi-start.gt &&
    cmp /tmp/answers.quantized.gt /tmp/dram.quantized.gt
}

clockless() {
  search dram emulated:lat=300ns /tmp/clockless >/tmp/refusal 2>&1
  result=$?
  cat /tmp/refusal
  [ $result -ne 0 ] && grep -q constant_tsc /tmp/refusal
}

# said_live FAST SLOW STRUCTURE TEXT: `info --live` says TEXT about STRUCTURE.
said_live() {
  hmann info /tmp/sample.hmann --live --fast "$1" --slow "$2" >/tmp/live 2>&1
  cat /tmp/live
  grep -E "^ *$3 " /tmp/live | grep -qF "$4"
}

live_placements() {
  said_live numa:0 numa:1 l0 "node 1: 100 %" && said_live numa:0 numa:1 fast_rows "node 0: 100 %" &&
    said_live numa:1 numa:0 l0 "node 0: 100 %" && said_live numa:1 numa:0 fast_rows "node 1: 100 %" &&
    said_live dram dax:/mnt/pmem/l0 l0 "DAX from /dev/pmem0" && said_live dram dax:/dev/dax1.0 l0 "DAX from /dev/dax1.0"
}

# pages_bound PROCESS BOUND NODE: KiB on node NODE of the process's mappings that are bound to node BOUND, as the kernel lists them.
pages_bound() {
  awk -v policy="bind:$2" -v node="N$3" '$2 ~ "^" policy {
      size = 4
      for (i = 3; i <= NF; ++i) if (split($i, part, "=") == 2 && part[1] == "kernelpagesize_kB") size = part[2]
      for (i = 3; i <= NF; ++i) if (split($i, part, "=") == 2 && part[1] == node) sum += part[2] * size
    } END { print sum + 0 }' "/proc/$1/numa_maps"
}

# with_server FAST SLOW command...: runs the command while a server keeps the sample there; $server is its process.
with_server() {
  rm -f /tmp/serve.log # else the previous server's log would be read
  hmann serve --index sample=/tmp/sample.hmann --fast "$1" --slow "$2" --listen 127.0.0.1:0 >/tmp/serve.log 2>&1 &
  server=$!
  shift 2
  waited=0
  until grep -qs ' ready after ' /tmp/serve.log || ! kill -0 "$server" || [ $waited -ge 120 ]; do sleep 1; waited=$((waited + 1)); done
  cat /tmp/serve.log
  grep -q ' ready after ' /tmp/serve.log && "$@"
  result=$?
  kill "$server" && wait "$server" && return $result
}

bound_pages_are_there() {
  grep bind: "/proc/$server/numa_maps"
  fast=$(pages_bound "$server" 0 0) slow=$(pages_bound "$server" 1 1) astray=$(($(pages_bound "$server" 0 1) + $(pages_bound "$server" 1 0)))
  echo "bound to node 0 and there: $fast KiB; bound to node 1 and there: $slow KiB; elsewhere: $astray KiB"
  [ "$fast" -gt 200 ] && [ "$slow" -gt 1500 ] && [ "$astray" -eq 0 ]
}

node_1_pool_is_used() {
  grep . /sys/devices/system/node/node1/hugepages/hugepages-2048kB/*
  [ "$(cat /sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages)" -lt 24 ] && bound_pages_are_there
}

# persistent PATH: the mapping of PATH has pages, and those of its first MiB lie at physical addresses of persistent memory.
persistent() {
  range=$(awk -v path="$1" '$6 == path { print $1; exit }' "/proc/$server/maps")
  [ -n "$range" ] || { echo "no mapping of $1"; return 1; }
  first=$((0x${range%-*} / 4096)) present=0
  grep 'Persistent Memory' /proc/iomem
  for frame in $(dd if="/proc/$server/pagemap" bs=8 skip=$first count=256 2>/dev/null | od -v -A n -t x8 | sed 's/^ *//'); do
    [ $((0x$frame >> 63 & 1)) -eq 1 ] || continue
    present=$((present + 1))
    address=$(((0x$frame & ((1 << 55) - 1)) * 4096)) inside=0
    # shellcheck disable=SC2013 # words are lines here
    for memory in $(sed -n 's/^ *\([0-9a-f]*-[0-9a-f]*\) : Persistent Memory$/\1/p' /proc/iomem); do
      [ $address -ge $((0x${memory%-*})) ] && [ $address -le $((0x${memory#*-})) ] && inside=1
    done
    [ $inside -eq 1 ] || { echo "page at physical address $address is no persistent memory"; return 1; }
  done
  echo "$present pages of the first MiB of $1 are mapped"
  [ $present -gt 0 ]
}

bounded="hmann build --base /sample/base.u8bin --out /tmp/bounded.hmann --build-memory 128MiB --work /tmp/work --threads 2 --no-calibrate"

hash_of() { hmann info "$1" --json | sed -n 's/.*"content_hash": *"\([0-9a-f]*\)".*/\1/p'; }

# Continues a bounded build and requests a power cut as soon as stage $1 begins, or, for "write", the index itself.
cut_in() {
  $bounded >/tmp/bounded.log 2>&1 &
  builder=$!
  while kill -0 "$builder" 2>/dev/null; do
    if [ "$1" = write ]; then
      ls /tmp/bounded.hmann.* >/dev/null 2>&1 && break
    else
      ls /tmp/work/*"$1"* >/dev/null 2>&1 && break
    fi
    usleep 20000
  done
  kill -0 "$builder" 2>/dev/null || { echo "hmann-vm: failed: the build ended before stage $1"; cat /tmp/bounded.log; return; }
  echo "hmann-vm: cut the power"
  wait "$builder"
  echo "hmann-vm: failed: the power was not cut"
}

same_index_after_cuts() {
  ls -l /tmp/work && $bounded && hmann verify /tmp/bounded.hmann && [ "$(hash_of /tmp/bounded.hmann)" = "$(cat /tmp/undisturbed)" ]
}

# lives_hold COUNTS...: the collection has what its writers were told in these lives, and passes hmann verify.
lives_hold() {
  HMANN_KILL_LIVES="/mnt/live/c $*" kill_test --gtest_filter=CollectionChild.Holds >/tmp/holds 2>&1
  result=$?
  cat /tmp/holds
  [ $result -eq 0 ] && grep -q '^holds ' /tmp/holds && hmann verify /mnt/live/c
}

# A life of a collection on a disk of its own, which loses what was not flushed: "lives=7,5,6:8,3,9" on the kernel's command line has the
# acknowledged writes of those before. Checks them, then writes until the power is cut, or, with "last=1", ends.
live() {
  lives=$(sed -n 's/.*lives=\([0-9,:]*\).*/\1/p' /proc/cmdline | tr : ' ')
  # shellcheck disable=SC2086 # a word for each life
  set -- $lives
  if ! mount -t ext4 /dev/vdb /mnt/live; then echo "hmann-vm: failed: no file system after a power cut"; return; fi
  if [ $# -eq 0 ]; then
    step "a collection" hmann create /mnt/live/c --dim 8 --dtype u8 --m 4 --ef-construction 20
  else
    step "life $#: every acknowledged write is there, none is half there" lives_hold "$@"
    sed 's/^holds /hmann-vm: holds /;t;d' /tmp/holds
  fi
  if [ $failures -gt 0 ]; then echo "hmann-vm: failed: life $#"; return; fi
  if grep -q last=1 /proc/cmdline; then
    umount /mnt/live
    echo "hmann-vm: passed"
    return
  fi
  stty -F /dev/ttyS1 115200 raw
  while :; do # a clock that jumps
    for clock in 4000000000 86400 1700000000 1600000000; do
      date -s "@$clock" >/dev/null
      usleep 300000
    done
  done &
  echo "hmann-vm: writes"
  HMANN_KILL_CHILD="/mnt/live/c $(($# + 1)) 1000000 /dev/ttyS1" kill_test --gtest_filter=CollectionChild.Writes
  echo "hmann-vm: failed: the power was not cut"
}

if grep -q lives= /proc/cmdline; then
  live
  exit
fi

# One boot for each cut: "cut=lists" on the kernel's command line. The last, "cut=none", checks what is left.
case $(sed -n 's/.*cut=\([a-z]*\).*/\1/p' /proc/cmdline) in
'') ;;
none)
  step "a bounded build continues after power cuts: same index" same_index_after_cuts
  sync
  if [ $failures -eq 0 ]; then echo "hmann-vm: passed"; fi
  exit
  ;;
*)
  cut_in "$(sed -n 's/.*cut=\([a-z]*\).*/\1/p' /proc/cmdline)"
  exit
  ;;
esac

step "CPUs on node 0 only, memory on nodes 0 and 1" two_nodes
step "ext4 with -o dax on an NVDIMM" dax_file_system
step "a devdax node on another" devdax_node
step "tier conformance" conformance 'Tiers/*:Dram*:Mapped*:Dax*' SaysWhereTheBytesAre/dax__dev_dax1_0
step "build of the sample" hmann build --base /sample/base.u8bin --out /tmp/sample.hmann --m 16 --ef-construction 100 --promote 0.16
hash_of /tmp/sample.hmann >/tmp/undisturbed
step "search, all in DRAM" search dram dram /tmp/dram
step "--fast numa:0 --slow numa:1: same answers" same_answers numa:0 numa:1
step "--slow dax:/mnt/pmem/l0: same answers" same_answers dram dax:/mnt/pmem/l0
step "--slow dax:/dev/dax1.0: same answers" same_answers dram dax:/dev/dax1.0
step "--slow nvme:/tmp/l0: same answers" same_answers dram nvme:/tmp/l0
step "--slow emulated: refused without a clock to be trusted" clockless
step "hmann info --live names nodes and devices" live_placements
step "a server's bound pages are on their nodes (numa_maps)" with_server numa:0 numa:1 bound_pages_are_there
step "a server's dax file is persistent memory (pagemap)" with_server dram dax:/mnt/pmem/l0 persistent /mnt/pmem/l0
step "a server's devdax node is persistent memory (pagemap)" with_server dram dax:/dev/dax1.0 persistent /dev/dax1.0
step "2 MiB pages kept free on both nodes" huge_page_pools 24
step "tier conformance with 2 MiB pages" conformance 'Dram*:Tiers/*numa*:Tiers/*dram*' TakesThePoolsPagesWhileItHasEnough
step "--fast numa:0 --slow numa:1 in 2 MiB pages: same answers" same_answers numa:0 numa:1
step "a server's L0 is in 2 MiB pages of node 1" with_server numa:0 numa:1 node_1_pool_is_used
sync
if [ $failures -eq 0 ]; then echo "hmann-vm: passed"; else echo "hmann-vm: $failures steps failed"; fi
