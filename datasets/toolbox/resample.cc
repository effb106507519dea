#include "datasets/toolbox/resample.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "datasets/toolbox/norm_spread.h"
#include "datasets/vector_writer.h"
#include "index/base/errors.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr std::uint64_t kHeldOut = 100;  ///< one row in this many is for queries

/// Streams of one seed.
enum ResampleStream : std::uint64_t { kOrder = 1, kParts, kQueryParts };

class Mixer {
 public:
  Mixer(const VectorFile& from, const std::vector<std::uint32_t>& near_rows,
        const ResampleOptions& options)
      : from_(from),
        near_rows_(near_rows),
        options_(options),
        held_out_(from.n()),
        stream_(Random(options.seed, options.queries ? kQueryParts : kParts)) {
    order_ = RandomPermutation(static_cast<std::uint32_t>(from.n()), Random(options.seed, kOrder));
    const std::size_t kept = order_.size() - order_.size() / kHeldOut;
    for (std::size_t i = kept; i < order_.size(); ++i) held_out_[order_[i]] = true;
    order_ = options.queries
                 ? std::vector(order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end())
                 : std::vector(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept));
  }

  void Row(std::uint64_t i, std::byte* out) const {
    const std::uint32_t row = order_[i % order_.size()];
    std::memcpy(out, from_.Row(row), from_.row_bytes());
    std::vector<std::uint32_t> near;
    for (std::uint32_t j = 0; j < options_.near; ++j) {
      const std::uint32_t other = near_rows_[std::size_t{row} * options_.near + j];
      if (other >= from_.n()) break;
      if (!held_out_[other]) near.push_back(other);
    }
    if (near.empty()) return;
    const std::size_t component = SizeOf(from_.dtype());
    for (std::uint64_t part = 0; part < options_.parts; ++part) {
      const std::uint64_t draw = 2 * (i * options_.parts + part);
      if (RandomUnit(stream_, draw) >= options_.share) continue;
      const std::byte* other = from_.Row(near[RandomBelow(stream_, draw + 1, near.size())]);
      const std::size_t begin = from_.dim() * part / options_.parts * component;
      const std::size_t end = from_.dim() * (part + 1) / options_.parts * component;
      std::memcpy(out + begin, other + begin, end - begin);
    }
  }

 private:
  const VectorFile& from_;
  const std::vector<std::uint32_t>& near_rows_;
  const ResampleOptions& options_;
  std::vector<std::uint32_t> order_;
  std::vector<bool> held_out_;
  std::uint64_t stream_;
};

}  // namespace

absl::Status ResampleOptions::Validate(const VectorFile& from) const {
  const auto bad = [](const std::string& what, auto found, const auto&... expected) {
    return InvalidArgument(what, ": ", found, " found, ", expected..., " expected");
  };
  if (n == 0) return bad("n", n, "at least 1");
  if (from.n() < kHeldOut)
    return bad(absl::StrCat(from.path(), ": rows"), from.n(), "at least ", kHeldOut);
  if (parts == 0 || parts > from.dim())
    return bad("parts", parts, "1 to ", from.dim(), " (the components of ", from.path(), ")");
  if (near == 0 || near > 1024) return bad("near", near, "1 to 1024");
  if (!(share >= 0 && share <= 1)) return bad("share", share, "0 to 1");
  if (threads < 0) return bad("threads", threads, "at least 0");
  return absl::OkStatus();
}

absl::Status Resample(const VectorFile& from, const std::vector<std::uint32_t>& near_rows,
                      const ResampleOptions& options, const std::string& path, Progress& progress) {
  HMANN_RETURN_IF_ERROR(options.Validate(from));
  HMANN_ASSIGN_OR_RETURN(const DType dtype, DTypeOfSuffix(path));
  if (dtype != from.dtype()) {
    return InvalidArgument(path, ": a suffix of ", std::string(Name(from.dtype())),
                           " expected, as ", from.path(), " is, ", std::string(Name(dtype)),
                           " found");
  }
  HMANN_ASSIGN_OR_RETURN(const NormSpread spread,
                         NormSpread::Make(options.norm_sigma, options.seed, path, dtype));
  const Mixer mixer(from, near_rows, options);
  return WriteMadeRows(
      path, from.dim(), options.n, options.threads,
      [&](std::uint64_t i, std::byte* row) {
        mixer.Row(options.first + i, row);
        spread.Apply(options.first + i, from.dim(), row);
      },
      progress, options.cancelled);
}

}  // namespace hmann
