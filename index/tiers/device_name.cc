#include "index/tiers/device_name.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

std::string Numbers(dev_t device) { return absl::StrCat(major(device), ":", minor(device)); }

dev_t DeviceNumber(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_dev : 0;
}

}  // namespace

std::string SysfsOfFile(int fd) {
  return absl::StrCat("/sys/dev/block/", Numbers(DeviceNumber(fd)));
}
std::string SysfsOfCharacterDevice(dev_t node) {
  return absl::StrCat("/sys/dev/char/", Numbers(node));
}

std::string DeviceOfFile(int fd) {
  std::error_code error;
  const fs::path target = fs::read_symlink(SysfsOfFile(fd), error);
  return error ? absl::StrCat("device ", Numbers(DeviceNumber(fd)))
               : absl::StrCat("/dev/", target.filename().string());
}

std::optional<std::string> DeviceAttribute(const std::string& sysfs, const std::string& name) {
  std::error_code error;
  fs::path folder = fs::canonical(sysfs, error);
  if (error) return std::nullopt;
  for (; folder != "/sys/devices" && folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& place : {folder / name, folder / "device" / name}) {
      std::ifstream file(place);
      if (std::string word; file >> word) return word;
    }
  }
  return std::nullopt;
}

std::optional<int> DeviceNode(const std::string& sysfs) {
  int node = -1;
  const std::optional<std::string> text = DeviceAttribute(sysfs, "numa_node");
  return text.has_value() && absl::SimpleAtoi(*text, &node) && node >= 0 ? std::optional(node)
                                                                         : std::nullopt;
}

}  // namespace hmann
