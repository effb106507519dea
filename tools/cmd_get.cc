#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "datasets/vector_writer.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "tools/commands.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct GetFlags {
  std::string index;
  std::vector<std::uint64_t> labels;
  std::string out;
  bool json = false;
};

template <typename T>
nlohmann::ordered_json Components(const std::byte* vector, std::uint32_t dim) {
  std::vector<T> values(dim);
  std::memcpy(values.data(), vector, dim * sizeof(T));
  return values;
}

nlohmann::ordered_json Components(const std::byte* vector, const IndexInfo& info) {
  if (IsFloat(info.dtype)) {
    std::vector<float> values(info.dim);
    ReadComponents(info.dtype, vector, info.dim, values.data());
    return values;
  }
  return info.dtype == DType::kU8 ? Components<std::uint8_t>(vector, info.dim)
                                  : Components<std::int8_t>(vector, info.dim);
}

absl::Status Write(const std::string& path, const IndexInfo& info,
                   const std::vector<std::byte>& vectors, std::uint64_t count) {
  HMANN_ASSIGN_OR_RETURN(VectorWriter writer, VectorWriter::Create(path, info.dim));
  if (writer.dtype() != info.dtype) {
    return InvalidArgument(path, ": expected a file of ", std::string(Name(info.dtype)),
                           " vectors, as the index has them");
  }
  HMANN_RETURN_IF_ERROR(writer.Append(vectors.data(), count));
  return writer.Commit();
}

absl::Status Get(const GetFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Index> index, Index::Open(flags.index));
  for (const std::string& warning : index->Warnings()) std::cerr << "warning: " << warning << '\n';
  const IndexInfo& info = index->info();
  const std::size_t bytes = info.dim * SizeOf(info.dtype);
  std::vector<std::byte> vectors(flags.labels.size() * bytes);
  HMANN_RETURN_IF_ERROR(Searcher(index).Get(flags.labels, vectors.data()));
  if (!flags.out.empty())
    HMANN_RETURN_IF_ERROR(Write(flags.out, info, vectors, flags.labels.size()));
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < flags.labels.size() && (flags.json || flags.out.empty()); ++i) {
    const nlohmann::ordered_json vector = Components(vectors.data() + i * bytes, info);
    if (!flags.json) std::cout << flags.labels[i] << ": " << JsonText(vector) << '\n';
    found.push_back({{"label", flags.labels[i]}, {"vector", vector}});
  }
  if (!flags.json) return absl::OkStatus();
  return PrintJson(
      {{"dtype", std::string(Name(info.dtype))}, {"dim", info.dim}, {"vectors", found}});
}

}  // namespace

CommandAction SetupGet(CLI::App& app) {
  auto flags = std::make_shared<GetFlags>();
  app.add_option("INDEX", flags->index, "index file")->required();
  app.add_option("--labels", flags->labels, "labels, as 17,3 or as separate words")
      ->delimiter(',')
      ->required();
  app.add_option(
      "--out", flags->out,
      "file for the vectors, of the index's type: .fbin .f16bin .u8bin .i8bin .fvecs .bvecs");
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return [flags] { return Get(*flags); };
}

}  // namespace hmann::tools
