#include "index/scalar_codes.h"

#include <cstring>
#include <utility>

#include "index/base/buffer.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"

namespace hmann {

std::unique_ptr<ScalarCodes> ViewScalarCodes(const PlacedIndex& index, ScalarQuantizer quantizer,
                                             const std::byte* codes, std::size_t stride) {
  auto made = std::make_unique<ScalarCodes>(ScalarCodes{std::move(quantizer), {}, index, ""});
  made->view.quantizer = &made->quantizer;
  made->view.kernels = made->quantizer.kernels();
  for (LayerView& layer : made->view.upper) {
    layer.rows = codes;
    layer.row_stride = stride;
    layer.kernels = &made->view.kernels;
  }
  return made;
}

absl::StatusOr<std::unique_ptr<ScalarCodes>> MakeScalarCodes(const PlacedIndex& index,
                                                             ScalarQuantizer quantizer,
                                                             const std::byte* stored,
                                                             const Tier& tier, Progress& progress) {
  const std::size_t n = index.layers.n(), bytes = quantizer.code_bytes(),
                    stride = RoundUp(bytes, kCodeAlignment);
  progress.Start("scalar codes", n, "vectors");
  HMANN_ASSIGN_OR_RETURN(Region region, tier.Make(n * stride, [&](std::byte* codes) {
    ThreadPool pool(UsableCores());
    pool.ParallelFor(n, 4096, [&](std::size_t begin, std::size_t end, int) {
      ScalarQuantizer::Scratch scratch;
      for (std::size_t i = begin; i < end; ++i) {
        const auto id = static_cast<NodeId>(i);
        if (stored != nullptr) {
          std::memcpy(codes + i * stride, stored + i * bytes, bytes);
        } else {
          quantizer.Encode(id < index.n1() ? index.FastRow(id) : index.Record(id),
                           codes + i * stride, scratch);
        }
      }
      progress.Advance(end - begin);
    });
  }));
  progress.Finish();
  std::unique_ptr<ScalarCodes> made =
      ViewScalarCodes(index, std::move(quantizer), region.data(), stride);
  made->region = std::move(region);
  made->tier = tier.traits().name;
  return made;
}

}  // namespace hmann
