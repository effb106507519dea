#!/usr/bin/env bash
# Boots a Debian cloud kernel under qemu (software emulation, no KVM) with a memory-only NUMA node and two virtual NVDIMMs, and runs
# tests/vm/guest.sh inside. Usage: tests/vm/run.sh BUILD_FOLDER. Everything is made under build/vm; nothing is installed.
# Then boots repeatedly, cuts the power in the middle of a build, and checks what is left.
# Exit status: 0 only if the guest says that everything passed.
set -euo pipefail
build=$(readlink -f "$1")
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
  local -a programs=("$build/bin/hmann" "$(find "$build" -name tiers_test -type f)" "$(PATH=$PATH:/sbin:/usr/sbin command -v mkfs.ext4)")
  mkdir -p "$root"/{bin,dev,proc,sys,tmp,mnt/pmem,etc}
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
}

# boot [PARAMETER]: boots the machine with a kernel parameter.
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
    -append "console=ttyS0 loglevel=3 panic=-1 random.trust_cpu=on ${1:-}")
  truncate -s 256M "$work/nvdimm0.img" "$work/nvdimm1.img"
  timeout --foreground --kill-after=10 "$limit" qemu-system-x86_64 -pidfile "$work/pid" "${machine[@]}" </dev/null 2>&1 | sed -u 's/\r//g' |
    tee "$work/console.log" || true
}

# cut STAGE: boots, and kills the machine as soon as it requests it. Data that its kernel had not written is lost.
cut() {
  rm -f "$work/console.log"
  boot "cut=$1" &
  local booted=$! left
  for ((left = limit * 20; left > 0; --left)); do
    ! grep -q '^hmann-vm: \(cut the power\|failed\)' "$work/console.log" 2>/dev/null || break
    kill -0 "$booted" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL "$(cat "$work/pid")" || true
  wait "$booted" || true
  grep -q '^hmann-vm: cut the power$' "$work/console.log" && ! grep -q '^hmann-vm: failed' "$work/console.log" || die "no power cut in stage $1"
}

# passed WHAT: checks the console for success.
passed() {
  grep -q '^hmann-vm: passed$' "$work/console.log" && ! grep -q '^hmann-vm: failed' "$work/console.log" ||
    die "$1 failed: the machine did not say 'hmann-vm: passed' (limit: $limit s)"
}

for program in qemu-system-x86_64 busybox cpio dpkg apt-get; do
  command -v "$program" >/dev/null || die "needs $program: ./dev setup vm"
done
rm -rf "$work"
mkdir -p "$work"
fetch_kernel
make_initramfs
make_disk
begin=$SECONDS
boot
printf 'test-vm: the machine ran for %d s; its console is in %s\n' $((SECONDS - begin)) "${work#"$PWD/"}/console.log"
passed "the machine"
for stage in lead lists back write; do cut "$stage"; done
boot cut=none
passed "the build after power cuts"
rm -rf "$work"/{disk,disk.img,initramfs,initramfs.cpio,nvdimm0.img,nvdimm1.img}
