/// Shared code of the `hmann data` subcommands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "datasets/toolbox/exact_neighbors.h"
#include "datasets/toolbox/fetch.h"
#include "datasets/toolbox/generate.h"
#include "datasets/toolbox/resample.h"
#include "datasets/toolbox/split.h"
#include "datasets/toolbox/tags.h"
#include "datasets/vector_file.h"
#include "hmann/hmann.h"
#include "index/base/json_reader.h"

namespace hmann::tools {

using Json = nlohmann::ordered_json;

/// The options of all `hmann data` subcommands.
struct DataFlags {
  bool json = false;
  std::string in, out;  // fetch: name and folder; convert, info: files
  std::string queries;
  std::vector<std::string> bases, labels;  // groundtruth: one of each a shard
  Metric metric = Metric::kL2;
  std::uint64_t rows = 0;
  FetchOptions fetch;
  GenerateOptions generate;
  ResampleOptions resample;
  SplitOptions split;
  std::string tags;        // generate: .spmat file to write
  bool resampled = false;  // generate: the kind that no Shape names
  std::string from;        // for resample
  ExactOptions exact;
  MakeAttributesOptions attrs;      // groundtruth: of the rows of the base
  std::string filter, filter_tags;  // groundtruth
};

/// Prints a short report: JSON, or "key: value" lines.
absl::Status Print(const DataFlags& flags, const Json& report);

Json Describe(const VectorFile& file);

using Flags = std::shared_ptr<DataFlags>;

void DeclareGenerate(CLI::App& app, const Flags& flags);
absl::Status RunGenerate(const DataFlags& flags);

}  // namespace hmann::tools
