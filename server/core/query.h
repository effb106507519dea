/// What a request asks for, independent of any wire format. A protocol layer (a "face")
/// reads the request; this code checks it before it waits for a thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hmann/collection.h"
#include "hmann/hmann.h"
#include "server/core/options.h"
#include "server/core/registry.h"

namespace hmann::server {

/// Query vectors in QueryType of an index's dtype, row-major. `bytes` may view the
/// request itself, which must outlive this.
struct QueryVectors {
  std::size_t count = 0;
  std::span<const std::byte> bytes;
  std::vector<std::byte>
      converted;  ///< storage behind `bytes` when floats came for an integer index

  const std::byte* row(std::size_t i) const { return bytes.data() + i * (bytes.size() / count); }
};

/// Reads vectors from bytes, or from floats. Errors: INVALID_ARGUMENT naming `field`. Its
/// causes: no vector, a size that is not a multiple of dim, more than `most` vectors, or
/// a float that the index's dtype cannot hold. The engine rejects NaN and zero vectors.
absl::StatusOr<QueryVectors> VectorsOf(std::span<const std::byte> bytes, const IndexInfo& info,
                                       std::uint64_t most, absl::string_view field);
absl::StatusOr<QueryVectors> VectorsOf(std::span<const float> floats, const IndexInfo& info,
                                       std::uint64_t most, absl::string_view field);

/// How to search for a request, and its budget (0: none).
struct RequestParams {
  ResolvedSearch search;
  std::chrono::nanoseconds budget{0};
  bool counters = false;                             ///< the answer includes them
  bool narrow = false;                               ///< a query ends within a few hundred us
  std::size_t together = 1;                          ///< queries that a thread keeps in flight
  std::shared_ptr<const Matches> matches = nullptr;  ///< of the filter, if there is one
  /// How to search a collection, instead of `search`.
  std::shared_ptr<const PreparedSearch> prepared = nullptr;
  std::optional<std::uint64_t> matching = {};  ///< vectors that the filter selects
};

/// `filter`: nullptr: none. Errors: INVALID_ARGUMENT naming the field ("options.k",
/// "options.filter"), also for a target that cannot be met; FAILED_PRECONDITION for a
/// target when the index is not tuned or its tuned table is stale, and (NO_ATTRIBUTES)
/// for a filter when it has no attributes; DATA_LOSS.
absl::StatusOr<RequestParams> ResolveFor(const Snapshot& index, const SearchParams& requested,
                                         const Filter* filter, const RequestLimits& limits);
/// Turns an option's error, "k: expected ...", into INVALID_ARGUMENT for that field.
absl::Status BadOption(const absl::Status& why);

/// A request that was read and checked.
struct Query {
  Snapshot index;
  RequestParams options;
  QueryVectors vectors;
};

/// The reply bytes of `queries` answers with k ids each.
std::uint64_t ReplyBytes(std::uint64_t queries, std::uint32_t k);
/// Checks ReplyBytes against limits.max_reply_bytes.
absl::Status CheckReplySize(std::uint64_t queries, std::uint32_t k, const RequestLimits& limits);

/// The bytes of one vector in the answer to a Get. Errors: INVALID_ARGUMENT naming the
/// field, for no label, for more than max_batch, or for an answer over max_reply_bytes.
absl::StatusOr<std::uint64_t> CheckGet(std::uint64_t labels, const IndexInfo& info,
                                       const RequestLimits& limits);

}  // namespace hmann::server
