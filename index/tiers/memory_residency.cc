#include <numaif.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hmann/tier.h"
#include "index/base/units.h"
#include "index/tiers/region_builder.h"

namespace hmann {
namespace {

constexpr std::uintptr_t kPageBytes = 4_KiB;
constexpr std::size_t kMostPagesAsked = 65536;

std::string Percent(double share) {
  return absl::StrCat(static_cast<int>(std::floor(share * 100 + 1e-9)), " %");
}

/// The node of every page, or of kMostPagesAsked evenly spread pages, from move_pages(2)
/// without a target.
void AskNodes(std::uintptr_t begin, std::size_t pages, MemoryResidency& where) {
  const std::size_t requested = std::min(pages, kMostPagesAsked);
  std::vector<void*> addresses(requested);
  std::vector<int> status(requested, -ENOENT);
  for (std::size_t i = 0; i < requested; ++i) {
    const std::size_t page = pages <= kMostPagesAsked
                                 ? i
                                 : i * (pages / requested) + i * (pages % requested) / requested;
    addresses[i] = reinterpret_cast<void*>(begin + page * kPageBytes);
  }
  if (::move_pages(0, requested, addresses.data(), nullptr, status.data(), 0) < 0) {
    where.error = absl::StrCat("move_pages: ", std::strerror(errno));
    return;
  }
  std::map<int, std::size_t> count;
  std::size_t present = 0;
  for (const int node : status) {
    if (node < 0) continue;
    ++count[node];
    ++present;
  }
  where.present = static_cast<double>(present) / static_cast<double>(requested);
  for (const auto& [node, n] : count)
    where.nodes.emplace_back(node, static_cast<double>(n) / static_cast<double>(present));
}

/// Bytes of a region, and what smaps reports of the mappings that lie wholly inside.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  MemoryResidency* where = nullptr;
  std::uint64_t covered = 0, huge_kib = 0, locked_kib = 0;
};

/// If the mappings inside a range do not cover it, some mapping is shared with other
/// bytes, and its figures cannot be separated. Then it reports nothing.
void ReadSmaps(std::vector<Range> ranges) {
  if (ranges.empty()) return;
  std::ifstream smaps("/proc/self/smaps");
  Range* inside = nullptr;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from, to;
    std::uint64_t kib;
    char field[64];
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const Range& range) {
        return from >= range.begin && to <= range.end;
      });
      inside = found == ranges.end() ? nullptr : &*found;
      if (inside != nullptr) inside->covered += to - from;
    } else if (inside != nullptr &&
               std::sscanf(line.c_str(), "%63[^:]: %" SCNu64 " kB", field, &kib) == 2) {
      const std::string_view name(field);
      const bool pool = name == "Private_Hugetlb" ||
                        name == "Shared_Hugetlb";  // never paged out nor counted as locked
      if (pool || name == "AnonHugePages" || name == "FilePmdMapped" || name == "ShmemPmdMapped")
        inside->huge_kib += kib;
      if (pool || name == "Locked") inside->locked_kib += kib;
    }
  }
  for (const Range& range : ranges) {
    if (range.covered != range.end - range.begin) continue;
    const auto bytes = static_cast<double>(range.covered);
    range.where->huge = static_cast<double>(range.huge_kib) * 1024 / bytes;
    range.where->locked = static_cast<double>(range.locked_kib) * 1024 / bytes;
  }
}

}  // namespace

MemoryResidency Region::Where() const {
  const Region* const one[] = {this};
  return std::move(Where(one).front());
}

std::vector<MemoryResidency> Region::Where(std::span<const Region* const> regions) {
  std::vector<MemoryResidency> all(regions.size());
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Parts& parts = *regions[i]->parts_;
    MemoryResidency& where = all[i];
    if (parts.size == 0) continue;
    where.bytes = parts.size;
    where.file_backed = parts.file_backed;
    where.device = parts.device;
    if (parts.bus != nullptr) where.note = absl::StrCat("emulated ", parts.bus->spec.ToString());
    if (parts.blocks != nullptr) {
      parts.blocks->Where(&where);
      continue;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(parts.data);
    AskNodes(begin, (parts.size + kPageBytes - 1) / kPageBytes, where);
    ranges.push_back({begin, begin + parts.capacity, &where});
    if (!parts.device.empty() && where.nodes.empty()) {
      where.present = 1;  // addressed directly: no pages to bring in
      if (parts.device_node.has_value()) where.nodes.emplace_back(*parts.device_node, 1.0);
    }
  }
  ReadSmaps(std::move(ranges));
  return all;
}

std::string MemoryResidency::ToString() const {
  if (bytes == 0) return "empty";
  std::vector<std::string> parts;
  if (!note.empty()) parts.push_back(note);
  if (!device.empty()) parts.push_back(device);
  if (cached.has_value()) parts.push_back(absl::StrCat(Percent(*cached), " in the page cache"));
  if (file_backed) parts.push_back("page cache");
  if (!error.empty()) {
    parts.push_back(absl::StrCat("node unknown (", error, ")"));
  } else if (device.empty() && (file_backed || present < 1)) {
    parts.push_back(absl::StrCat(Percent(present), " present"));
  }
  for (const auto& [node, share] : nodes)
    parts.push_back(absl::StrCat("node ", node, ": ", Percent(share)));
  if (huge.has_value() && !file_backed && device.empty())
    parts.push_back(absl::StrCat("2 MiB pages ", Percent(*huge)));
  if (locked.has_value() && *locked > 0)
    parts.push_back(*locked >= 1 ? "locked" : absl::StrCat("locked ", Percent(*locked)));
  return absl::StrJoin(parts, ", ");
}

}  // namespace hmann
