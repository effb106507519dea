#include "index/codes/testing/conformance.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "index/base/random.h"
#include "index/codes/quantizer.h"
#include "index/codes/rotation.h"

namespace hmann::code_conformance {
namespace {

constexpr std::size_t kCodes = 37;

/// Memory whose end is followed by an unreadable page.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size)
      : size_(size), page_(static_cast<std::size_t>(getpagesize())) {
    mapped_ = (size + page_ - 1) / page_ * page_ + page_;
    memory_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED ||
        mprotect(static_cast<std::byte*>(memory_) + mapped_ - page_, page_, PROT_NONE) != 0)
      std::abort();
  }
  ~GuardedBytes() { munmap(memory_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(memory_) + mapped_ - page_ - size_; }

 private:
  std::size_t size_;
  std::size_t page_;
  std::size_t mapped_ = 0;
  void* memory_ = nullptr;
};

std::uint8_t Level(std::size_t code, std::size_t i, unsigned bits) {
  const unsigned most = (1u << bits) - 1;
  switch (code) {
    case 0:
      return 0;
    case 1:
      return static_cast<std::uint8_t>(most);
    case 2:
      return static_cast<std::uint8_t>(i % 2 ? most : 0);
    default:
      return static_cast<std::uint8_t>(Random(code, i) & most);
  }
}

std::int8_t Component(std::size_t query, std::size_t i) {
  switch (query) {
    case 0:
      return 127;
    case 1:
      return -128;
    default:
      return static_cast<std::int8_t>(Random(query + 1000, i));
  }
}

std::size_t CountDifferent(const std::vector<std::int32_t>& found,
                           const std::vector<std::int32_t>& expected, std::size_t n) {
  std::size_t different = found[n] != -1;  // written past the end
  for (std::size_t i = 0; i < n; ++i) different += found[i] != expected[i];
  return different;
}

std::size_t CountMismatches(const CodeKernels& kernels, std::size_t dim, unsigned bits,
                            std::size_t query) {
  const std::size_t stride = kFactorBytes + bits * dim / 8;
  const GuardedBytes codes(kCodes * stride);
  std::vector<std::int8_t> components(dim);
  for (std::size_t i = 0; i < dim; ++i) components[i] = Component(query, i);
  std::vector<QueryBlock> blocks;
  LayOutQuery(components.data(), dim, bits, blocks);

  std::vector<std::int32_t> expected(kCodes);
  std::vector<const std::byte*> pointers(kCodes);
  std::vector<std::uint8_t> levels(dim);
  for (std::size_t s = 0; s < kCodes; ++s) {
    for (std::size_t i = 0; i < dim; ++i) {
      levels[i] = Level(s, i, bits);
      expected[s] += levels[i] * components[i];
    }
    std::byte* code = codes.data() + s * stride;
    std::memset(code, 0xff, kFactorBytes);
    PackLevels(levels.data(), dim, bits, code + kFactorBytes);
    pointers[s] = code;
  }
  std::size_t mismatches = 0;
  for (const std::size_t n : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 37}) {
    const std::size_t first = kCodes - n;
    const std::vector<std::int32_t> want(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                         expected.end());
    std::vector<std::int32_t> found(n + 1, -1);
    kernels.gathered[KernelOf(bits)](blocks.data(), dim, pointers.data() + first, n, found.data());
    mismatches += CountDifferent(found, want, n);
    std::fill(found.begin(), found.end(), -1);
    kernels.strided[KernelOf(bits)](blocks.data(), dim, codes.data() + first * stride, stride, n,
                                    found.data());
    mismatches += CountDifferent(found, want, n);
  }
  std::reverse(pointers.begin(), pointers.end());
  std::reverse(expected.begin(), expected.end());
  std::vector<std::int32_t> found(kCodes + 1, -1);
  kernels.gathered[KernelOf(bits)](blocks.data(), dim, pointers.data(), kCodes, found.data());
  return mismatches + CountDifferent(found, expected, kCodes);
}

