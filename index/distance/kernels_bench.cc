#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "hmann/distance.h"
#include "index/base/buffer.h"
#include "index/base/prefetch.h"
#include "index/distance/simd_level.h"

/// Time per distance (`distance=`) of each supported level. Rows in L1: 32 rows (8 long
/// ones), repeatedly; `block`: 256 with 256. Rows in memory: batches of 24 random rows of
/// 128 MiB, as a graph search meets them; the caller prefetches a whole batch before it
/// calls.
namespace hmann {
namespace {

constexpr std::size_t kBatch = 24;
constexpr std::size_t kMemoryBytes = std::size_t{128} << 20;

struct Shape {
  DType dtype;
  Metric metric;
  std::uint32_t dim;
};

Kernels MustChoose(const char* level, const Shape& shape) {
  setenv("HMANN_SIMD", level, 1);
  absl::StatusOr<Kernels> kernels = ChooseKernels(shape.dtype, shape.metric, shape.dim);
  unsetenv("HMANN_SIMD");
  if (!kernels.ok()) {
    std::fprintf(stderr, "%s\n", kernels.status().ToString().c_str());
    std::exit(1);
  }
  return *kernels;
}

/// `n` rows of small components, `stride` bytes apart. They are copies of a few encoded
/// rows, so that filling 128 MiB is quick.
Buffer MakeRows(const Kernels& kernels, std::size_t n, std::size_t stride) {
  constexpr std::size_t kDistinct = 64;
  std::mt19937 random(1);
  const DType given = QueryType(kernels.dtype);
  std::vector<std::byte> distinct(kDistinct * stride), vector(kernels.dim * SizeOf(given));
  for (std::size_t i = 0; i < kDistinct; ++i) {
    for (std::uint32_t c = 0; c < kernels.dim; ++c) {
      const std::uint32_t value = random() % 127 + 1;
      if (given == DType::kF32)
        reinterpret_cast<float*>(vector.data())[c] = static_cast<float>(value);
      else
        vector[c] = static_cast<std::byte>(value);
    }
    if (!EncodeRow(kernels, vector.data(), distinct.data() + i * stride).ok()) std::exit(1);
  }
  Buffer rows = *Buffer::Allocate(n * stride);
  for (std::size_t i = 0; i < n; ++i)
    std::copy_n(distinct.data() + i % kDistinct * stride, stride, rows.data() + i * stride);
  return rows;
}

void Report(benchmark::State& state, std::size_t per_iteration) {
  state.counters["distance"] = benchmark::Counter(
      static_cast<double>(per_iteration),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void RunL1(benchmark::State& state, const char* level, Shape shape, bool many) {
  const Kernels kernels = MustChoose(level, shape);
  const std::size_t n = kernels.row_bytes > 512 ? 8 : 32, stride = RoundUp(kernels.row_bytes, 64);
  const Buffer rows = MakeRows(kernels, n + 1, stride);
  const std::byte* query = rows.data() + n * stride;
  std::vector<const std::byte*> pointers(n);
  for (std::size_t i = 0; i < n; ++i) pointers[i] = rows.data() + i * stride;
  std::vector<DistanceKey> keys(n);
  for (auto _ : state) {
    if (many)
      kernels.many(query, pointers.data(), n, shape.dim, keys.data());
    else
      for (std::size_t i = 0; i < n; ++i) keys[i] = kernels.one(query, pointers[i], shape.dim);
    benchmark::DoNotOptimize(keys.data());
    benchmark::ClobberMemory();
  }
  Report(state, n);
}

void RunMemory(benchmark::State& state, const char* level, Shape shape, bool many, bool prefetch) {
  const Kernels kernels = MustChoose(level, shape);
  const std::size_t stride = RoundUp(kernels.row_bytes, 64), n = kMemoryBytes / stride;
  const Buffer rows = MakeRows(kernels, n, stride);
  std::vector<std::byte> query(rows.data(), rows.data() + stride);
  std::vector<std::uint32_t> order(1 << 20);
  std::mt19937 random(2);
  for (std::uint32_t& id : order) id = static_cast<std::uint32_t>(random() % n);
  std::vector<DistanceKey> keys(kBatch);
  const std::byte* pointers[kBatch];
  std::size_t at = 0;
  for (auto _ : state) {
    if (at + kBatch > order.size()) at = 0;
    for (std::size_t i = 0; i < kBatch; ++i) pointers[i] = rows.data() + order[at + i] * stride;
    at += kBatch;
    if (prefetch)
      for (const std::byte* row : pointers) PrefetchLines(row, PrefetchBytes(kernels));
    if (many)
      kernels.many(query.data(), pointers, kBatch, shape.dim, keys.data());
    else
      for (std::size_t i = 0; i < kBatch; ++i)
        keys[i] = kernels.one(query.data(), pointers[i], shape.dim);
    benchmark::DoNotOptimize(keys.data());
    benchmark::ClobberMemory();
  }
  Report(state, kBatch);
}

/// 256 rows with 256 others.
void RunBlock(benchmark::State& state, const char* level, Shape shape) {
  constexpr std::size_t kSide = 256;
  const Kernels kernels = MustChoose(level, shape);
  const std::size_t stride = RoundUp(kernels.row_bytes, 64);
  const Buffer rows = MakeRows(kernels, 2 * kSide, stride);
  std::vector<const std::byte*> pointers(2 * kSide);
  for (std::size_t i = 0; i < pointers.size(); ++i) pointers[i] = rows.data() + i * stride;
  std::vector<DistanceKey> keys(kSide * kSide);
  for (auto _ : state) {
    kernels.block(pointers.data(), kSide, pointers.data() + kSide, kSide, shape.dim, keys.data(),
                  kSide);
    benchmark::DoNotOptimize(keys.data());
    benchmark::ClobberMemory();
  }
  Report(state, kSide * kSide);
}

void RegisterAll() {
  const Shape shapes[] = {
      {DType::kU8, Metric::kL2, 128},           {DType::kF32, Metric::kL2, 96},
      {DType::kU8, Metric::kL2, 784},           {DType::kI8, Metric::kL2, 100},
      {DType::kI8, Metric::kInnerProduct, 100}, {DType::kU8, Metric::kCosine, 128},
      {DType::kF32, Metric::kL2, 128},          {DType::kF32, Metric::kInnerProduct, 96},
      {DType::kF32, Metric::kCosine, 768},      {DType::kF16, Metric::kCosine, 768}};
  for (const Shape& shape : shapes) {
    for (const SimdLevel& level : BuiltSimdLevels()) {
      if (!level.supported()) continue;
      const char* simd = level.name;
      const std::string name = std::string(Name(shape.dtype)) + "/" +
                               std::string(Name(shape.metric)) + "/" + std::to_string(shape.dim) +
                               "/" + simd + "/";
      benchmark::RegisterBenchmark((name + "L1/block").c_str(), RunBlock, simd, shape);
      for (const bool many : {false, true}) {
        const std::string call = many ? "many" : "one";
        benchmark::RegisterBenchmark((name + "L1/" + call).c_str(), RunL1, simd, shape, many);
        benchmark::RegisterBenchmark((name + "memory/" + call).c_str(), RunMemory, simd, shape,
                                     many, true);
      }
      benchmark::RegisterBenchmark((name + "memory_unprefetched/many").c_str(), RunMemory, simd,
                                   shape, true, false);
    }
  }
}

const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace hmann
