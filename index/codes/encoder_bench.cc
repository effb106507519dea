#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hmann/distance.h"
#include "index/base/buffer.h"
#include "index/base/random.h"
#include "index/codes/encoder.h"
#include "index/distance/simd_level.h"

/// Time per estimate (`estimate=`) with errors and without. It measures codes at random
/// places of 256 MiB in batches of 24, as a search meets them. It also measures the
/// consecutive codes of a cell, likewise from 256 MiB and from L2. Then the time per code
/// made (`encode=`), and per query prepared.
namespace hmann {
namespace {

constexpr std::size_t kBatch = 24;
constexpr std::size_t kCell = 32;
constexpr std::size_t kMemoryBytes = std::size_t{256} << 20;
constexpr std::size_t kCacheBytes = std::size_t{256} << 10;

Kernels MustChoose(const char* level, std::uint32_t dim) {
  setenv("HMANN_SIMD", level, 1);
  absl::StatusOr<Kernels> kernels = ChooseKernels(DType::kU8, Metric::kL2, dim);
  unsetenv("HMANN_SIMD");
  if (!kernels.ok()) std::exit(1);
  return *kernels;
}

std::vector<std::byte> RandomRows(std::size_t n, std::uint32_t dim) {
  std::vector<std::byte> rows(n * dim);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::byte>(RandomBelow(1, i, 100));
  return rows;
}

struct Setting {
  Encoder encoder;
  CodeQuery query;
  Buffer codes;
  std::size_t n;
};

Setting MakeSetting(const char* level, std::uint32_t dim, std::uint32_t bits, std::size_t bytes) {
  absl::StatusOr<Encoder> encoder =
      Encoder::Make(MustChoose(level, dim), bits, 1, std::vector<float>(dim, 50));
  if (!encoder.ok()) std::exit(1);
  constexpr std::size_t kDistinct = 64;
  const std::vector<std::byte> rows = RandomRows(kDistinct + 1, dim);
  const std::size_t stride = encoder->code_bytes(), n = bytes / stride;
  Setting setting{*encoder, {}, *Buffer::Allocate(n * stride), n};
  setting.query.Prepare(*encoder, rows.data() + kDistinct * dim);
  std::vector<std::byte> distinct(kDistinct * stride);
  Encoder::Scratch scratch;
  for (std::size_t i = 0; i < kDistinct; ++i)
    encoder->Encode(&rows[i * dim], &rows[(i ^ 1) * dim], &distinct[i * stride], scratch);
  for (std::size_t i = 0; i < n; ++i)
    std::copy_n(distinct.data() + i % kDistinct * stride, stride,
                setting.codes.data() + i * stride);
  return setting;
}

void Report(benchmark::State& state, const char* what, std::size_t per_iteration) {
  state.counters[what] = benchmark::Counter(
      static_cast<double>(per_iteration),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void RunRandom(benchmark::State& state, const char* level, std::uint32_t dim, std::uint32_t bits,
               std::size_t bytes, bool with_errors) {
  const Setting setting = MakeSetting(level, dim, bits, bytes);
  std::vector<std::uint32_t> order(1 << 20);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<std::uint32_t>(RandomBelow(2, i, setting.n));
  const std::byte* pointers[kBatch];
  float centroids[kBatch] = {}, estimates[kBatch], errors[kBatch];
  std::size_t at = 0;
  for (auto _ : state) {
    if (at + kBatch > order.size()) at = 0;
    for (std::size_t i = 0; i < kBatch; ++i)
      pointers[i] =
          setting.codes.data() + std::size_t{order[at + i]} * setting.encoder.code_bytes();
    at += kBatch;
    setting.query.Estimate(pointers, centroids, kBatch, estimates, with_errors ? errors : nullptr);
    benchmark::DoNotOptimize(estimates);
    benchmark::ClobberMemory();
  }
  Report(state, "estimate", kBatch);
}

void RunCells(benchmark::State& state, const char* level, std::uint32_t dim, std::uint32_t bits,
              std::size_t bytes) {
  const Setting setting = MakeSetting(level, dim, bits, bytes);
  float estimates[kCell];
  std::size_t at = 0;
  for (auto _ : state) {
    if (at + kCell > setting.n) at = 0;
    setting.query.EstimateCell(setting.codes.data() + at * setting.encoder.code_bytes(), kCell, 1,
                               estimates, nullptr);
    at += kCell;
    benchmark::DoNotOptimize(estimates);
    benchmark::ClobberMemory();
  }
  Report(state, "estimate", kCell);
}

void RunEncode(benchmark::State& state, std::uint32_t dim, std::uint32_t bits) {
  const Setting setting = MakeSetting("scalar", dim, bits, kCacheBytes);
  const std::vector<std::byte> rows = RandomRows(65, dim);
  std::vector<std::byte> code(setting.encoder.code_bytes());
  Encoder::Scratch scratch;
  std::size_t i = 0;
  for (auto _ : state) {
    setting.encoder.Encode(&rows[i * dim], &rows[(i + 1) * dim], code.data(), scratch);
    i = (i + 1) % 64;
    benchmark::DoNotOptimize(code.data());
  }
  Report(state, "encode", 1);
}

void RunPrepare(benchmark::State& state, std::uint32_t dim, std::uint32_t bits) {
  Setting setting = MakeSetting("scalar", dim, bits, kCacheBytes);
  const std::vector<std::byte> rows = RandomRows(1, dim);
  for (auto _ : state) setting.query.Prepare(setting.encoder, rows.data());
}

void RegisterAll() {
  for (const std::uint32_t dim : {128u, 96u, 784u}) {
    for (const unsigned bits : kCodeBits) {
      const std::string shape = std::to_string(dim) + "d/" + std::to_string(bits) + "bit/";
      for (const SimdLevel& level : BuiltSimdLevels()) {
        if (!level.supported()) continue;
        const char* simd = level.name;
        const std::string name = shape + simd + "/";
        benchmark::RegisterBenchmark((name + "random/memory").c_str(), RunRandom, simd, dim, bits,
                                     kMemoryBytes, false);
        benchmark::RegisterBenchmark((name + "random/memory/errors").c_str(), RunRandom, simd, dim,
                                     bits, kMemoryBytes, true);
        benchmark::RegisterBenchmark((name + "random/L2").c_str(), RunRandom, simd, dim, bits,
                                     kCacheBytes, false);
        benchmark::RegisterBenchmark((name + "cells/memory").c_str(), RunCells, simd, dim, bits,
                                     kMemoryBytes);
        benchmark::RegisterBenchmark((name + "cells/L2").c_str(), RunCells, simd, dim, bits,
                                     kCacheBytes);
      }
      benchmark::RegisterBenchmark((shape + "encode").c_str(), RunEncode, dim, bits);
      benchmark::RegisterBenchmark((shape + "prepare").c_str(), RunPrepare, dim, bits);
    }
  }
}

const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace hmann