/// Compares scalar quantization's kernels with sums taken level by level, in codes that
/// end right before an unreadable page.
std::size_t CountScalarMismatches(const CodeKernels& kernels, std::size_t dim, std::size_t query) {
  const std::size_t padded = (dim + 7) / 8 * 8, bytes = padded / 2;
  const GuardedBytes codes(kCodes * bytes);
  std::vector<std::int8_t> components(padded);
  std::int32_t norm = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    components[i] = Component(query, i);
    norm += components[i] * components[i];
  }
  std::vector<QueryBlock> blocks;
  LayOutQuery(components.data(), padded, 4, blocks);
  std::vector<std::byte> given(blocks.size() * sizeof(QueryBlock) + sizeof(norm));
  std::memcpy(given.data(), blocks.data(), given.size() - sizeof(norm));
  std::memcpy(given.data() + given.size() - sizeof(norm), &norm, sizeof(norm));

  std::vector<std::uint32_t> expected[2];
  std::vector<const std::byte*> pointers(kCodes);
  std::vector<std::uint8_t> levels(padded);
  for (std::size_t s = 0; s < kCodes; ++s) {
    std::int32_t gap = 0, dot = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      levels[i] = Level(s, i, 4);
      gap += (components[i] - 8 * levels[i]) * (components[i] - 8 * levels[i]);
      dot += components[i] * levels[i];
    }
    expected[0].push_back(static_cast<std::uint32_t>(gap) ^ 0x80000000u);
    expected[1].push_back(static_cast<std::uint32_t>(-dot) ^ 0x80000000u);
    PackLevels(levels.data(), padded, 4, codes.data() + s * bytes);
    pointers[s] = codes.data() + s * bytes;
  }
  std::size_t mismatches = 0;
  for (std::size_t metric = 0; metric < 2; ++metric) {
    for (const std::size_t n : {0, 1, 2, 3, 4, 5, 7, 8, 37}) {
      const std::size_t first = kCodes - n;
      std::vector<std::uint32_t> found(n + 1, 7);
      kernels.scalar_many[metric](given.data(), pointers.data() + first, n, dim, found.data());
      mismatches += found[n] != 7;  // written past the end
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t one =
            kernels.scalar_one[metric](given.data(), pointers[first + i], dim);
        mismatches += found[i] != expected[metric][first + i] || found[i] != one;
      }
    }
  }
  return mismatches;
}

}  // namespace

std::vector<std::size_t> Dims() {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 8; dim <= 264; dim += 8) dims.push_back(dim);
  for (const std::size_t dim : {784, 960, 1536, 32768}) dims.push_back(dim);
  return dims;
}

std::size_t CountMismatches(const CodeKernels& kernels, std::size_t dim) {
  std::size_t mismatches = 0;
  for (const unsigned bits : kCodeBits) {
    for (std::size_t query = 0; query < 4; ++query)
      mismatches += CountMismatches(kernels, dim, bits, query);
  }
  for (std::size_t query = 0; query < 4; ++query) {
    for (const std::size_t short_by : {0, 1, 7})
      mismatches += CountScalarMismatches(kernels, dim - short_by, query);
  }
  return mismatches;
}

std::uint64_t CodeFingerprint() {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::uint32_t dim : {1u, 7u, 96u, 100u, 128u, 200u, 784u}) {
    const Rotation rotation(dim, dim);
    const std::uint32_t padded_dim = rotation.padded_dim();
    std::vector<float> vector(padded_dim), magnitudes(padded_dim);
    std::vector<std::uint8_t> levels(padded_dim);
    std::vector<std::byte> code(padded_dim / 2);
    for (std::uint64_t sample = 0; sample < 50; ++sample) {
      for (const unsigned bits : kCodeBits) {
        double squared_norm = 0;
        for (std::uint32_t i = 0; i < padded_dim; ++i) {
          vector[i] = i < dim ? static_cast<float>(RandomBelow(sample, i, 511)) - 255.5f : 0;
          squared_norm += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
        }
        const auto inverse = static_cast<float>(1 / std::sqrt(squared_norm));
        for (float& component : vector) component *= inverse;
        rotation.Apply(vector.data());
        Quantize(vector.data(), padded_dim, bits, magnitudes.data(), levels.data());
        PackLevels(levels.data(), padded_dim, bits, code.data());
        for (std::size_t k = 0; k < bits * padded_dim / 8; ++k)
          hash = (hash ^ std::to_integer<std::uint64_t>(code[k])) * 0x100000001b3u;
      }
    }
  }
  return hash;
}

}  // namespace hmann::code_conformance
