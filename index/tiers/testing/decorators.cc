#include "index/tiers/testing/decorators.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/region_builder.h"

namespace hmann {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

class DecoratedBlocks : public BlockSource {
 public:
  DecoratedBlocks(std::shared_ptr<Decorator> decorator, std::shared_ptr<const BlockSource> inner,
                  std::uint64_t bytes)
      : decorator_(std::move(decorator)), inner_(std::move(inner)), bytes_(bytes) {}

  absl::StatusOr<std::unique_ptr<BlockReader>> NewReader(
      const ReaderOptions& options) const override {
    HMANN_ASSIGN_OR_RETURN(std::unique_ptr<BlockReader> reader, inner_->NewReader(options));
    return decorator_->Wrap(std::move(reader), alive_, bytes_);
  }
  std::uint32_t sector_bytes() const override { return inner_->sector_bytes(); }
  void Where(MemoryResidency* where) const override {
    inner_->Where(where);
    where->note = absl::StrCat(decorator_->Note(), where->note.empty() ? "" : ", ", where->note);
  }

 private:
  std::shared_ptr<Decorator> decorator_;
  std::shared_ptr<const BlockSource> inner_;
  std::uint64_t bytes_;
  std::shared_ptr<const void> alive_ = std::make_shared<int>();
};

class DecoratedTier : public Tier {
 public:
  DecoratedTier(TierTraits traits, std::shared_ptr<Decorator> decorator,
                std::unique_ptr<Tier> inner)
      : Tier(std::move(traits)), decorator_(std::move(decorator)), inner_(std::move(inner)) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    if (traits().addressable) {
      if (absl::Status status = decorator_->BeforePlace(); !status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("tier ", traits().name, ": ", status.message()));
      }
    }
    HMANN_ASSIGN_OR_RETURN(Region region, inner_->Place(source, progress));
    if (std::shared_ptr<const BlockSource>& blocks = RegionBuilder::Blocks(region);
        blocks != nullptr) {
      blocks = std::make_shared<DecoratedBlocks>(decorator_, std::move(blocks), region.size());
    }
    return region;
  }

 private:
  std::shared_ptr<Decorator> decorator_;
  std::unique_ptr<Tier> inner_;
};

absl::Status ParseCount(std::string_view value, std::uint64_t* count) {
  if (absl::SimpleAtoi(Absl(value), count)) return absl::OkStatus();
  return InvalidArgument("'", Absl(value), "' is not a whole number");
}

struct Settings {
  std::chrono::nanoseconds min{0}, max{0};
  std::uint64_t seed = 1, every = 1, after = 0;
};

/// `allowed`: names, separated by blanks.
absl::Status ParseSettings(std::string_view text, std::string_view allowed, Settings* settings) {
  if (text.empty()) return InvalidArgument("expected", Absl(allowed), "found nothing");
  for (const absl::string_view part : absl::StrSplit(Absl(text), ',')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string_view name(field.first.data(), field.first.size()),
        value(field.second.data(), field.second.size());
    if (name.empty() ||
        allowed.find(absl::StrCat(" ", field.first, " ")) == std::string_view::npos) {
      return InvalidArgument("expected", Absl(allowed), "found '", part, "'");
    }
    if (name == "min" || name == "max") {
      HMANN_ASSIGN_OR_RETURN((name == "min" ? settings->min : settings->max), ParseDuration(value));
    } else {
      HMANN_RETURN_IF_ERROR(ParseCount(value, name == "seed"    ? &settings->seed
                                              : name == "every" ? &settings->every
                                                                : &settings->after));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Decorator>> MakeDelayerOf(std::string_view text) {
  Settings settings;
  if (text.find('=') == std::string_view::npos) {
    HMANN_ASSIGN_OR_RETURN(settings.min, ParseDuration(text));
    settings.max = settings.min;
  } else {
    HMANN_RETURN_IF_ERROR(ParseSettings(text, " min max seed ", &settings));
  }
  if (settings.max < settings.min) return InvalidArgument("expected min to be at most max");
  return MakeDelayer(settings.min, settings.max, settings.seed);
}

absl::StatusOr<std::unique_ptr<Decorator>> MakeDecorator(std::string_view kind,
                                                         std::string_view text) {
  Settings settings;
  if (kind == "delay") return MakeDelayerOf(text);
  if (kind == "stall") {
    HMANN_RETURN_IF_ERROR(ParseSettings(text, " after ", &settings));
    return MakeStaller(settings.after);
  }
  if (kind == "fail") {
    if (!text.empty()) HMANN_RETURN_IF_ERROR(ParseSettings(text, " every ", &settings));
    if (settings.every == 0) return InvalidArgument("every: expected at least 1");
    return MakeFailer(settings.every);
  }
  if (!text.empty()) return InvalidArgument("expected no settings");
  return kind == "check" ? MakeChecker() : MakeCounter();
}

std::pair<std::string_view, std::string_view> SplitColon(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

std::optional<std::pair<std::string_view, std::string_view>> SplitDecorator(std::string_view spec) {
  const std::size_t plus = spec.find('+');
  if (plus == std::string_view::npos) return std::nullopt;
  const std::string_view kind = SplitColon(spec.substr(0, plus)).first;
  for (const std::string_view known : {"check", "count", "delay", "fail", "stall"}) {
    if (kind == known) return std::pair(spec.substr(0, plus), spec.substr(plus + 1));
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<Tier>> Decorate(std::string_view decorator,
                                               std::unique_ptr<Tier> inner) {
  const auto [kind, settings] = SplitColon(decorator);
  TierTraits traits = inner->traits();
  traits.name = absl::StrCat(Absl(decorator), "+", traits.name);
  if (traits.addressable && kind != "fail") {
    return InvalidArgument("tier ", traits.name, ": an addressable tier hands out pointers, past '",
                           Absl(kind), "'",
                           kind == "delay" ? ": use emulated:lat=300ns" : ": use it with nvme");
  }
  auto made = MakeDecorator(kind, settings);
  if (!made.ok())
    return InvalidArgument("tier ", traits.name, ": ", Absl(kind), ": ", made.status().message());
  return std::make_unique<DecoratedTier>(std::move(traits), *std::move(made), std::move(inner));
}

absl::StatusOr<std::unique_ptr<Tier>> MakeDecorated(std::string_view spec) {
  const auto decorated = SplitDecorator(spec);
  if (!decorated.has_value()) return nullptr;
  HMANN_ASSIGN_OR_RETURN(std::unique_ptr<Tier> inner, MakeTier(decorated->second));
  return Decorate(decorated->first, std::move(inner));
}

namespace {

[[maybe_unused]] const bool known = (RegisterTiers(MakeDecorated), true);

}  // namespace

}  // namespace hmann
