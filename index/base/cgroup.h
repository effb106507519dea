/// The cgroups of this process.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hmann {

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// The folders of this process's cgroup for `controller` ("" is the v2 tree), innermost
/// first, up to the mount. Some of them may not exist. `root`: for tests, a tree with its
/// own /proc/self/cgroup and /sys/fs/cgroup.
std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& root = "");

/// The first number of a one-line file; kNoLimit when it is missing or says "max" or -1.
std::uint64_t ReadNumber(const std::string& path);

/// The value after `key` in a "key value" file, 0 when it is missing.
std::uint64_t ReadKey(const std::string& path, const std::string& key);

}  // namespace hmann
