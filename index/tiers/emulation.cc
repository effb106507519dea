#include "index/tiers/emulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/check.h"
#include "index/base/statistics.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

struct Preset {
  std::string_view name;
  std::uint64_t latency_ns;  ///< in addition to the same source's local DRAM
  std::uint64_t bytes_per_second;
  const char* source;
};

constexpr std::uint64_t kGB = 1000000000;
constexpr Preset kPresets[] = {
    {"optane", 217, 35 * kGB,
     "Optane PMM, random reads of 304 ns against 87 of DRAM: Ren's dissertation, ch. 7"},
    {"optane-2s", 185, 35 * kGB,
     "Optane PMM of the own socket, 275 ns against 90: Ren's dissertation, ch. 8"},
    {"optane-2s-remote", 250, 1 * kGB,
     "Optane PMM of the other socket, 340 ns against 90: Ren's dissertation, ch. 8"},
    {"pmbd", 110, 19 * kGB, "emulated persistent memory, 200 ns against 90: Rang et al., ReDL"},
    {"cxl", 210, 0,
     "the middle of the 170-250 ns that the CXL literature gives; no bandwidth given"},
};

absl::Status BadField(absl::string_view settings, absl::string_view field,
                      const absl::Status& why) {
  return InvalidArgument("emulated:", settings, ": ", field, ": ", why.message());
}

absl::Status ParseBandwidth(std::string_view value, std::uint64_t* bytes_per_second) {
  constexpr std::string_view kPerSecond = "/s";
  if (!value.ends_with(kPerSecond))
    return InvalidArgument("expected a size and /s, as 6GB/s or 500MiB/s");
  HMANN_ASSIGN_OR_RETURN(*bytes_per_second,
                         ParseSize(value.substr(0, value.size() - kPerSecond.size())));
  if (*bytes_per_second < 1000000) return InvalidArgument("expected at least 1MB/s");
  return absl::OkStatus();
}

absl::Status ParseLatency(std::string_view value, std::uint64_t* latency_ns) {
  HMANN_ASSIGN_OR_RETURN(const auto latency, ParseDuration(value));
  if (latency > std::chrono::milliseconds(100)) return InvalidArgument("expected at most 100ms");
  *latency_ns = static_cast<std::uint64_t>(latency.count());
  return absl::OkStatus();
}

absl::Status ParseLines(std::string_view value, std::uint32_t* lines) {
  const bool good = absl::SimpleAtoi(absl::string_view(value.data(), value.size()), lines) &&
                    *lines >= 1 && *lines <= EmulationSpec::kMostLines;
  return good ? absl::OkStatus() : InvalidArgument("expected 1 to ", EmulationSpec::kMostLines);
}

std::string FormatBandwidth(std::uint64_t bytes_per_second) {
  if (bytes_per_second % kGB == 0) return absl::StrCat(bytes_per_second / kGB, "GB/s");
  if (bytes_per_second % 1_MiB == 0) return absl::StrCat(bytes_per_second / 1_MiB, "MiB/s");
  if (bytes_per_second % 1000000 == 0) return absl::StrCat(bytes_per_second / 1000000, "MB/s");
  return absl::StrCat(bytes_per_second, "B/s");
}

const Preset* FindPreset(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPresets), std::end(kPresets),
                                   [&](const Preset& preset) { return preset.name == name; });
  return found == std::end(kPresets) ? nullptr : found;
}

std::string PresetNames() {
  std::string names;
  for (const Preset& preset : kPresets)
    absl::StrAppend(&names, names.empty() ? "" : ", ",
                    absl::string_view(preset.name.data(), preset.name.size()));
  return names;
}

/// Median ticks by which a spin ends late.
std::uint64_t MeasureSpin() {
  const TickClock clock;
  std::vector<double> late(1001);
  for (double& ticks : late) {
    const std::uint64_t target = clock.Now() + 500;
    clock.SpinUntil(target);
    ticks = static_cast<double>(clock.Now() - target);
  }
  return static_cast<std::uint64_t>(Median(std::move(late)));
}

}  // namespace

std::string EmulationSpec::ToString() const {
  std::string text = absl::StrCat("lat=", latency_ns, "ns");
  if (bytes_per_second > 0) absl::StrAppend(&text, ",bw=", FormatBandwidth(bytes_per_second));
  absl::StrAppend(&text, ",lines=", lines);
  if (const Preset* found = FindPreset(preset); found != nullptr)
    absl::StrAppend(&text, " (", preset, ": ", found->source, ")");
  return text;
}

absl::StatusOr<EmulationSpec> EmulationSpec::Parse(std::string_view settings) {
  const absl::string_view text(settings.data(), settings.size());
  EmulationSpec spec;
  bool first = true, has_latency = false;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string_view name(field.first.data(), field.first.size()),
        value(field.second.data(), field.second.size());
    absl::Status status;
    if (const Preset* preset = FindPreset(name); preset != nullptr && first && value.empty()) {
      spec = {preset->latency_ns, preset->bytes_per_second, spec.lines, std::string(name)};
      has_latency = true;
    } else if (name == "lat") {
      status = ParseLatency(value, &spec.latency_ns);
      has_latency = true;
    } else if (name == "bw") {
      status = ParseBandwidth(value, &spec.bytes_per_second);
    } else if (name == "lines") {
      status = ParseLines(value, &spec.lines);
    } else {
      status = InvalidArgument("expected lat, bw, lines or, first, one of ", PresetNames());
    }
    if (!status.ok()) return BadField(text, field.first, status);
    if (name == "lat" || name == "bw") spec.preset.clear();
    first = false;
  }
  if (!has_latency) return BadField(text, "lat", InvalidArgument("expected a time, as lat=300ns"));
  return spec;
}

EmulatedBus::EmulatedBus(const EmulationSpec& wanted, double rate, std::uint64_t now)
    : spec(wanted),
      ticks_per_ns(rate),
      origin(now),
      latency_ticks(
          static_cast<std::uint64_t>(std::llround(rate * static_cast<double>(wanted.latency_ns)))) {
  HMANN_CHECK(spec.lines >= 1 && spec.lines <= EmulationSpec::kMostLines);
  if (spec.bytes_per_second == 0) return;
  line_cost = static_cast<std::uint64_t>(
      std::llround(64e9 * rate * 256 / static_cast<double>(spec.bytes_per_second)));
}

absl::StatusOr<std::shared_ptr<EmulatedBus>> EmulatedBus::Make(const EmulationSpec& spec) {
  HMANN_ASSIGN_OR_RETURN(const double rate, MeasureTicksPerNs());
  auto bus = std::make_shared<EmulatedBus>(spec, rate, TickClock().Now());
  bus->spin_ticks = MeasureSpin();
  return bus;
}

void FetchedLines::Clear() {
  if (inserted_ == 0) return;
  std::fill(slots_.begin(), slots_.end(), 0);
  inserted_ = 0;
}

/// Open addressing without tombstones: later entries of the same chain move up into the
/// gap.
void FetchedLines::Erase(std::uint64_t key) {
  std::size_t gap = Slot(key);
  while (slots_[gap] >> 8 != key) gap = Next(gap);
  for (std::size_t slot = Next(gap); slots_[slot] != 0; slot = Next(slot)) {
    const std::size_t home = Slot(slots_[slot] >> 8);
    if ((slot - home) % kSlots < (slot - gap) % kSlots) continue;
    slots_[gap] = slots_[slot];
    gap = slot;
  }
  slots_[gap] = 0;
}

}  // namespace hmann
