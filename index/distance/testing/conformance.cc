#include "index/distance/testing/conformance.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "index/distance/half.h"
#include "index/distance/reference.h"

namespace hmann::conformance {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kU8, DType::kI8, DType::kF16};
constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};
constexpr std::size_t kPatterns = 8;
constexpr std::size_t kMany[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 33};
constexpr std::size_t kMostRows = 33;

std::size_t RowBytes(DType dtype, Metric metric, std::size_t dim) {
  if (IsFloat(dtype)) return dim * (dtype == DType::kF32 ? 4 : 2);
  return metric == Metric::kCosine ? (dim + 3) / 4 * 4 + 4 : dim;
}

bool IsExact(DType dtype, Metric metric) { return !IsFloat(dtype) && metric != Metric::kCosine; }

double ToDouble(DType dtype, Metric metric, DistanceKey key) {
  if (IsExact(dtype, metric)) return static_cast<std::int32_t>(key ^ 0x80000000u);
  const std::uint32_t bits = key & 0x80000000u ? key ^ 0x80000000u : ~key;
  float distance;
  std::memcpy(&distance, &bits, sizeof(distance));
  return distance;
}

void Complain(const char* level, DType dtype, Metric metric, std::size_t dim, const char* what,
              double expected, double found) {
  static int complaints = 0;
  if (++complaints > 20) return;
  std::fprintf(stderr, "%s dtype %d metric %d dim %zu: %s: expected %.9g, found %.9g\n", level,
               static_cast<int>(dtype), static_cast<int>(metric), dim, what, expected, found);
}

/// The extremes first, because their pairs give the largest sums; then random values.
template <class Component>
Component Value(std::size_t pattern, std::size_t i, Component low, Component high,
                std::mt19937& random) {
  switch (pattern) {
    case 0:
      return high;
    case 1:
      return low;
    case 2:
      return i % 2 ? low : high;
    case 3:
      return i == 0 ? 1 : 0;
    default:
      return static_cast<Component>(low +
                                    (static_cast<double>(high) - low) * (random() % 256) / 255);
  }
}

void WriteFloat(DType dtype, float value, std::byte* row, std::size_t i) {
  const Half half = Half::Nearest(value);
  if (dtype == DType::kF32) std::memcpy(row + i * sizeof(value), &value, sizeof(value));
  if (dtype == DType::kF16) std::memcpy(row + i * sizeof(half), &half, sizeof(half));
}

