/// Converts between Vald's messages and the core. doc/scale-out.md has the rules.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "hmann/collection.h"
#include "server/core/jobs.h"
#include "vald/payload.pb.h"

namespace hmann::server {

/// What an id stands for. A decimal number below 2^63 is that number. Any other id is a
/// string label, which collections may have. Errors: INVALID_ARGUMENT for an empty id;
/// NOT_FOUND for one that no vector of this index can have.
absl::StatusOr<VectorLabel> LabelOf(const std::string& id, const Snapshot& index);

/// What a request changes of the answer to a search.
struct Cut {
  std::uint32_t num = 0, min_num = 0;
  float radius = 0;  ///< on Vald's scale; 0: none
  std::string request_id;
};

/// A search that was read and checked, of one query or more.
struct Asked {
  Query query;
  std::chrono::nanoseconds timeout{0};  ///< 0: none
  std::vector<Cut> cuts;                ///< of each query
};

using Configs = std::span<const ::payload::v1::Search_Config* const>;
/// How to search; the vectors are missing. Queries of one call are searched with the
/// largest num and edge_size of all and the shortest timeout. Errors: INVALID_ARGUMENT
/// naming the field; those of Registry::Get.
absl::StatusOr<Asked> ReadConfigs(const Serving& serving, Configs configs);
/// Adds the vectors, one for each config. `floats` outlives the result, if there is one
/// vector. Errors: INVALID_ARGUMENT naming the field; RESOURCE_EXHAUSTED.
absl::Status ReadVectors(const Serving& serving, std::span<const std::span<const float>> floats,
                         Asked* asked);
/// The name of a field of request `i` of a call in an error.
std::string FieldOf(const char* name, std::size_t i, std::size_t requests);

/// The facts of a call that may end sooner.
CallFacts Within(CallFacts facts, std::chrono::nanoseconds timeout);

/// Answers one query, with distances on Vald's scale: the root of squared L2, 1 - cosine,
/// the negative inner product. Returns false if there are too few.
bool ToWire(const Answer& answer, const Snapshot& index, const Cut& cut,
            ::payload::v1::Search_Response* response);

/// Appends a stored vector as floats.
void AppendFloats(const std::byte* row, const IndexInfo& info,
                  google::protobuf::RepeatedField<float>* floats);
/// The id of a vector. (A string that cannot be read leaves its number.)
std::string IdOf(std::uint64_t label, const Snapshot& index);

}  // namespace hmann::server
