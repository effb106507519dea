#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace hmann {

/// "/dev/vda1": the block device that a file lies on, as sysfs names it; "device 0:35"
/// for a file system without one.
std::string DeviceOfFile(int fd);
/// The folder in sysfs of the block device that a file lies on, or of a character device
/// (`node`): "/sys/dev/block/259:0".
std::string SysfsOfFile(int fd);
std::string SysfsOfCharacterDevice(dev_t node);
/// Content of one attribute of a device, or of the devices that it is part of; nothing if
/// none has it.
std::optional<std::string> DeviceAttribute(const std::string& sysfs, const std::string& name);
/// Its NUMA node, if it has one.
std::optional<int> DeviceNode(const std::string& sysfs);

}  // namespace hmann
