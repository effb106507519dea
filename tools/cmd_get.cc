#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "datasets/vector_writer.h"
#include "hmann/hmann.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/parse_json.h"
#include "index/base/status_macros.h"
#include "tools/collection_writer.h"
#include "tools/commands.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct GetFlags {
  std::string index;
  std::vector<std::string> words;
  LabelList labels;
  std::string out;
  bool json = false;
};

template <typename T>
nlohmann::ordered_json Components(const std::byte* vector, std::uint32_t dim) {
  std::vector<T> values(dim);
  std::memcpy(values.data(), vector, dim * sizeof(T));
  return values;
}

/// Vectors that were found, one after another.
struct Found {
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  std::vector<std::byte> vectors;
  std::vector<std::string> attributes;  ///< of a collection: JSON objects

  std::size_t bytes() const { return dim * SizeOf(dtype); }
};

nlohmann::ordered_json Components(const std::byte* vector, const Found& found) {
  if (IsFloat(found.dtype)) {
    std::vector<float> values(found.dim);
    ReadComponents(found.dtype, vector, found.dim, values.data());
    return values;
  }
  return found.dtype == DType::kU8 ? Components<std::uint8_t>(vector, found.dim)
                                   : Components<std::int8_t>(vector, found.dim);
}

absl::Status Write(const std::string& path, const Found& found, std::uint64_t count) {
  HMANN_ASSIGN_OR_RETURN(VectorWriter writer, VectorWriter::Create(path, found.dim));
  if (writer.dtype() != found.dtype) {
    return InvalidArgument(path, ": expected a file of ", std::string(Name(found.dtype)),
                           " vectors, as the index has them");
  }
  HMANN_RETURN_IF_ERROR(writer.Append(found.vectors.data(), count));
  return writer.Commit();
}

absl::StatusOr<Found> GetOfCollection(const GetFlags& flags) {
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                         OpenFolder(flags.index, ForReading(), progress));
  const CollectionInfo info = collection->info();
  Found found{info.dtype, info.dim, {}, {}};
  found.vectors.resize(flags.words.size() * found.bytes());
  HMANN_RETURN_IF_ERROR(CollectionSearcher().Get(*collection->Now(), flags.labels.numbers,
                                                 found.vectors.data(), &found.attributes));
  return found;
}

absl::StatusOr<Found> GetOfIndex(const GetFlags& flags) {
  for (const std::string& name : flags.labels.names)
    if (!name.empty()) return InvalidArgument("label ", name, ": an index has numbers as labels");
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index, Index::Open(flags.index));
  for (const std::string& warning : index->Warnings()) std::cerr << "warning: " << warning << '\n';
  Found found{index->info().dtype, index->info().dim, {}, {}};
  found.vectors.resize(flags.words.size() * found.bytes());
  HMANN_RETURN_IF_ERROR(Searcher(index).Get(flags.labels.numbers, found.vectors.data()));
  return found;
}

absl::Status Get(GetFlags flags) {
  HMANN_ASSIGN_OR_RETURN(flags.labels, ParseLabels(flags.words, "LABEL"));
  HMANN_RETURN_IF_ERROR(CheckNotInput(flags.out, {flags.index}));
  const std::vector<std::string>& names = flags.labels.names;
  HMANN_ASSIGN_OR_RETURN(const Found found,
                         Collection::Is(flags.index) ? GetOfCollection(flags) : GetOfIndex(flags));
  if (!flags.out.empty()) HMANN_RETURN_IF_ERROR(Write(flags.out, found, names.size()));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < names.size() && (flags.json || flags.out.empty()); ++i) {
    const nlohmann::ordered_json vector =
        Components(found.vectors.data() + i * found.bytes(), found);
    const std::string attributes = found.attributes.empty() ? "" : found.attributes[i];
    nlohmann::ordered_json label = flags.labels.numbers[i];
    if (!names[i].empty()) label = names[i];
    if (!flags.json)
      std::cout << JsonText(label) << ": " << JsonText(vector) << (attributes.empty() ? "" : " ")
                << attributes << '\n';
    rows.push_back({{"label", label}, {"vector", vector}});
    if (!attributes.empty())
      rows.back()["attributes"] = ParseJson<nlohmann::ordered_json>(attributes);
  }
  if (!flags.json) return absl::OkStatus();
  return PrintJson(
      {{"dtype", std::string(Name(found.dtype))}, {"dim", found.dim}, {"vectors", rows}});
}

}  // namespace

CommandAction SetupGet(CLI::App& app) {
  auto flags = std::make_shared<GetFlags>();
  app.add_option("INDEX", flags->index, "index file, or folder of a collection")->required();
  app.add_option("--labels,LABEL", flags->words, "labels, as 17,3 or as separate words")
      ->delimiter(',')
      ->required();
  app.add_option(
      "--out", flags->out,
      "file for the vectors, of the index's type: .fbin .f16bin .u8bin .i8bin .fvecs .bvecs");
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return [flags] { return Get(*flags); };
}

}  // namespace hmann::tools
