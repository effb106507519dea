#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "index/base/check.h"
#include "index/format/writer.h"

namespace hmann {

/// Synthetic contents for tests. In every layer, node i is linked to its M_i / 2
/// neighbors on either side of a ring (fewer in a small layer), so that all are
/// reachable. Component c of vector i is (7 i + 13 c) mod 101 + 1. Labels are a
/// permutation.
struct RingIndex {
  struct Shape {
    NodeId n = 200, n1 = 32;
    std::uint32_t m = 4, dim = 20;
    DType dtype = DType::kU8;
    Metric metric = Metric::kCosine;
    bool user_labels = false;
    std::uint32_t bits = 0, replicas = 1;  ///< of codes, whose bytes are also synthetic
    std::uint32_t scalar_bits = 0;         ///< of scalar codes
    float alpha = 1.25f;
  };

  explicit RingIndex(Shape s) : shape(s) {
    const auto chosen = ChooseKernels(s.dtype, s.metric, s.dim);
    HMANN_CHECK(chosen.ok());
    kernels = *chosen;
    contents.dtype = s.dtype;
    contents.metric = s.metric;
    contents.dim = s.dim;
    contents.row_bytes = kernels.row_bytes;
    contents.layers = Layers::Make(s.n, s.n1, s.m);
    contents.ef_construction = 40;
    contents.alpha = s.alpha;
    contents.seed = 7;
    contents.user_labels = s.user_labels;
    contents.choose_scalar = false;
    contents.scalar_bits = s.scalar_bits;
    contents.links = [this](std::uint32_t layer, NodeId id) { return Links(layer, id); };
    contents.row = [this](NodeId id) { return Row(id); };
    contents.label = [this](NodeId id) { return Label(id); };
    if (s.bits == 0) return;
    for (std::uint32_t c = 0; c < s.dim; ++c)
      contents.code_mean.push_back(0.5f * static_cast<float>(c));
    contents.codes = {s.bits, s.replicas, CodeBytes(s.dim, s.bits)};
    for (NodeId cell = 0; cell < s.n1 / 2; ++cell)
      contents.cells.push_back({(5 * cell + 1) % s.n1, s.n1 + cell * ((s.n - s.n1) / (s.n1 / 2))});
    for (NodeId id = s.n1; id < s.n && s.replicas == 2; ++id)
      contents.second_centroids.push_back(id * 7 % s.n1);
    contents.code = [this](NodeId id) {
      code.resize(contents.codes.code_bytes);
      for (std::size_t i = 0; i < code.size(); ++i)
        code[i] = static_cast<std::byte>(std::size_t{id} * 3 + i);
      return code.data();
    };
  }
  RingIndex() : RingIndex(Shape{}) {}
  RingIndex(const RingIndex&) = delete;
  RingIndex& operator=(const RingIndex&) = delete;

  /// Valid until the next call of any of the three.
  std::span<const NodeId> Links(std::uint32_t layer, NodeId id) {
    const NodeId nodes = contents.layers.nodes[layer];
    const std::uint32_t each_side = std::min(contents.layers.MaxDegree(layer) / 2, (nodes - 1) / 2);
    links.clear();
    for (std::uint32_t step = 1; step <= each_side; ++step) {
      links.push_back((id + step) % nodes);
      links.push_back((id + nodes - step) % nodes);
    }
    if (nodes == 2) links.push_back(1 - id);
    return links;
  }
  const std::byte* Row(NodeId id) {
    std::vector<float> floats(shape.dim);
    std::vector<std::uint8_t> integers(shape.dim);
    for (std::uint32_t c = 0; c < shape.dim; ++c) {
      integers[c] = static_cast<std::uint8_t>((7 * id + 13 * c) % 101 + 1);
      floats[c] = integers[c];
    }
    row.assign(kernels.row_bytes, std::byte{0});
    const void* vector =
        IsFloat(shape.dtype) ? static_cast<const void*>(floats.data()) : integers.data();
    HMANN_CHECK(EncodeRow(kernels, vector, row.data()).ok());
    return row.data();
  }
  std::uint64_t Label(NodeId id) const {
    const std::uint64_t number = (id + shape.n / 3) % shape.n;
    return shape.user_labels ? number * 1'000'000'007 : number;
  }

  Shape shape;
  Kernels kernels;
  IndexContents contents;
  std::vector<NodeId> links;
  std::vector<std::byte> row, code;
};

/// A path of this process under `folder`, removed with the object.
class TemporaryPath {
 public:
  TemporaryPath(const std::string& folder, const std::string& name)
      : path_(folder + "/hmann_" + std::to_string(::getpid()) + "_" + name) {}
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath() { std::remove(path_.c_str()); }
  operator const std::string&() const { return path_; }
  const std::string& str() const { return path_; }

 private:
  std::string path_;
};

inline std::vector<std::byte> ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

inline void WriteBytes(const std::string& path, std::span<const std::byte> bytes) {
  std::remove(path.c_str());  // writing over a file would wait for the disk
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  HMANN_CHECK(out.good());
}

}  // namespace hmann
