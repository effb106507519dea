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

#include "hmann/distance.h"
#include "index/base/random.h"
#include "index/codes/encoder.h"

/// Data for the tests of the estimator.
namespace hmann {

/// Sets HMANN_SIMD for a scope.
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

/// Vectors with a centroid each, and queries; all have float components.
struct CodeSample {
  DType dtype;
  std::uint32_t dim;
  std::vector<float> rows, centroids, queries;  ///< one after another
  std::vector<std::uint32_t> centroid_of;       ///< of each row
  std::size_t size() const { return rows.size() / dim; }
};

/// Stored forms of a sample under a metric.
struct StoredSample {
  Kernels kernels;
  std::vector<std::byte> rows, centroids, queries;
  std::vector<float> mean;
  const std::byte* Row(std::size_t i) const { return rows.data() + i * kernels.row_bytes; }
  const std::byte* Centroid(std::size_t i) const {
    return centroids.data() + i * kernels.row_bytes;
  }
  const std::byte* Query(std::size_t i) const { return queries.data() + i * kernels.row_bytes; }
};

inline std::vector<std::byte> StoreAll(const Kernels& kernels, const std::vector<float>& vectors) {
  const std::size_t n = vectors.size() / kernels.dim;
  std::vector<std::byte> stored(n * kernels.row_bytes),
      components(kernels.dim * SizeOf(QueryType(kernels.dtype)));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::uint32_t c = 0; c < kernels.dim; ++c) {
      const float x = vectors[i * kernels.dim + c];
      if (IsFloat(kernels.dtype)) std::memcpy(components.data() + c * sizeof(x), &x, sizeof(x));
      if (kernels.dtype == DType::kU8)
        components[c] = static_cast<std::byte>(static_cast<std::uint8_t>(x));
      if (kernels.dtype == DType::kI8)
        components[c] = static_cast<std::byte>(static_cast<std::int8_t>(x));
    }
    const absl::Status status =
        EncodeRow(kernels, components.data(), stored.data() + i * kernels.row_bytes);
    EXPECT_TRUE(status.ok()) << status;
  }
  return stored;
}

inline StoredSample Store(const CodeSample& sample, Metric metric) {
  StoredSample stored;
  stored.kernels = *ChooseKernels(sample.dtype, metric, sample.dim);
  stored.rows = StoreAll(stored.kernels, sample.rows);
  stored.centroids = StoreAll(stored.kernels, sample.centroids);
  stored.queries = StoreAll(stored.kernels, sample.queries);
  stored.mean.resize(sample.dim);
  const std::size_t n = sample.centroids.size() / sample.dim;
  for (std::size_t i = 0; i < n; ++i) {
    const float* centroid = sample.centroids.data() + i * sample.dim;
    float squared_norm = 0;
    for (std::uint32_t c = 0; c < sample.dim; ++c) squared_norm += centroid[c] * centroid[c];
    const float scale = metric == Metric::kCosine ? 1 / std::sqrt(squared_norm) : 1;
    for (std::uint32_t c = 0; c < sample.dim; ++c)
      stored.mean[c] += centroid[c] * scale / static_cast<float>(n);
  }
  return stored;
}

inline double RandomNormal(std::uint64_t seed, std::uint64_t counter) {
  double sum = -6;
  for (std::uint64_t k = 0; k < 12; ++k) sum += RandomUnit(seed, counter * 12 + k);
  return sum;
}

/// Centroids, rows around them, and queries around centroids: component = middle + spread
/// * normal; bytes are rounded and clamped.
inline CodeSample GenerateSample(DType dtype, std::uint32_t dim, std::size_t n,
                                 std::size_t n_centroids, float middle, float spread) {
  CodeSample sample{dtype, dim, {}, {}, {}, {}};
  const auto cut = [dtype](double x) {
    if (dtype == DType::kU8) x = std::round(std::clamp(x, 0.0, 255.0));
    if (dtype == DType::kI8) x = std::round(std::clamp(x, -128.0, 127.0));
    return static_cast<float>(x);
  };
  for (std::size_t i = 0; i < n_centroids * dim; ++i)
    sample.centroids.push_back(cut(middle + static_cast<double>(spread) * RandomNormal(1, i)));
  const auto around = [&](std::uint64_t seed, std::size_t count, std::vector<float>& out,
                          std::vector<std::uint32_t>* centroid_of) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto centroid = static_cast<std::uint32_t>(RandomBelow(seed, i, n_centroids));
      if (centroid_of != nullptr) centroid_of->push_back(centroid);
      for (std::uint32_t c = 0; c < dim; ++c) {
        const double noise =
            0.6 * static_cast<double>(spread) * RandomNormal(seed + 1, i * dim + c);
        out.push_back(cut(static_cast<double>(sample.centroids[centroid * dim + c]) + noise));
      }
    }
  };
  around(10, n, sample.rows, &sample.centroid_of);
  around(20, 50, sample.queries, nullptr);
  return sample;
}

inline std::vector<float> ReadU8(const std::string& path, std::uint32_t dim) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<float> floats;
  for (std::size_t i = 8; i < bytes.size(); ++i)
    floats.push_back(static_cast<float>(static_cast<std::uint8_t>(bytes[i])));
  EXPECT_EQ(floats.size() % dim, 0u);
  EXPECT_GT(floats.size(), 0u) << path;
  return floats;
}

/// The sample of real vectors; every tenth is a centroid, and each row has its nearest
/// one.
inline CodeSample RealSample() {
  constexpr std::uint32_t kDim = 128;
  CodeSample sample{DType::kU8, kDim, {}, {}, ReadU8("datasets/sample/query.u8bin", kDim), {}};
  const std::vector<float> all = ReadU8("datasets/sample/base.u8bin", kDim);
  for (std::size_t i = 0; i < all.size() / kDim; ++i) {
    std::vector<float>& out = i % 10 == 0 ? sample.centroids : sample.rows;
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(i * kDim),
               all.begin() + static_cast<std::ptrdiff_t>((i + 1) * kDim));
  }
  const Kernels l2 = *ChooseKernels(DType::kU8, Metric::kL2, kDim);
  const std::vector<std::byte> rows = StoreAll(l2, sample.rows),
                               centroids = StoreAll(l2, sample.centroids);
  std::vector<const std::byte*> pointers;
  for (std::size_t i = 0; i < centroids.size(); i += kDim) pointers.push_back(centroids.data() + i);
  std::vector<DistanceKey> keys(pointers.size());
  for (std::size_t i = 0; i < rows.size(); i += kDim) {
    l2.many(rows.data() + i, pointers.data(), pointers.size(), kDim, keys.data());
    sample.centroid_of.push_back(
        static_cast<std::uint32_t>(std::min_element(keys.begin(), keys.end()) - keys.begin()));
  }
  return sample;
}

inline std::vector<std::byte> EncodeAll(const Encoder& encoder, const StoredSample& stored,
                                        const std::vector<std::uint32_t>& centroid_of) {
  std::vector<std::byte> codes(centroid_of.size() * encoder.code_bytes());
  Encoder::Scratch scratch;
  for (std::size_t i = 0; i < centroid_of.size(); ++i) {
    encoder.Encode(stored.Row(i), stored.Centroid(centroid_of[i]),
                   codes.data() + i * encoder.code_bytes(), scratch);
  }
  return codes;
}

}  // namespace hmann
