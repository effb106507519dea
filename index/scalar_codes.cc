#include "index/scalar_codes.h"

#include <algorithm>
#include <utility>

#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"

namespace hmann {
namespace {

/// Components to which the range is fitted.
constexpr std::size_t kSampled = std::size_t{1} << 20;
/// Codes begin at multiples of this: half a cache line, so that codes of 96 bytes are not
/// padded.
constexpr std::size_t kAlignment = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<ScalarCodes>> MakeScalarCodes(const PlacedIndex& index,
                                                             std::uint32_t bits, const Tier& tier,
                                                             Progress& progress) {
  const std::size_t n = index.layers.n();
  const auto row = [&index](std::size_t at) {
    const auto id = static_cast<NodeId>(at);
    return id < index.n1() ? index.FastRow(id) : index.Record(id) + index.records.row_offset;
  };
  const std::size_t count = std::min(n, std::max<std::size_t>(256, kSampled / index.kernels.dim));
  HMANN_ASSIGN_OR_RETURN(ScalarQuantizer quantizer,
                         ScalarQuantizer::Learn(index.kernels, bits, count,
                                                [&](std::size_t i) { return row(i * n / count); }));
  const std::size_t stride = (quantizer.code_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  progress.Start("scalar codes", n, "vectors");
  HMANN_ASSIGN_OR_RETURN(Region region, tier.Make(n * stride, [&](std::byte* codes) {
    ThreadPool pool(UsableCores());
    pool.ParallelFor(n, 4096, [&](std::size_t begin, std::size_t end, int) {
      ScalarQuantizer::Scratch scratch;
      for (std::size_t i = begin; i < end; ++i)
        quantizer.Encode(row(i), codes + i * stride, scratch);
      progress.Advance(end - begin);
    });
  }));
  progress.Finish();
  auto codes = std::make_unique<ScalarCodes>(
      ScalarCodes{std::move(quantizer), std::move(region), index, tier.traits().name});
  codes->view.quantizer = &codes->quantizer;
  codes->view.kernels = codes->quantizer.kernels();
  for (LayerView& layer : codes->view.upper) {
    layer.rows = codes->region.data();
    layer.row_stride = stride;
    layer.kernels = &codes->view.kernels;
  }
  return codes;
}

}  // namespace hmann
