#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "hmann/block_reader.h"

namespace hmann {

/// One test decorator for one tier; see decorators.h. Thread-safe.
class Decorator {
 public:
  virtual ~Decorator() = default;
  /// `region` expires with the region, which has `bytes` bytes.
  virtual std::unique_ptr<BlockReader> Wrap(std::unique_ptr<BlockReader> inner,
                                            std::weak_ptr<const void> region,
                                            std::uint64_t bytes) = 0;
  /// For MemoryResidency::note.
  virtual std::string Note() const = 0;
  /// Called before an addressable tier places a region.
  virtual absl::Status BeforePlace() { return absl::OkStatus(); }
};

std::unique_ptr<Decorator> MakeChecker();
std::unique_ptr<Decorator> MakeCounter();
std::unique_ptr<Decorator> MakeFailer(std::uint64_t every);
std::unique_ptr<Decorator> MakeDelayer(std::chrono::nanoseconds min, std::chrono::nanoseconds max,
                                       std::uint64_t seed);
std::unique_ptr<Decorator> MakeStaller(std::uint64_t after);

/// A reader that forwards everything.
class DecoratedReader : public BlockReader {
 public:
  explicit DecoratedReader(std::unique_ptr<BlockReader> inner)
      : BlockReader(inner->options()), inner_(std::move(inner)) {}

  std::byte* Frame(std::uint32_t frame) const override { return inner_->Frame(frame); }
  std::uint32_t InFlight() const override { return inner_->InFlight(); }
  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    return inner_->Submit(reads);
  }
  absl::Status Wait(std::chrono::steady_clock::time_point deadline,
                    std::vector<BlockDone>* done) override {
    return inner_->Wait(deadline, done);
  }

 protected:
  BlockReader& inner() { return *inner_; }
  const BlockReader& inner() const { return *inner_; }

 private:
  std::unique_ptr<BlockReader> inner_;
};

}  // namespace hmann
