#pragma once

#include <array>

#include "hmann/resolved_params.h"
#include "index/tune/counting.h"

namespace hmann {

/// Equation 3.1 of the paper (doc/paper.md, section 8): predicts the time of a query from
/// its distance counts alone.
///
///     T = ef_l1 * C * T_fast  +  ceil(ef_l1 / Thr) * ef_l0 * C * T_slow
///
/// The counters give ef_l1 * C and ef_l1 * ef_l0 * C: distances to vectors in fast and in
/// slow memory, or node reads on a device. Thr threads share the candidates of a
/// multi-start search; other searches use one thread. The paper has no codes, so a third
/// term covers the estimates by codes. T_fast, T_slow and the cost of an estimate are
/// measured on this machine and placement, each by a setting whose other terms are known.
class Equation31 {
 public:
  /// `device`: L0 is read from a block tier.
  explicit Equation31(bool device) : device_(device) {}

  /// Learns from the time of a counted setting: solves for the term that is not known
  /// yet. Call it for upper first, then graph, then quantized without and with cells.
  void Learn(const ResolvedParams& params, const Counted& counted, double mean_us);

  double PredictUs(const ResolvedParams& params, const Counted& counted) const;

  double fast_ns() const { return fast_ns_; }
  double slow_ns() const { return slow_ns_; }
  double code_ns(bool cells) const { return code_ns_[cells ? 1 : 0]; }

 private:
  double SlowWork(const ResolvedParams& params, const Counted& counted) const;

  bool device_;
  double fast_ns_ = 0, slow_ns_ = 0;
  std::array<double, 3> code_ns_{};  ///< [0] anywhere, [1] cell by cell, [2] not quantized
};

}  // namespace hmann
