/// For the tests of the build: base files of generated vectors, and the graph that the
/// written index describes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/toolbox/generate.h"
#include "datasets/vector_writer.h"
#include "index/base/check.h"
#include "index/construct/graph/insertion_graph.h"
#include "index/construct/pipeline.h"
#include "index/format/reader.h"

namespace hmann {

/// A folder of this process, removed with its files.
class SampleFolder {
 public:
  SampleFolder()
      : path_(absl::StrCat(testing::TempDir(), "/hmann_build_", ::getpid(), "_", next_++)) {
    std::filesystem::create_directories(path_);
  }
  ~SampleFolder() { std::filesystem::remove_all(path_); }
  SampleFolder(const SampleFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator()));
  }

 private:
  static inline int next_ = 0;
  std::string path_;
};

/// Sets a variable of the environment for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name); old != nullptr) old_ = old;
    ::setenv(name, value, 1);
  }
  ~ScopedVariable() { old_.has_value() ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// Writes generated vectors; the suffix of `path` selects the dtype.
inline void WriteGenerated(const std::string& path, GenerateOptions options) {
  options.threads = 1;
  Progress quiet(Progress::Show::kNever);
  const absl::Status status = Generate(options, path, quiet);
  HMANN_CHECK(status.ok());
}

/// Writes n x dim components, row-major.
template <typename T>
void WriteRows(const std::string& path, std::uint32_t dim, const std::vector<T>& values) {
  auto writer = VectorWriter::Create(path, dim);
  HMANN_CHECK(writer.ok() && SizeOf(writer->dtype()) == sizeof(T));
  HMANN_CHECK(
      writer->Append(reinterpret_cast<const std::byte*>(values.data()), values.size() / dim).ok() &&
      writer->Commit().ok());
}

inline const char* SuffixOf(DType dtype) {
  return dtype == DType::kF32   ? ".fbin"
         : dtype == DType::kF16 ? ".f16bin"
         : dtype == DType::kU8  ? ".u8bin"
                                : ".i8bin";
}

/// A small build of clustered vectors.
inline BuildOptions SmallBuild(const SampleFolder& folder, DType dtype, Metric metric,
                               std::uint64_t n, std::uint32_t dim = 12) {
  BuildOptions options;
  options.base = folder / absl::StrCat("base_", n, "_", dim, SuffixOf(dtype));
  options.out = folder / "index.hmann";
  options.metric = metric;
  options.m = 6;
  options.ef_construction = 40;
  options.threads = 2;
  WriteGenerated(options.base,
                 {.n = n, .dim = dim, .intrinsic_dim = std::min(6u, dim), .clusters = 30});
  return options;
}

inline absl::StatusOr<BuildReport> TryBuild(const BuildOptions& options) {
  Progress quiet(Progress::Show::kNever);
  return BuildIndex(options, quiet);
}

inline BuildReport MustBuild(const BuildOptions& options) {
  absl::StatusOr<BuildReport> report = TryBuild(options);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : BuildReport();
}

inline std::string FileContent(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The links of a written index: [layer][id].
using LayerLinks = std::vector<std::vector<std::vector<NodeId>>>;

inline LayerLinks ReadLinks(const IndexFile& file) {
  LayerLinks all(file.layers().nodes.size());
  for (std::uint32_t layer = 0; layer < all.size(); ++layer) {
    const std::uint32_t most = file.layers().MaxDegree(layer);
    for (NodeId id = 0; id < file.layers().nodes[layer]; ++id) {
      std::vector<NodeId> links(most);
      if (layer == 0) {
        const RecordLayout& records = file.records();
        records.UnpackPadded(file.l0().data() + records.Offset(id) + records.LinksOffset(id),
                             links.data());
      } else {
        std::memcpy(links.data(),
                    file.upper_links(layer).data() + std::size_t{id} * most * sizeof(NodeId),
                    most * sizeof(NodeId));
      }
      links.erase(std::find(links.begin(), links.end(), kNoNode), links.end());
      all[layer].push_back(std::move(links));
    }
  }
  return all;
}

/// A graph over packed copies of lists of `most` links each.
inline InsertionGraph PackedGraph(std::span<const NodeId> links, std::uint32_t most,
                                  const Kernels& kernels) {
  const auto n = static_cast<NodeId>(links.size() / most);
  const LinkPacking packing = LinkPacking::Of(most, n);
  const std::vector<std::byte> packed = packing.PackAll(links);
  absl::StatusOr<Buffer> lists = Buffer::Allocate(packed.size());
  std::memcpy(lists->data(), packed.data(), packed.size());
  return InsertionGraph::Over(PackedLists(*std::move(lists), packing), n, kernels);
}

/// Nodes that can be reached from node 0.
inline std::size_t CountReachable(const std::vector<std::vector<NodeId>>& links) {
  std::vector<bool> reached(links.size());
  std::vector<NodeId> queue = {0};
  reached[0] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const NodeId link : links[queue[i]]) {
      if (!reached[link]) queue.push_back(link);
      reached[link] = true;
    }
  }
  return queue.size();
}

}  // namespace hmann
