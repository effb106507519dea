# To be sourced. make_tree TREE creates a bare Debian 12 at TREE (debootstrap; emptied first) that reaches this machine's package sources.
# in_tree COMMAND runs a command in it. Needs root.
[[ $EUID -eq 0 ]] || { echo "a bare tree is made by root" >&2; exit 1; }

leave_tree() { umount -l "$tree/proc" "$tree/dev" 2>/dev/null || true; }

make_tree() {
  tree=$1
  trap leave_tree EXIT
  leave_tree
  rm -rf "$tree"
  debootstrap --variant=minbase bookworm "$tree" >"$tree.log" 2>&1 || { tail -5 "$tree.log" >&2; exit 1; }
  mount -t proc proc "$tree/proc"
  mount --bind /dev "$tree/dev"
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/resolv.conf /etc/hosts; do
    [[ -e $file ]] && rm -rf "$tree$file" && cp -a "$file" "$tree$file"
  done
  in_tree apt-get -q update >>"$tree.log" 2>&1
}

in_tree() { chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
