#pragma once

#include <cstdint>
#include <vector>

namespace hmann::eval {

/// One bit per line that a search touches, in order. A model answers once, off the clock,
/// and the timed run replays its answers. So no time is charged for the model itself.
class TouchLog {
 public:
  /// Appends `count` (1 to 64) bits, the first one lowest.
  void Append(std::uint64_t bits, std::uint32_t count) {
    const std::uint32_t shift = size_ % 64;
    if (shift == 0) words_.push_back(0);
    words_.back() |= bits << shift;
    if (shift + count > 64) words_.push_back(bits >> (64 - shift));
    size_ += count;
  }

  std::uint64_t size() const { return size_; }

  /// Reads from the front, or from bit `at`.
  class Reader {
   public:
    explicit Reader(const TouchLog& log, std::uint64_t at = 0)
        : words_(log.words_.data()), at_(at), size_(log.size_) {}
    /// Returns the next `count` (1 to 64) bits; that many must remain.
    std::uint64_t Take(std::uint32_t count) {
      const std::uint32_t shift = at_ % 64;
      std::uint64_t bits = words_[at_ / 64] >> shift;
      if (shift + count > 64) bits |= words_[at_ / 64 + 1] << (64 - shift);
      at_ += count;
      return count == 64 ? bits : bits & ((std::uint64_t{1} << count) - 1);
    }
    bool AtEnd() const { return at_ == size_; }
    std::uint64_t at() const { return at_; }

   private:
    const std::uint64_t* words_;
    std::uint64_t at_, size_;
  };

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t size_ = 0;
};

}  // namespace hmann::eval
