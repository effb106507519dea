#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace hmann {

/// The block device that a file lies on, as sysfs names it: "/dev/vda1"; "device 0:35"
/// for a file system without one.
std::string DeviceOfFile(int fd);
/// The sysfs folder of the block device that a file lies on, or of a character device
/// (`node`): "/sys/dev/block/259:0".
std::string SysfsOfFile(int fd);
std::string SysfsOfCharacterDevice(dev_t node);
/// The content of one attribute of a device, or of the devices that it is part of;
/// nullopt if none has it.
std::optional<std::string> DeviceAttribute(const std::string& sysfs, const std::string& name);
/// The device's NUMA node, if it has one.
std::optional<int> DeviceNode(const std::string& sysfs);

}  // namespace hmann
