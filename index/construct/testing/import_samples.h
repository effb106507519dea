/// For the tests of the importers: small indexes that hnswlib and Faiss themselves write,
/// and level 0 as their objects have it.
#pragma once

// hnswlib's vectorized loops prefetch through the link behind a list's last, where the
// address sanitizer stops. They also put functions into the global namespace.
#define NO_MANUAL_VECTORIZATION

#include <faiss/IndexHNSW.h>
#include <faiss/index_io.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hnswlib/hnswlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/random.h"
#include "index/construct/import/import_faiss.h"
#include "index/construct/import/import_hnswlib.h"

namespace hmann {

constexpr std::uint32_t kM = 5;
constexpr std::uint32_t kEfConstruction = 40;

/// A unique file name; the file is removed at the end.
class TempFile {
 public:
  explicit TempFile(const std::string& suffix) {
    static int next = 0;
    path_ = absl::StrCat(::testing::TempDir(), "/hmann_import_", ::getpid(), "_", next++, suffix);
  }
  ~TempFile() { ::unlink(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <typename T>
struct Points {
  std::uint32_t n, dim;
  std::vector<T> values;  ///< n x dim, none is 0

  static Points Make(std::uint32_t n, std::uint32_t dim, std::uint64_t seed = 1) {
    Points points{n, dim, std::vector<T>(n * dim)};
    for (std::size_t i = 0; i < points.values.size(); ++i) {
      if constexpr (std::is_same_v<T, float>) {
        points.values[i] = static_cast<float>(RandomUnit(seed, i)) - 2.0f;
      } else {
        points.values[i] = static_cast<T>(1 + RandomBelow(seed, i, 255));
      }
    }
    return points;
  }

  std::vector<float> Floats() const { return {values.begin(), values.end()}; }

  std::vector<float> UnitFloats() const {
    std::vector<float> floats = Floats();
    for (std::uint32_t i = 0; i < n; ++i) {
      float squares = 0;
      for (std::uint32_t j = 0; j < dim; ++j) squares += floats[i * dim + j] * floats[i * dim + j];
      for (std::uint32_t j = 0; j < dim; ++j) floats[i * dim + j] /= std::sqrt(squares);
    }
    return floats;
  }
};

/// Writes points as a base file of its type and opens it.
template <typename T>
VectorFile OpenBase(const Points<T>& points, const TempFile& file, std::uint64_t rows = 0) {
  std::string bytes(reinterpret_cast<const char*>(&points.n), 4);
  bytes.append(reinterpret_cast<const char*>(&points.dim), 4);
  bytes.append(reinterpret_cast<const char*>(points.values.data()),
               points.values.size() * sizeof(T));
  WriteBytes(file.path(), bytes);
  return *VectorFile::Open(file.path(), rows);
}

using Lists = std::vector<std::vector<NodeId>>;

inline Lists ListsOf(const ImportedGraph& graph) {
  Lists lists(graph.n);
  for (std::size_t row = 0; row < lists.size(); ++row) {
    const NodeId* begin =
        reinterpret_cast<const NodeId*>(graph.links.data()) + row * graph.max_degree;
    const NodeId* end = std::find(begin, begin + graph.max_degree, kNoNode);
    lists[row].assign(begin, end);
    EXPECT_TRUE(
        std::all_of(end, begin + graph.max_degree, [](NodeId id) { return id == kNoNode; }));
  }
  return lists;
}

/// Whether the graph keeps the promises of ImportedGraph.
inline bool IsSound(const ImportedGraph& graph, std::uint64_t n) {
  if (graph.max_degree != 2 * graph.parameters.m || graph.n != n) return false;
  if (graph.links.size() != n * graph.max_degree * sizeof(NodeId)) return false;
  const Lists lists = ListsOf(graph);
  for (NodeId row = 0; row < n; ++row) {
    std::vector<NodeId> links = lists[row];
    std::sort(links.begin(), links.end());
    if (std::adjacent_find(links.begin(), links.end()) != links.end()) return false;
    if (std::binary_search(links.begin(), links.end(), row) ||
        (!links.empty() && links.back() >= n))
      return false;
  }
  return true;
}

/// Row of the i-th inserted element: labels have an order of their own.
inline NodeId LabelOf(NodeId i, NodeId n) { return (i * 7 + 3) % n; }

/// Inserts rows in label order and saves to `path` after `change`. Returns level 0 by
/// row, as hnswlib's own object has it.
template <typename Distance, typename Component>
Lists WriteHnswlib(hnswlib::SpaceInterface<Distance>* space, const std::vector<Component>& rows,
                   NodeId n, const std::string& path,
                   const std::function<void(hnswlib::HierarchicalNSW<Distance>&)>& change = {}) {
  hnswlib::HierarchicalNSW<Distance> index(space, n + 10, kM, kEfConstruction);
  const std::size_t dim = rows.size() / n;
  for (NodeId i = 0; i < n; ++i) index.addPoint(&rows[LabelOf(i, n) * dim], LabelOf(i, n));
  Lists lists(n);
  for (NodeId i = 0; i < n; ++i) {
    const unsigned* list = index.get_linklist0(i);
    for (int j = 0; j < index.getListCount(const_cast<unsigned*>(list)); ++j) {
      lists[index.getExternalLabel(i)].push_back(
          static_cast<NodeId>(index.getExternalLabel(list[1 + j])));
    }
  }
  if (change) change(index);
  index.saveIndex(path);
  return lists;
}

inline Lists WriteFaiss(const std::vector<float>& rows, NodeId n, faiss::MetricType metric,
                        const std::string& path) {
  faiss::IndexHNSWFlat index(static_cast<int>(rows.size() / n), kM, metric);
  index.hnsw.efConstruction = kEfConstruction;
  index.add(n, rows.data());
  faiss::write_index(&index, path.c_str());
  Lists lists(n);
  for (NodeId i = 0; i < n; ++i) {
    std::size_t begin, end;
    index.hnsw.neighbor_range(i, 0, &begin, &end);
    for (; begin < end && index.hnsw.neighbors[begin] >= 0; ++begin)
      lists[i].push_back(static_cast<NodeId>(index.hnsw.neighbors[begin]));
  }
  return lists;
}

inline void ExpectGraph(const absl::StatusOr<ImportedGraph>& graph, const Lists& expected) {
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->parameters.m, kM);
  EXPECT_EQ(graph->parameters.ef_construction, kEfConstruction);
  EXPECT_TRUE(IsSound(*graph, expected.size()));
  EXPECT_EQ(ListsOf(*graph), expected);
}

inline void ExpectError(const absl::StatusOr<ImportedGraph>& graph, absl::StatusCode code,
                        const std::string& path, const std::string& what) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  ASSERT_FALSE(graph.ok()) << what;
  EXPECT_EQ(graph.status().code(), code) << graph.status();
  EXPECT_THAT(std::string(graph.status().message()),
              AllOf(HasSubstr(path), HasSubstr("offset "), HasSubstr(what), HasSubstr("expected "),
                    HasSubstr("found ")));
}

constexpr auto kMismatch = absl::StatusCode::kInvalidArgument;
constexpr auto kCorrupt = absl::StatusCode::kDataLoss;

}  // namespace hmann
