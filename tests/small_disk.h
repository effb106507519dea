/// A tmpfs, for tests that fill a disk (needs root).
#pragma once

#include <sys/mount.h>

#include <string>

namespace hmann {

struct SmallDisk {
  explicit SmallDisk(const std::string& path, const char* size = "size=2m") : path(path) {
    mounted = ::mount("tmpfs", path.c_str(), "tmpfs", 0, size) == 0;
  }
  bool Resize(const char* size) const { return Remount(0, size); }
  bool Remount(unsigned long flags, const char* size = "size=2m") const {
    return ::mount("tmpfs", path.c_str(), "tmpfs", MS_REMOUNT | flags, size) == 0;
  }
  ~SmallDisk() {
    if (mounted) ::umount2(path.c_str(), MNT_DETACH);
  }
  std::string path;
  bool mounted = false;
};

}  // namespace hmann
