/// Between the wire and the engine (dials and counters: proto/wire.h): what a request
/// holds is checked here, before it waits for a thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/hmann.h"
#include "hmann/v1/search.pb.h"
#include "server/options.h"

namespace hmann {

/// Query vectors in an index's dtype, row-major. Bytes are viewed where they lie in the
/// request, which must outlive this.
struct QueryVectors {
  std::size_t count = 0;
  std::span<const std::byte> bytes;
  std::vector<std::byte>
      converted;  ///< what `bytes` views when they came as floats for an index of integers

  const std::byte* row(std::size_t i) const { return bytes.data() + i * (bytes.size() / count); }
};

/// Errors: INVALID_ARGUMENT (BadRequest naming `field`) for no vector, a size that is no
/// multiple of dim, more than `most` vectors, or a float that the index's dtype cannot
/// hold. NaN and zero vectors are the engine's to refuse.
absl::StatusOr<QueryVectors> ReadVectors(const v1::Vectors& vectors, const IndexInfo& info,
                                         std::uint64_t most, absl::string_view field);

/// How a request is to be searched, and its budget (0: none).
struct RequestOptions {
  ResolvedSearch search;
  std::chrono::nanoseconds budget{0};
};

/// Errors: INVALID_ARGUMENT naming the field, for a target that cannot be met, too;
/// FAILED_PRECONDITION for a target where the index is not tuned, or its table is stale.
absl::StatusOr<RequestOptions> ReadOptions(const v1::SearchOptions& wire, const Index& index,
                                           const RequestLimits& limits);

/// What `queries` answers of k ids take on the wire.
std::uint64_t ReplyBytes(std::uint64_t queries, std::uint32_t k);

/// Checks ReplyBytes against limits.max_reply_bytes.
absl::Status CheckReplySize(std::uint64_t queries, std::uint32_t k, const RequestLimits& limits);

/// Bytes of a vector of the answer. Errors: INVALID_ARGUMENT naming the field: no label,
/// more than max_batch, or an answer of more than max_reply_bytes.
absl::StatusOr<std::uint64_t> CheckGet(const v1::GetRequest& request, const IndexInfo& info,
                                       const RequestLimits& limits);

std::optional<v1::Prediction> PredictionOf(const ResolvedSearch& search);
void ToWire(const IndexInfo& info, v1::IndexInfo* wire);

/// Bytes that a request of max_batch vectors of `dim` floats may take.
std::uint64_t MaxRequestBytes(std::uint32_t dim, const RequestLimits& limits);

}  // namespace hmann
