#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "index/base/prefetch.h"
#include "index/tiers/emulation.h"

namespace hmann {

/// The emulation layer: slow memory as one thread accesses it. Prefetch instructions
/// start fetching bytes. An emulated tier is notified of every access and slows it down.
class SlowMemory {
 public:
  /// `bus`: of an emulated tier, which must outlive this; else nullptr. `shared`: as for
  /// EmulatedLines.
  explicit SlowMemory(EmulatedBus* bus, OutstandingLines* shared = nullptr) {
    if (bus != nullptr) lines_.emplace(bus, TickClock(), shared);
  }

  /// Starts a query: nothing stays in a cache.
  void Begin() {
    if (lines_.has_value()) lines_->Clear();
  }
  void Fetch(std::span<const std::byte> bytes) {
    PrefetchUnaligned(bytes.data(), bytes.size());
    if (lines_.has_value()) lines_->Fetch(bytes.data(), bytes.size());
  }
  /// Call before the bytes are read.
  void Use(std::span<const std::byte> bytes) {
    if (lines_.has_value()) lines_->Use(bytes.data(), bytes.size());
  }
  /// Whether the fetched bytes are here. On real memory this is unknown; at the next step
  /// they probably are.
  bool Arrived(std::span<const std::byte> bytes) const {
    return !lines_.has_value() || lines_->Arrived(bytes.data(), bytes.size());
  }
  /// Whether one more fetch would not make demand wait.
  bool HasRoom() const { return !lines_.has_value() || lines_->HasRoom(); }

 private:
  std::optional<EmulatedLines> lines_;
};

}  // namespace hmann
