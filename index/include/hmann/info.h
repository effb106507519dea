#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hmann/distance.h"

namespace hmann {

/// Bytes of a node's code: the code itself, with the dimension rounded up to a multiple
/// of 8, and two factors in 4 bytes.
constexpr std::uint32_t CodeBytes(std::uint32_t dim, std::uint32_t bits) {
  return (dim + 7) / 8 * bits + 4;
}

/// The codes of an index: one per unpromoted node, in fast memory, centered on its
/// nearest promoted node.
struct CodeInfo {
  /// Bits per dimension: 1, 2 or 4; 0: the index has no codes and no cells.
  std::uint32_t bits = 0;
  std::uint32_t replicas = 0;    ///< cells that list each node: 1 or 2
  std::uint32_t code_bytes = 0;  ///< size of the code and factors of one node
  friend bool operator==(const CodeInfo&, const CodeInfo&) = default;
};

struct LayerInfo {
  std::uint64_t nodes = 0;
  std::uint32_t max_degree = 0;  ///< M_i
  double mean_degree = 0;
};

/// Bytes of one structure of the index, and the value of the corresponding memory formula
/// in section 7 of the paper (0: no formula; the structure has a line of its own).
struct StructureBytes {
  /// "upper_links", "fast_vectors", "l0_links", "slow_vectors", "labels", "norms",
  /// "label_order" (with sorted labels), "scalar_codes", "padding", "header".
  std::string name;
  std::string tier;  ///< "fast", "slow", "file"
  std::uint64_t bytes = 0;
  std::uint64_t formula = 0;
};

/// Where a structure is stored while an index is open.
struct Placement {
  /// Section of the file: "upper_links[1]", "fast_rows", "label_order", "l0". Or a
  /// structure that Open creates: "cells", "scalar_codes", "l0_cache".
  std::string structure;
  std::string tier;  ///< as requested: "dram", "mapped", ...
  /// As the kernel reports: "node 0: 100 %, 2 MiB pages 96 %, locked".
  std::string where;
  std::uint64_t bytes = 0;
};

/// Metadata of an index file. All of it is read from the header; nothing is recomputed.
struct IndexInfo {
  std::uint64_t n = 0;
  std::uint32_t dim = 0;
  DType dtype = DType::kF32;
  Metric metric = Metric::kL2;
  std::uint32_t m = 0;
  std::uint32_t ef_construction = 0;
  /// Pruning parameter of the links of L0 and L1, 1 to 2. If another library built L0, it
  /// applies to L1 only.
  float alpha = 1;
  std::vector<LayerInfo> layers;  ///< [0] is L0
  double promote = 0;             ///< N_1 / N
  std::vector<StructureBytes> bytes;
  std::uint64_t content_hash = 0;  ///< hash over all sections
  std::uint64_t seed = 0;
  std::string version;  ///< version of the file format, "4.0"
  std::uint64_t file_bytes = 0;
  CodeInfo codes;
  /// Bits per dimension of the scalar codes of all nodes, 4 or 8; 0: none. Searches with
  /// L0 in memory use them.
  std::uint32_t scalar_bits = 0;
  /// 64-bit labels given by the user; otherwise a label is the row number in the base
  /// file.
  bool user_labels = false;
};

}  // namespace hmann
