#include "index/format/info.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace hmann {
namespace {

constexpr std::array<std::string_view, 4> kOrders = {"degree", "in", "out", "random"};

}  // namespace

std::string_view Name(PromotionOrder order) { return kOrders[static_cast<std::size_t>(order)]; }

std::string_view Name(CodePlace place) { return place == CodePlace::kHub ? "hub" : "edge"; }

absl::StatusOr<PromotionOrder> ParsePromotionOrder(std::string_view name) {
  for (std::size_t i = 0; i < kOrders.size(); ++i) {
    if (kOrders[i] == name) return static_cast<PromotionOrder>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("promotion: expected degree, in, out or random; found '", std::string(name), "'"));
}

}  // namespace hmann
