#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "index/base/random.h"
#include "index/distance/distance.h"
#include "index/sketch/sketch.h"

/// Data for the tests of the estimator.
namespace hmann {

/// HMANN_SIMD for a scope.
class ForcedSimd {
 public:
  explicit ForcedSimd(const char* value) {
    if (const char* old = std::getenv("HMANN_SIMD")) old_ = old;
    setenv("HMANN_SIMD", value, 1);
  }
  ~ForcedSimd() { old_ ? setenv("HMANN_SIMD", old_->c_str(), 1) : unsetenv("HMANN_SIMD"); }
  ForcedSimd(const ForcedSimd&) = delete;
  ForcedSimd& operator=(const ForcedSimd&) = delete;

 private:
  std::optional<std::string> old_;
};

/// Vectors with a hub each, and queries; all as components in floats.
struct SketchSample {
  DType dtype;
  std::uint32_t dim;
  std::vector<float> rows, hubs, queries;  ///< one after another
  std::vector<std::uint32_t> hub_of;       ///< of each row
  std::size_t size() const { return rows.size() / dim; }
};

/// Stored forms of a sample under a metric.
struct StoredSample {
  Kernels kernels;
  std::vector<std::byte> rows, hubs, queries;
  std::vector<float> mean;
  const std::byte* Row(std::size_t i) const { return rows.data() + i * kernels.row_bytes; }
  const std::byte* Hub(std::size_t i) const { return hubs.data() + i * kernels.row_bytes; }
  const std::byte* Query(std::size_t i) const { return queries.data() + i * kernels.row_bytes; }
};

inline std::vector<std::byte> StoreAll(const Kernels& kernels, const std::vector<float>& vectors) {
  const std::size_t n = vectors.size() / kernels.dim;
  std::vector<std::byte> stored(n * kernels.row_bytes), components(kernels.dim * SizeOf(kernels.dtype));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::uint32_t c = 0; c < kernels.dim; ++c) {
      const float x = vectors[i * kernels.dim + c];
      if (kernels.dtype == DType::kF32) std::memcpy(components.data() + c * sizeof(x), &x, sizeof(x));
      if (kernels.dtype == DType::kU8) components[c] = static_cast<std::byte>(static_cast<std::uint8_t>(x));
      if (kernels.dtype == DType::kI8) components[c] = static_cast<std::byte>(static_cast<std::int8_t>(x));
    }
    const absl::Status status = EncodeRow(kernels, components.data(), stored.data() + i * kernels.row_bytes);
    EXPECT_TRUE(status.ok()) << status;
  }
  return stored;
}

inline StoredSample Store(const SketchSample& sample, Metric metric) {
  StoredSample stored;
  stored.kernels = *ChooseKernels(sample.dtype, metric, sample.dim);
  stored.rows = StoreAll(stored.kernels, sample.rows);
  stored.hubs = StoreAll(stored.kernels, sample.hubs);
  stored.queries = StoreAll(stored.kernels, sample.queries);
  stored.mean.resize(sample.dim);
  const std::size_t n = sample.hubs.size() / sample.dim;
  for (std::size_t i = 0; i < n; ++i) {
    const float* hub = sample.hubs.data() + i * sample.dim;
    float squared_norm = 0;
    for (std::uint32_t c = 0; c < sample.dim; ++c) squared_norm += hub[c] * hub[c];
    const float scale = metric == Metric::kCosine ? 1 / std::sqrt(squared_norm) : 1;
    for (std::uint32_t c = 0; c < sample.dim; ++c) stored.mean[c] += hub[c] * scale / static_cast<float>(n);
  }
  return stored;
}

inline double RandomNormal(std::uint64_t seed, std::uint64_t counter) {
  double sum = -6;
  for (std::uint64_t k = 0; k < 12; ++k) sum += RandomUnit(seed, counter * 12 + k);
  return sum;
}

