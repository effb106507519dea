#!/usr/bin/env bash
# Boots a Debian cloud kernel under qemu (software emulation, no KVM) with a memory-only NUMA node and two virtual NVDIMMs, and runs
# tests/vm/guest.sh inside. Usage: tests/vm/run.sh BUILD_FOLDER [CUTS]. Everything is made under build/vm; nothing is installed.
# Then boots repeatedly, cuts the power in the middle of a build, and checks what is left. Does the same with a collection that is written,
# twice; with CUTS, that often, and nothing else.
# Exit status: 0 only if the guest says that everything passed.
set -euo pipefail
build=$(readlink -f "$1")
cuts=${2:-}
cd "$(dirname "$(readlink -f "$0")")/../.."
limit=${HMANN_VM_SECONDS:-900}
vm=$PWD/build/vm
work=$vm/run

die() { printf 'test-vm: %s\n' "$*" >&2; exit 1; }

# The kernel package that linux-image-cloud-amd64 refers to, unpacked; fetched once and kept.
fetch_kernel() {
  local package
  kernel=$(dirname "$(find "$vm" -mindepth 2 -maxdepth 2 -name complete -print -quit)")
  [[ $kernel == . ]] || return 0
  package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [[ -n $package ]] || die "apt knows no linux-image-cloud-amd64: it is in Debian for amd64, after apt-get update"
  kernel=$vm/$package
  rm -rf "$kernel"
  mkdir -p "$kernel"
  (cd "$kernel" && apt-get -q -o APT::Sandbox::User="$(id -un)" download "$package") || die "cannot fetch $package: run apt-get update"
  dpkg -x "$kernel"/*.deb "$kernel"
  rm "$kernel"/*.deb
  touch "$kernel/complete"
}

# add_module NAME: copies a kernel module, after those that it depends on, under a name that sorts in the order of loading.
add_module() {
  local folder=$work/initramfs/modules path needed
  [[ -z $(find "$folder" -name "*-$1.ko") ]] || return 0
  path=$(find "$kernel/lib/modules" -name "$1.ko" -o -name "${1//_/-}.ko" | head -n 1)
  [[ -n $path ]] || die "the kernel has no module $1"
  for needed in $(tr '\0' '\n' <"$path" | sed -n 's/^depends=//p' | tr ',' ' '); do add_module "$needed"; done
  cp "$path" "$folder/$(printf '%02d' "$(find "$folder" -type f | wc -l)")-$1.ko"
}

# The guest's boot image: busybox, the modules, and init.
make_initramfs() {
  local root=$work/initramfs module
  mkdir -p "$root"/{bin,dev,proc,sys,disk,modules}
  cp "$(command -v busybox)" "$root/bin/busybox"
  install -m 755 tests/vm/init "$root/init"
  for module in virtio_pci virtio_blk nfit nd_pmem device_dax dax_pmem; do add_module "$module"; done
  (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initramfs.cpio"
}

# Its disk: our programs with all their shared libraries, mkfs.ext4, and the sample.
make_disk() {
  local root=$work/disk program
  local -a programs=("$build/bin/hmann" "$(find "$build" -name tiers_test -type f)" "$(find "$build" -name kill_test -type f)" "$(PATH=$PATH:/sbin:/usr/sbin command -v mkfs.ext4)")
  mkdir -p "$root"/{bin,dev,proc,sys,tmp,mnt/pmem,mnt/live,etc}
  cp "$(command -v busybox)" "$root/bin/busybox"
  for program in "${programs[@]}"; do
    [[ -x $program ]] || die "a program is missing in $build: build first"
    cp -L "$program" "$root/bin/"
    ldd "$program" | awk '{ for (i = 1; i <= NF; ++i) if ($i ~ "^/") print $i }'
  done | sort -u | while read -r program; do
    mkdir -p "$root/$(dirname "$program")"
    cp -L "$program" "$root/$program"
  done
  cp -r datasets/sample "$root/sample"
  install -m 755 tests/vm/guest.sh "$root/guest.sh"
  truncate -s 768M "$work/disk.img"
  "$root/bin/mkfs.ext4" -q -F -d "$root" "$work/disk.img"
  truncate -s 64M "$work/live.img"
  "$root/bin/mkfs.ext4" -q -F "$work/live.img"
}

# boot [PARAMETERS [QEMU_OPTION...]]: boots the machine with kernel parameters.
boot() {
  local -a machine=(
    -nodefaults -display none -monitor none -serial stdio -no-reboot
    -accel "tcg,thread=multi" -cpu max -smp 2 -machine "q35,nvdimm=on" -m "2304M,slots=2,maxmem=8G"
    -object "memory-backend-ram,id=near,size=1536M" -numa "node,nodeid=0,cpus=0-1,memdev=near"
    -object "memory-backend-ram,id=far,size=768M" -numa "node,nodeid=1,memdev=far"
    -object "memory-backend-file,id=flash0,share=on,mem-path=$work/nvdimm0.img,size=256M" -device "nvdimm,memdev=flash0,node=1"
    -object "memory-backend-file,id=flash1,share=on,mem-path=$work/nvdimm1.img,size=256M" -device "nvdimm,memdev=flash1,node=1"
    -drive "file=$work/disk.img,if=virtio,format=raw,cache=unsafe"
    -kernel "$(find "$kernel/boot" -name 'vmlinuz-*')" -initrd "$work/initramfs.cpio"
    -append "console=ttyS0 loglevel=3 panic=-1 random.trust_cpu=on ${1:-}" "${@:2}")
  truncate -s 256M "$work/nvdimm0.img" "$work/nvdimm1.img"
  timeout --foreground --kill-after=10 "$limit" qemu-system-x86_64 -pidfile "$work/pid" "${machine[@]}" </dev/null 2>&1 | sed -u 's/\r//g' |
    tee "$work/console.log" || true
}

# await PROCESS COMMAND...: waits until the command succeeds, the machine says that something failed, or the process ends.
await() {
  local left
  for ((left = limit * 20; left > 0; --left)); do
    ! "${@:2}" && ! grep -qs '^hmann-vm: failed' "$work/console.log" && kill -0 "$1" 2>/dev/null || break
    sleep 0.05
  done
}

said() { grep -qs "^hmann-vm: $1\$" "$work/console.log"; }
acknowledged() { [[ $(stat -c %s "$work/acks" 2>/dev/null || echo 0) -ge $1 ]]; }

# cut_power PROCESS SAID: kills the machine that PROCESS runs, which must have said SAID. Data that its kernel had not written is lost.
cut_power() {
  kill -KILL "$(cat "$work/pid")" || true
  wait "$1" || true
  said "$2" && ! grep -q '^hmann-vm: failed' "$work/console.log"
}

# cut STAGE: boots, and cuts the power as soon as the machine requests it.
cut() {
  rm -f "$work/console.log"
  boot "cut=$1" &
  await $! said "cut the power"
  cut_power $! "cut the power" || die "no power cut in stage $1"
}

# live PARAMETERS: boots with the collection's disk, whose write cache is lost at the end, and writes acknowledgments to $work/acks.
live() {
  node tests/vm/cache_disk.mjs "$work/live.img" "$work/live.socket" "$life" >"$work/cache_disk.log" &
  local disk=$!
  while [[ ! -S $work/live.socket ]]; do sleep 0.05; done
  boot "$1" -drive "file=nbd:unix:$work/live.socket,if=virtio,format=raw,cache=writeback" -serial "file:$work/acks"
  wait "$disk"
}

# write_and_cut: checks the lives before, starts another one, and cuts the power at a random moment: up to 2 s after some writes, or, in
# each fourth life, after it begins. Adds its acknowledged writes to $lives.
write_and_cut() {
  rm -f "$work/console.log" "$work/acks" "$work/live.socket"
  live "lives=$lives" &
  local writer
  await $! said writes
  if ((life % 4 > 0)); then await $! acknowledged $((RANDOM % 300 + 1)); fi
  sleep "$((RANDOM % 20))e-1"
  cut_power $! writes || die "life $life of the collection failed"
  know_lives
  local -a counts=()
  for writer in 0 1 2; do counts+=("$(tr -cd $writer <"$work/acks" | wc -c)"); done
  lives+=${lives:+:}$(IFS=,; echo "${counts[*]}")
  printf 'test-vm: life %d: %s acknowledged writes; %s\n' "$life" "${counts[*]}" "$(cat "$work/cache_disk.log")"
}

# Puts what the guest found of the last life in the place of what was acknowledged.
know_lives() {
  local found
  found=$(sed -n 's/^hmann-vm: holds //p' "$work/console.log")
  if [[ -n $lives ]]; then lives=$(sed "s/[0-9,]*\$/$found/" <<<"$lives"); fi
}

# cut_collections CUTS: lives of a collection, each of which ends by a power cut.
cut_collections() {
  local lives="" life
  RANDOM=${HMANN_SEED:-1}
  for ((life = 1; life <= $1; ++life)); do write_and_cut; done
  rm -f "$work/live.socket"
  live "lives=$lives last=1"
  passed "the collection after power cuts"
  know_lives
  printf 'test-vm: %d power cuts; writes of each life: %s\n' "$1" "$lives"
}

# passed WHAT: checks the console for success.
passed() {
  said passed && ! grep -q '^hmann-vm: failed' "$work/console.log" ||
    die "$1 failed: the machine did not say 'hmann-vm: passed' (limit: $limit s)"
}

for program in qemu-system-x86_64 busybox cpio dpkg apt-get node; do
  command -v "$program" >/dev/null || die "needs $program: ./dev setup vm"
done
rm -rf "$work"
mkdir -p "$work"
fetch_kernel
make_initramfs
make_disk
if [[ -n $cuts ]]; then
  cut_collections "$cuts"
  exit
fi
begin=$SECONDS
boot
printf 'test-vm: the machine ran for %d s; its console is in %s\n' $((SECONDS - begin)) "${work#"$PWD/"}/console.log"
passed "the machine"
for stage in lead lists back write; do cut "$stage"; done
boot cut=none
passed "the build after power cuts"
cut_collections 2
rm -rf "$work"/{disk,disk.img,live.img,initramfs,initramfs.cpio,nvdimm0.img,nvdimm1.img}
