#include "index/codes/quantizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "index/base/random.h"

namespace hmann {
namespace {

constexpr std::size_t kSums = 8;  // sums in a fixed order that vectorizes

float AddLanes(const float (&lanes)[kSums]) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// floor(t a), at most `most`.
inline float Steps(float a, float t, float most) {
  const float scaled = a * t;
  return static_cast<float>(static_cast<std::int32_t>(scaled < most ? scaled : most));
}

Quantization Measure(const float* magnitudes, std::size_t dim, float t, float most) {
  float dots[kSums] = {}, squares[kSums] = {};
  for (std::size_t i = 0; i < dim; i += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane) {
      const float a = magnitudes[i + lane];
      const float x = Steps(a, t, most) + 0.5f;
      dots[lane] += a * x;
      squares[lane] += x * x;
    }
  }
  return {AddLanes(dots), AddLanes(squares)};
}

/// The best step for a normal distribution of variance 1 (Max 1960).
constexpr float NormalStep(unsigned bits) { return bits == 2 ? 0.9957f : 0.3352f; }

/// Requires bits = 2 or 4.
float BestScale(const float* magnitudes, std::size_t dim, unsigned bits, float most) {
  constexpr int kCoarse = 5, kFine = 4;  // steps to each side
  constexpr float kCoarseRatio = 1.14f, kFineRatio = 1.027f;
  float best = std::sqrt(static_cast<float>(dim)) / NormalStep(bits);
  const auto cosine = [&](float t) {  // squared: all are positive
    const Quantization found = Measure(magnitudes, dim, t, most);
    return found.dot * (found.dot / found.squared_norm);
  };
  float best_cosine = cosine(best);
  const auto search = [&](int steps, float ratio, bool is_smooth) {
    const float middle = best;
    for (const float factor : {ratio, 1 / ratio}) {
      float t = middle;
      for (int step = 0; step < steps; ++step) {
        t *= factor;
        const float found = cosine(t);
        if (found <= best_cosine && is_smooth) break;
        if (found > best_cosine) best = t, best_cosine = found;
      }
    }
  };
  search(kCoarse, kCoarseRatio, true);
  search(kFine, kFineRatio, false);
  return best;
}

}  // namespace

Quantization Quantize(const float* unit, std::size_t dim, unsigned bits, float* magnitudes,
                      std::uint8_t* levels) {
  for (std::size_t i = 0; i < dim; ++i) magnitudes[i] = std::fabs(unit[i]);
  const std::int32_t half = 1 << (bits - 1);
  const float most = static_cast<float>(half - 1);
  const float t = bits == 1 ? 0.0f : BestScale(magnitudes, dim, bits, most);
  for (std::size_t i = 0; i < dim; ++i) {
    const auto steps = static_cast<std::int32_t>(Steps(magnitudes[i], t, most));
    levels[i] = static_cast<std::uint8_t>(unit[i] < 0 ? half - 1 - steps : half + steps);
  }
  return Measure(magnitudes, dim, t, most);
}

CodeSize MeasureCodes(std::size_t dim, unsigned bits) {
  const std::size_t samples = std::max<std::size_t>(8, 65536 / dim);
  std::vector<float> unit(dim), magnitudes(dim);
  std::vector<std::uint8_t> levels(dim);
  double across = 0, norm = 0;  // sums of |x|^2 sin^2 and of |x|^2
  for (std::size_t sample = 0; sample < samples; ++sample) {
    double squared_norm = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      double normal = -6;  // the sum of twelve uniform numbers is nearly normal
      for (std::size_t k = 0; k < 12; ++k) normal += RandomUnit(bits, (sample * dim + i) * 12 + k);
      unit[i] = static_cast<float>(normal);
      squared_norm += normal * normal;
    }
    const auto inverse = static_cast<float>(1 / std::sqrt(squared_norm));
    for (float& component : unit) component *= inverse;
    const Quantization code = Quantize(unit.data(), dim, bits, magnitudes.data(), levels.data());
    const auto dot = static_cast<double>(code.dot),
               squared = static_cast<double>(code.squared_norm);
    across += std::max(0.0, squared - dot * dot);
    norm += squared;
  }
  const double n = static_cast<double>(samples);
  return {static_cast<float>(std::sqrt(norm / n)),
          static_cast<float>(1.03 * std::sqrt(across / n / static_cast<double>(dim - 1)))};
}

float DotWithLevels(const float* vector, const std::uint8_t* levels, std::size_t dim,
                    unsigned bits) {
  const float middle = static_cast<float>((1 << bits) - 1) / 2;
  float sums[kSums] = {};
  for (std::size_t i = 0; i < dim; i += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane)
      sums[lane] += vector[i + lane] * (static_cast<float>(levels[i + lane]) - middle);
  }
  return AddLanes(sums);
}

void PackLevels(const std::uint8_t* levels, std::size_t dim, unsigned bits, std::byte* code) {
  for (std::size_t begin = 0; begin < dim; begin += kBlockDims) {
    const std::size_t bytes = LevelBytes(std::min(kBlockDims, dim - begin), bits);
    std::uint8_t packed[kBlockDims / 2] = {};
    for (unsigned field = 0; field < 8 / bits; ++field) {
      const std::uint8_t* of_field = levels + begin + field * bytes;
      for (std::size_t k = 0; k < bytes; ++k)
        packed[k] = static_cast<std::uint8_t>(packed[k] | (of_field[k] << (field * bits)));
    }
    std::memcpy(code, packed, bytes);
    code += bytes;
  }
}

void LayOutQuery(const std::int8_t* components, std::size_t dim, unsigned bits,
                 std::vector<QueryBlock>& blocks) {
  blocks.clear();
  for (std::size_t begin = 0; begin < dim; begin += kBlockDims) {
    const std::size_t bytes = LevelBytes(std::min(kBlockDims, dim - begin), bits);
    QueryBlock& block = blocks.emplace_back();
    std::memset(block.components, 0, sizeof(block.components));
    for (unsigned field = 0; field < 8 / bits; ++field) {
      std::memcpy(block.components + field * LevelBytes(kBlockDims, bits),
                  components + begin + field * bytes, bytes);
    }
  }
}

}  // namespace hmann
