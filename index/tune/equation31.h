#pragma once

#include <array>

#include "hmann/dials.h"
#include "index/tune/counting.h"

namespace hmann {

/// Equation 3.1 of the paper (doc/paper.md, section 8): what a query will take, by its
/// distances alone.
///
///     T = ef_l1 * C * T_fast  +  ceil(ef_l1 / Thr) * ef_l0 * C * T_slow
///
/// ef_l1 * C and ef_l1 * ef_l0 * C are what the counters say: distances to vectors in
/// fast and in slow memory, on a device records that are read. Thr threads share the
/// beams of a multi-start search; the others are one search. The paper has no codes: a
/// third term is the estimates of quantised search. T_fast, T_slow and the price of an
/// estimate are measured on this machine and placement, each by a setting whose other
/// terms are known.
class Equation31 {
 public:
  /// `device`: L0 is read from a block tier.
  explicit Equation31(bool device) : device_(device) {}

  /// Tells it what a setting took that was counted: the term that is not known yet gets
  /// its price. Upper first, then best-first, then quantised without and with cells.
  void Learn(const Dials& dials, const Counted& counted, double mean_us);

  double PredictUs(const Dials& dials, const Counted& counted) const;

  double fast_ns() const { return fast_ns_; }
  double slow_ns() const { return slow_ns_; }
  double code_ns(bool cells) const { return code_ns_[cells ? 1 : 0]; }

 private:
  double SlowWork(const Dials& dials, const Counted& counted) const;

  bool device_;
  double fast_ns_ = 0, slow_ns_ = 0;
  std::array<double, 2> code_ns_{};  ///< at any place; cell by cell
};

}  // namespace hmann