/// Stored rows for one (dtype, metric, dim), each ending right before an unreadable page.
class Rows {
 public:
  Rows(DType dtype, Metric metric, std::size_t dim)
      : bytes_(RowBytes(dtype, metric, dim)), page_(static_cast<std::size_t>(getpagesize())) {
    slot_ = (bytes_ + page_ - 1) / page_ * page_ + page_;
    memory_ = mmap(nullptr, slot_ * kPatterns, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    for (std::size_t pattern = 0; pattern < kPatterns; ++pattern) {
      Write(dtype, metric, dim, pattern,
            static_cast<std::byte*>(memory_) + (pattern + 1) * slot_ - page_ - bytes_);
      if (mprotect(static_cast<std::byte*>(memory_) + (pattern + 1) * slot_ - page_, page_,
                   PROT_NONE) != 0)
        std::abort();
    }
  }
  ~Rows() { munmap(memory_, slot_ * kPatterns); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  const std::byte* operator[](std::size_t pattern) const {
    return static_cast<const std::byte*>(memory_) + (pattern + 1) * slot_ - page_ - bytes_;
  }

 private:
  static void Write(DType dtype, Metric metric, std::size_t dim, std::size_t pattern,
                    std::byte* row) {
    std::mt19937 random(static_cast<unsigned>(dim * 31 + pattern));
    double squared_norm = 0;
    std::vector<float> floats(dim);
    for (std::size_t i = 0; i < dim; ++i) {
      if (dtype == DType::kU8)
        row[i] = static_cast<std::byte>(Value<std::uint8_t>(pattern, i, 0, 255, random));
      if (dtype == DType::kI8)
        row[i] = static_cast<std::byte>(Value<std::int8_t>(pattern, i, -128, 127, random));
      if (IsFloat(dtype)) {
        floats[i] = Value<float>(pattern, i, -1.0f, 1.0f, random) * 1.1f;
        WriteFloat(dtype, floats[i], row, i);
      }
      const double component = Component(dtype, row, i);
      squared_norm += component * component;
    }
    if (metric != Metric::kCosine) return;
    const float inverse_norm =
        static_cast<float>(squared_norm == 0 ? 0 : 1 / std::sqrt(squared_norm));
    if (!IsFloat(dtype)) std::memcpy(row + (dim + 3) / 4 * 4, &inverse_norm, 4);
    for (std::size_t i = 0; i < dim && IsFloat(dtype); ++i)
      WriteFloat(dtype, floats[i] * inverse_norm, row, i);
  }

  std::size_t bytes_;
  std::size_t page_;
  std::size_t slot_ = 0;
  void* memory_ = nullptr;
};

std::size_t CompareWithReference(const SimdLevel& level, const KernelRow& kernel, std::size_t dim,
                                 const Rows& rows) {
  std::size_t mismatches = 0;
  for (std::size_t a = 0; a < kPatterns; ++a) {
    for (std::size_t b = 0; b < kPatterns; ++b) {
      const ReferenceDistance expected =
          MeasureReference(kernel.dtype, kernel.metric, rows[a], rows[b], dim);
      const double found = ToDouble(kernel.dtype, kernel.metric, kernel.one(rows[a], rows[b], dim));
      if (std::abs(found - expected.distance) <= expected.bound) continue;  // also false for NaN
      ++mismatches;
      Complain(level.name, kernel.dtype, kernel.metric, dim, "one", expected.distance, found);
    }
  }
  return mismatches;
}

std::size_t CompareManyWithOne(const SimdLevel& level, const KernelRow& kernel, std::size_t dim,
                               const Rows& rows) {
  constexpr DistanceKey kUntouched = 0x5eed5eed;
  std::size_t mismatches = 0;
  for (std::size_t a = 0; a < kPatterns; ++a) {
    for (const std::size_t n : kMany) {
      const std::byte* pointers[kMostRows];
      DistanceKey keys[kMostRows + 1];
      for (std::size_t i = 0; i < n; ++i) pointers[i] = rows[(a + 3 * i) % kPatterns];
      for (DistanceKey& key : keys) key = kUntouched;
      kernel.many(rows[a], pointers, n, dim, keys);
      for (std::size_t i = 0; i <= n; ++i) {
        const DistanceKey expected = i < n ? kernel.one(rows[a], pointers[i], dim) : kUntouched;
        if (keys[i] == expected) continue;
        ++mismatches;
        Complain(level.name, kernel.dtype, kernel.metric, dim,
                 i < n ? "many differs from one" : "many writes behind out", expected, keys[i]);
      }
    }
  }
  return mismatches;
}

/// Compares all with all, with more and fewer rows than a tile on either side.
std::size_t CompareBlockWithOne(const SimdLevel& level, const KernelRow& kernel, std::size_t dim,
                                const Rows& rows) {
  constexpr std::size_t kMost = 9, kStride = kMost + 1;
  constexpr DistanceKey kUntouched = 0x5eed5eed;
  const std::byte *a[kMost], *b[kMost];
  for (std::size_t i = 0; i < kMost; ++i) {
    a[i] = rows[i % kPatterns];
    b[i] = rows[(3 * i + 1) % kPatterns];
  }
  std::size_t mismatches = 0;
  for (std::size_t na = 1; na <= kMost; ++na) {
    for (const std::size_t nb : {std::size_t{1}, na, kMost}) {
      std::vector<DistanceKey> keys(kMost * kStride, kUntouched);
      kernel.block(a, na, b, nb, dim, keys.data(), kStride);
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const std::size_t i = k / kStride, j = k % kStride;
        const DistanceKey expected = i < na && j < nb ? kernel.one(a[i], b[j], dim) : kUntouched;
        if (keys[k] == expected) continue;
        ++mismatches;
        Complain(level.name, kernel.dtype, kernel.metric, dim, "block differs from one", expected,
                 keys[k]);
      }
    }
  }
  return mismatches;
}

/// Compares the same rows at every offset from a multiple of 64 bytes.
std::size_t CompareOffsets(const SimdLevel& level, const KernelRow& kernel, std::size_t dim,
                           const Rows& rows) {
  const std::size_t bytes = RowBytes(kernel.dtype, kernel.metric, dim);
  std::size_t mismatches = 0;
  std::vector<std::byte> room(bytes + 128);
  const DistanceKey expected = kernel.one(rows[4], rows[5], dim);
  const std::size_t step = dim <= 1536 ? 1 : 9;  // few if rows are long
  for (std::size_t offset = 0; offset < 64; offset += step) {
    std::byte* copy =
        room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) + offset;
    std::memcpy(copy, rows[5], bytes);
    const DistanceKey found = kernel.one(rows[4], copy, dim);
    if (found == expected) continue;
    ++mismatches;
    Complain(level.name, kernel.dtype, kernel.metric, dim, "row at another address", expected,
             found);
  }
  return mismatches;
}

}  // namespace

std::vector<std::size_t> Dims() {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 1; dim <= 72; ++dim) dims.push_back(dim);
  for (const std::size_t dim : {96, 100, 127, 128, 129, 200, 784, 960, 1536, 32768})
    dims.push_back(dim);
  return dims;
}

std::size_t CountMismatches(const SimdLevel& level, std::size_t dim) {
  std::size_t mismatches = 0;
  for (const DType dtype : kDTypes) {
    for (const Metric metric : kMetrics) {
      const KernelRow& kernel = *FindKernel(level.table(), dtype, metric, dim);
      const Rows rows(dtype, metric, dim);
      mismatches += CompareWithReference(level, kernel, dim, rows);
      mismatches += CompareManyWithOne(level, kernel, dim, rows);
      if (dim <= 1536) mismatches += CompareBlockWithOne(level, kernel, dim, rows);
      mismatches += CompareOffsets(level, kernel, dim, rows);
    }
  }
  return mismatches;
}

std::size_t CountDisagreements(std::size_t dim) {
  std::size_t disagreements = 0;
  for (const DType dtype : {DType::kU8, DType::kI8}) {
    for (const Metric metric : kMetrics) {
      const Rows rows(dtype, metric, dim);
      const KernelRow& scalar = *FindKernel(ScalarKernels(), dtype, metric, dim);
      for (const SimdLevel& level : BuiltSimdLevels()) {
        if (!level.supported()) continue;
        const KernelRow& kernel = *FindKernel(level.table(), dtype, metric, dim);
        for (std::size_t pair = 0; pair < kPatterns * kPatterns; ++pair) {
          const std::byte *a = rows[pair / kPatterns], *b = rows[pair % kPatterns];
          const DistanceKey expected = scalar.one(a, b, dim), found = kernel.one(a, b, dim);
          if (expected == found) continue;
          ++disagreements;
          Complain(level.name, dtype, metric, dim, "differs from scalar", expected, found);
        }
      }
    }
  }
  return disagreements;
}

}  // namespace hmann::conformance
