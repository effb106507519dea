#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/codes/code_layout.h"
#include "index/codes/encoder.h"
#include "index/distance/distance.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

constexpr std::size_t kBatch = 24;
constexpr std::size_t kCell = 32;
constexpr std::size_t kCodeBytes = std::size_t{256} << 10;  ///< in L2
constexpr int kPrepares = 8;
constexpr int kCalls = 64;  ///< between looks at the clock

absl::StatusOr<std::vector<std::byte>> RandomRows(const Kernels& kernels, std::size_t n) {
  const DType given = QueryType(kernels.dtype);
  std::vector<std::byte> rows(n * kernels.row_bytes), vector(kernels.dim * SizeOf(given));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::uint32_t c = 0; c < kernels.dim; ++c) {
      const auto value = static_cast<std::uint8_t>(1 + RandomBelow(i, c, 100));
      if (given == DType::kF32) {
        reinterpret_cast<float*>(vector.data())[c] = value;
      } else {
        vector[c] = static_cast<std::byte>(value);
      }
    }
    HMANN_RETURN_IF_ERROR(EncodeRow(kernels, vector.data(), &rows[i * kernels.row_bytes]));
  }
  return rows;
}

absl::Status AddDistanceProbe(const Kernels& kernels, Figure& figure, Probes& probes) {
  const std::size_t n = kernels.row_bytes > 512 ? 8 : 32;  // in L1
  HMANN_ASSIGN_OR_RETURN(std::vector<std::byte> rows, RandomRows(kernels, n + 1));
  probes.Add({&figure}, [rows = std::move(rows), kernels, n](auto slice) -> std::vector<double> {
    std::vector<const std::byte*> pointers;
    for (std::size_t i = 0; i < n; ++i) pointers.push_back(&rows[i * kernels.row_bytes]);
    std::vector<DistanceKey> keys(n);
    return {NsPerUnit(slice, n * kCalls, [&] {
      for (int call = 0; call < kCalls; ++call) {
        kernels.many(&rows[n * kernels.row_bytes], pointers.data(), n, kernels.dim, keys.data());
        Keep(keys[0]);
      }
    })};
  });
  return absl::OkStatus();
}

struct CodeSetting {
  Encoder encoder;
  CodeQuery query;
  std::vector<std::byte> rows, codes;
  std::size_t n;
};

std::vector<double> TimeCodes(CodeSetting& setting, Probes::Clock::duration slice) {
  const std::size_t bytes = setting.encoder.code_bytes();
  float estimates[kCell];
  const float centroids[kBatch] = {};
  std::size_t at = 0;
  const double cell = NsPerUnit(slice / 3, kCell * kCalls, [&] {
    for (int call = 0; call<kCalls; ++call, at = at + 2 * kCell> setting.n ? 0 : at + kCell) {
      setting.query.EstimateCell(&setting.codes[at * bytes], kCell, 1, estimates, nullptr);
      Keep(estimates);
    }
  });
  std::uint64_t counter = 0;
  const double gathered = NsPerUnit(slice / 3, kBatch * kCalls, [&] {
    const std::byte* pointers[kBatch];
    for (int call = 0; call < kCalls; ++call) {
      for (const std::byte*& pointer : pointers)
        pointer = &setting.codes[RandomBelow(3, counter++, setting.n) * bytes];
      setting.query.Estimate(pointers, centroids, kBatch, estimates, nullptr);
      Keep(estimates);
    }
  });
  const double prepare = NsPerUnit(slice / 3, kPrepares, [&] {
    for (int i = 0; i < kPrepares; ++i) setting.query.Prepare(setting.encoder, setting.rows.data());
  });
  return {cell, gathered, prepare};
}

absl::Status AddCodeProbe(const Kernels& kernels, CodeProfile& profile, Probes& probes) {
  HMANN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Make(kernels, profile.bits, 1,
                                                        std::vector<float>(kernels.dim, 50)));
  constexpr std::size_t kDistinct = 64;
  const std::size_t bytes = encoder.code_bytes();
  HMANN_ASSIGN_OR_RETURN(std::vector<std::byte> rows, RandomRows(kernels, kDistinct));
  auto setting = std::make_shared<CodeSetting>(CodeSetting{
      std::move(encoder), {}, std::move(rows), {}, std::max(kCodeBytes / bytes, kDistinct)});
  setting->codes.resize(setting->n * bytes);
  Encoder::Scratch scratch;
  const auto row = [&](std::size_t i) { return &setting->rows[i % kDistinct * kernels.row_bytes]; };
  for (std::size_t i = 0; i < setting->n && i < kDistinct; ++i) {
    setting->encoder.Encode(row(i), row(i + 1), &setting->codes[i * bytes], scratch);
  }
  for (std::size_t i = kDistinct; i < setting->n; ++i)
    std::copy_n(&setting->codes[i % kDistinct * bytes], bytes, &setting->codes[i * bytes]);
  setting->query.Prepare(setting->encoder, row(0));
  probes.Add(
      {&profile.ns_per_estimate_cell, &profile.ns_per_estimate_gathered, &profile.ns_per_query},
      [setting](auto slice) { return TimeCodes(*setting, slice); });
  return absl::OkStatus();
}

/// A thread that sleeps until it is told, and says when it woke up.
class Sleeper {
 public:
  Sleeper() : thread_([this] { Run(); }) {}
  ~Sleeper() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  /// From notifying it until it ran, once it has surely gone to sleep.
  Probes::Clock::duration Wake() {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    Probes::Clock::time_point told;
    {
      const std::lock_guard lock(mutex_);
      told_ = true;
      told = Probes::Clock::now();
    }
    wake_.notify_one();
    std::unique_lock lock(mutex_);
    woke_up_.wait(lock, [this] { return !told_; });
    return woke_ - told;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return told_ || stop_; });
      if (stop_) return;
      woke_ = Probes::Clock::now();
      told_ = false;
      woke_up_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, woke_up_;
  bool told_ = false, stop_ = false;
  Probes::Clock::time_point woke_;
  std::thread thread_;
};

}  // namespace

absl::Status AddKernelProbes(const std::vector<ProfileOptions::Shape>& shapes,
                             DeviceProfile& profile, Probes& probes) {
  for (const ProfileOptions::Shape& shape : shapes) {
    profile.distances.push_back({shape.dtype, shape.dim, {}});
    for (const unsigned bits : kCodeBits) profile.codes.push_back({shape.dim, bits, {}, {}, {}});
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                           ChooseKernels(shapes[i].dtype, Metric::kL2, shapes[i].dim));
    HMANN_RETURN_IF_ERROR(AddDistanceProbe(kernels, profile.distances[i].ns_per_distance, probes));
    for (std::size_t j = 0; j < std::size(kCodeBits); ++j) {
      HMANN_RETURN_IF_ERROR(
          AddCodeProbe(kernels, profile.codes[i * std::size(kCodeBits) + j], probes));
    }
  }
  return absl::OkStatus();
}

void AddWakeProbe(Figure& wake_us, Probes& probes) {
  probes.Add(
      {&wake_us},
      [sleeper = std::make_shared<Sleeper>()](auto slice) -> std::vector<double> {
        std::vector<double> us;
        for (const auto end = Probes::Clock::now() + slice;
             us.empty() || Probes::Clock::now() < end;) {
          us.push_back(std::chrono::duration<double, std::micro>(sleeper->Wake()).count());
        }
        return {FigureOf(us).median};
      },
      4);
}

}  // namespace hmann