/// Hubs, rows around them, queries around hubs: component = middle + spread * normal; bytes are rounded and cut.
inline SketchSample GenerateSample(DType dtype, std::uint32_t dim, std::size_t n, std::size_t n_hubs, float middle, float spread) {
  SketchSample sample{dtype, dim, {}, {}, {}, {}};
  const auto cut = [dtype](double x) {
    if (dtype == DType::kU8) x = std::round(std::clamp(x, 0.0, 255.0));
    if (dtype == DType::kI8) x = std::round(std::clamp(x, -128.0, 127.0));
    return static_cast<float>(x);
  };
  for (std::size_t i = 0; i < n_hubs * dim; ++i) sample.hubs.push_back(cut(middle + static_cast<double>(spread) * RandomNormal(1, i)));
  const auto around = [&](std::uint64_t seed, std::size_t count, std::vector<float>& out, std::vector<std::uint32_t>* hub_of) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto hub = static_cast<std::uint32_t>(RandomBelow(seed, i, n_hubs));
      if (hub_of != nullptr) hub_of->push_back(hub);
      for (std::uint32_t c = 0; c < dim; ++c) {
        const double noise = 0.6 * static_cast<double>(spread) * RandomNormal(seed + 1, i * dim + c);
        out.push_back(cut(static_cast<double>(sample.hubs[hub * dim + c]) + noise));
      }
    }
  };
  around(10, n, sample.rows, &sample.hub_of);
  around(20, 50, sample.queries, nullptr);
  return sample;
}

inline std::vector<float> ReadU8(const std::string& path, std::uint32_t dim) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<float> floats;
  for (std::size_t i = 8; i < bytes.size(); ++i) floats.push_back(static_cast<float>(static_cast<std::uint8_t>(bytes[i])));
  EXPECT_EQ(floats.size() % dim, 0u);
  EXPECT_GT(floats.size(), 0u) << path;
  return floats;
}

/// The sample of real vectors; hub: the nearest of every tenth.
inline SketchSample RealSample() {
  constexpr std::uint32_t kDim = 128;
  SketchSample sample{DType::kU8, kDim, {}, {}, ReadU8("datasets/sample/query.u8bin", kDim), {}};
  const std::vector<float> all = ReadU8("datasets/sample/base.u8bin", kDim);
  for (std::size_t i = 0; i < all.size() / kDim; ++i) {
    std::vector<float>& out = i % 10 == 0 ? sample.hubs : sample.rows;
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(i * kDim), all.begin() + static_cast<std::ptrdiff_t>((i + 1) * kDim));
  }
  const Kernels l2 = *ChooseKernels(DType::kU8, Metric::kL2, kDim);
  const std::vector<std::byte> rows = StoreAll(l2, sample.rows), hubs = StoreAll(l2, sample.hubs);
  std::vector<const std::byte*> pointers;
  for (std::size_t i = 0; i < hubs.size(); i += kDim) pointers.push_back(hubs.data() + i);
  std::vector<DistanceKey> keys(pointers.size());
  for (std::size_t i = 0; i < rows.size(); i += kDim) {
    l2.many(rows.data() + i, pointers.data(), pointers.size(), kDim, keys.data());
    sample.hub_of.push_back(static_cast<std::uint32_t>(std::min_element(keys.begin(), keys.end()) - keys.begin()));
  }
  return sample;
}

inline std::vector<std::byte> EncodeAll(const Sketcher& sketcher, const StoredSample& stored, const std::vector<std::uint32_t>& hub_of) {
  std::vector<std::byte> sketches(hub_of.size() * sketcher.sketch_bytes());
  Sketcher::Scratch scratch;
  for (std::size_t i = 0; i < hub_of.size(); ++i) {
    sketcher.Encode(stored.Row(i), stored.Hub(hub_of[i]), sketches.data() + i * sketcher.sketch_bytes(), scratch);
  }
  return sketches;
}

}  // namespace hmann
