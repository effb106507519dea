#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "index/base/prefetch.h"
#include "index/tiers/emulation.h"

namespace hmann {

/// The emulation layer: slow memory as one thread touches it. Prefetch instructions begin
/// the way of bytes to the CPU; an emulated tier is told of every touch, and makes it
/// slow.
class SlowMemory {
 public:
  /// `bus`: of an emulated tier, which must outlive this; else nullptr. `shared`: as
  /// EmulatedLines.
  explicit SlowMemory(EmulatedBus* bus, OutstandingLines* shared = nullptr) {
    if (bus != nullptr) lines_.emplace(bus, TickClock(), shared);
  }

  /// A new query: nothing stays in a cache.
  void Begin() {
    if (lines_.has_value()) lines_->Clear();
  }
  void Fetch(std::span<const std::byte> bytes) {
    PrefetchLines(bytes.data(), bytes.size());
    if (lines_.has_value()) lines_->Fetch(bytes.data(), bytes.size());
  }
  /// Before they are read.
  void Use(std::span<const std::byte> bytes) {
    if (lines_.has_value()) lines_->Use(bytes.data(), bytes.size());
  }
  /// Whether what was fetched is here. On real memory nobody can tell; at the next step
  /// it probably is.
  bool Arrived(std::span<const std::byte> bytes) const {
    return !lines_.has_value() || lines_->Arrived(bytes.data(), bytes.size());
  }
  /// Whether demand would not have to wait for one more fetch.
  bool HasRoom() const { return !lines_.has_value() || lines_->HasRoom(); }

 private:
  std::optional<EmulatedLines> lines_;
};

}  // namespace hmann
