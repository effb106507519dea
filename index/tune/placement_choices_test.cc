#include "index/tune/placement_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "index/base/units.h"
#include "index/construct/fast_memory.h"

namespace hmann {
namespace {

using testing::HasSubstr;

PlanRequest Request(std::uint64_t n, std::uint64_t fast_bytes, const std::string& slow = "nvme") {
  PlanRequest request;
  request.shape = {n, 128, DType::kU8, Metric::kL2, 16, 100, false};
  request.fast_bytes = fast_bytes;
  request.slow = slow;
  request.profile = DefaultProfile();
  request.threads = 2;
  return request;
}

PlacementPlan MustPlan(const PlanRequest& request) {
  const absl::StatusOr<PlacementPlan> plan = PlanPlacement(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : PlacementPlan{};
}

std::uint64_t BytesOf(const PlacementPlan& plan, const std::string& tier) {
  std::uint64_t bytes = 0;
  for (const PlacedBytes& line : plan.bytes) bytes += line.tier == tier ? line.bytes : 0;
  return bytes;
}

std::uint64_t FastBytesOf(const PlanShape& shape, const PlanStructure& structure) {
  return FastBytes(FastShapeOf(*HeaderOf(shape, structure)), structure.n1);
}

// The table of the design: bytes of fast memory per vector at 1e9 x 128 u8, M = 16, 10 %
// promoted, centroid implicit in its cell. Labels are lines of their own there.
TEST(FastBytes, AreWithinThreePercentOfTheDesignsTable) {
  constexpr double kBillion = 1e9;
  const PlanShape shape{1000000000, 128, DType::kU8, Metric::kL2, 16, 100, false};
  const double labels = 0.1 * 4;
  const auto per_vector = [&](std::uint32_t bits, std::uint32_t replicas, double promote) {
    return static_cast<double>(
               FastBytesOf(shape, {static_cast<NodeId>(promote * kBillion), bits, replicas})) /
           kBillion;
  };
  EXPECT_NEAR(per_vector(0, 1, 0.1) - labels, 26.0, 0.03 * 26.0);
  EXPECT_NEAR(per_vector(0, 1, 0.16) - 1.6 * labels, 41.6, 0.03 * 41.6);
  const double expected[2][3] = {{44.4, 58.8, 87.6}, {48.0, 62.4, 91.2}};
  for (std::uint32_t replicas = 1; replicas <= 2; ++replicas) {
    for (const std::uint32_t bits : {1u, 2u, 4u}) {
      const double table = expected[replicas - 1][bits / 2];
      EXPECT_NEAR(per_vector(bits, replicas, 0.1) - labels, table, 0.03 * table)
          << bits << " bits, replicas " << replicas;
    }
  }
}

TEST(PlanPlacement, LinesAreTheFormulas) {
  for (const std::uint32_t bits : {0u, 2u}) {
    PlanRequest request = Request(1000000, 200_MiB);
    request.bits = bits;
    const PlacementPlan plan = MustPlan(request);
    EXPECT_EQ(plan.structure.bits, bits);
    const std::uint64_t structures = FastBytesOf(request.shape, plan.structure);
    std::uint64_t lines = 0;
    for (const PlacedBytes& line : plan.bytes) {
      if (line.tier == "dram" && line.structure != "cache of l0" &&
          line.structure != "cache's index" && line.structure != "migration and scratch") {
        lines += line.bytes;
      }
    }
    EXPECT_EQ(lines, structures);
    EXPECT_GE(plan.used.fast, BytesOf(plan, "dram"));
    EXPECT_LE(plan.used.fast, request.fast_bytes);
    EXPECT_EQ(plan.reserve_bytes, ReservedFastBytes(request.fast_bytes, request.threads));
  }
}

TEST(PlanPlacement, NeverGetsWorseAsMemoryGrows) {
  for (const char* slow : {"nvme", "emulated:lat=300ns", "emulated:optane"}) {
    double before = INFINITY;
    for (std::uint64_t mib = 8; mib < 700; mib += mib < 60 ? 3 : 37) {
      PlanRequest request = Request(1000000, mib << 20, slow);
      const absl::StatusOr<PlacementPlan> plan = PlanPlacement(request);
      if (!plan.ok()) {
        EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_EQ(before, INFINITY) << "more memory still fits: " << mib;
        continue;
      }
      EXPECT_LE(plan->predicted_us, before) << slow << ", " << mib << " MiB";
      EXPECT_LE(plan->used.fast, request.fast_bytes);
      before = plan->predicted_us;
    }
    EXPECT_LT(before, INFINITY);
  }
}

TEST(PlanPlacement, AllInFastMemoryWhereItFits) {
  const PlacementPlan plan = MustPlan(Request(100000, 1_GiB));
  EXPECT_EQ(plan.l0_tier, "dram");
  EXPECT_EQ(plan.cache_bytes, 0u) << "nothing to copy";
  EXPECT_EQ(plan.migration_bytes, 0u);
}

TEST(PlanPlacement, TheMiddleTierTakesL0WhereItFits) {
  PlanRequest request = Request(1000000, 100_MiB);
  const double without = MustPlan(request).predicted_us;
  request.middle = "emulated:lat=200ns";
  request.middle_bytes = 1_GiB;
  const PlacementPlan with = MustPlan(request);
  EXPECT_EQ(with.l0_tier, request.middle);
  EXPECT_EQ(with.migration_bytes, 0u);
  EXPECT_LT(with.predicted_us, without);
  EXPECT_GE(with.used.middle, BytesOf(with, request.middle));
  EXPECT_LE(with.used.middle, request.middle_bytes);
  request.middle_bytes = 100_MiB;
  EXPECT_LE(MustPlan(request).predicted_us, without) << "too small for L0, but never a harm";
}

TEST(PlanPlacement, KeepsWhatIsPinned) {
  PlanRequest request = Request(1000000, 150_MiB);
  request.promote = 0.07;
  request.bits = 4;
  request.replicas = 2;
  PlacementPlan plan = MustPlan(request);
  EXPECT_EQ(plan.structure.n1, 70000u);
  EXPECT_EQ(plan.structure.bits, 4u);
  EXPECT_EQ(plan.structure.replicas, 2u);
  request.finished = PlanStructure{50000, 1, 1};
  plan = MustPlan(request);
  EXPECT_EQ(plan.structure.n1, 50000u);
  EXPECT_EQ(plan.structure.bits, 1u);
}

TEST(PlanPlacement, BudgetsThatAreTooSmallNameOneThatWorks) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, 1_KiB, 900_KiB}) {
    PlanRequest request = Request(1000000, bytes);
    const absl::Status status = PlanPlacement(request).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << bytes;
    const std::string message(status.message());
    const std::size_t at = message.find("need ");
    ASSERT_NE(at, std::string::npos) << message;
    ASSERT_TRUE(absl::SimpleAtoi(message.substr(at + 5, message.find(' ', at + 5) - at - 5),
                                 &request.fast_bytes))
        << message;
    EXPECT_TRUE(PlanPlacement(request).ok()) << message;
    request.fast_bytes -= 8_KiB;
    EXPECT_FALSE(PlanPlacement(request).ok()) << "nearly the smallest: " << message;
  }
}

TEST(PlanPlacement, WorkOfARealInstanceIsSmall) {
  PlanRequest request = Request(1000000000, 96_GiB);
  request.middle = "emulated:lat=200ns";
  request.middle_bytes = 256_GiB;
  EXPECT_LT(MustPlan(request).work.states, 2000000u);
}

TEST(PlanPlacement, BadRequestsAreNamed) {
  PlanRequest request = Request(1000000, 100_MiB, "numa:3");
  EXPECT_THAT(std::string(PlanPlacement(request).status().message()),
              HasSubstr("only of dram, nvme"));
  request = Request(1, 100_MiB);
  EXPECT_THAT(std::string(PlanPlacement(request).status().message()), HasSubstr("rows"));
  request = Request(1000, 100_MiB, "dram");
  EXPECT_THAT(std::string(PlanPlacement(request).status().message()), HasSubstr("slow"));
  request = Request(1000, 100_MiB);
  request.profile = {};
  EXPECT_THAT(std::string(PlanPlacement(request).status().message()),
              HasSubstr("knows nothing of tier dram"));
  request.profile = DefaultProfile();
  request.profile.distances.clear();
  EXPECT_THAT(std::string(PlanPlacement(request).status().message()), HasSubstr("--shapes 128xu8"));
  request = Request(1000, 100_MiB);
  request.middle = "nvme";
  request.middle_bytes = 1_GiB;
  EXPECT_THAT(std::string(PlanPlacement(request).status().message()), HasSubstr("not addressable"));
}

TEST(PlanAgainst, PlansAnewWithTwoPercentLessUntilItFits) {
  const PlanRequest request = Request(1000000, 100_MiB);
  int asked = 0;
  const auto plan =
      PlanAgainst(request, [&](const PlacementPlan& one) -> absl::StatusOr<std::uint64_t> {
        ++asked;
        return one.used.fast + 6_MiB;  // an allocator that takes more than the plan says
      });
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->used.fast + 6_MiB, request.fast_bytes);
  EXPECT_EQ(plan->replans, asked - 1);
  EXPECT_GE(plan->replans, 1);
  EXPECT_LE(plan->replans, 4);
  const auto never = PlanAgainst(
      request, [](const PlacementPlan&) -> absl::StatusOr<std::uint64_t> { return 1_GiB; });
  EXPECT_EQ(never.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CacheCurve, GrowsFromNothingToAll) {
  for (const bool block : {true, false}) {
    for (const std::uint32_t bits : {0u, 2u}) {
      const CacheCurve curve = DefaultCacheCurve(block, {.n1 = 1, .bits = bits});
      EXPECT_EQ(curve.Hits(0, 0.16), 0);
      EXPECT_DOUBLE_EQ(curve.Hits(1, 0.16), 1);
      double before = 0;
      for (double cached = 0.01; cached <= 1; cached += 0.01) {
        EXPECT_GE(curve.Hits(cached, 0.16), before);
        before = curve.Hits(cached, 0.16);
      }
    }
  }
  EXPECT_LT(DefaultCacheCurve(false, {}).Hits(0.16, 0.16), 0.05)
      << "the pool seldom reads promoted nodes' records";
  EXPECT_GT(DefaultCacheCurve(true, {.bits = 2}).Hits(0.16, 0.16), 0.1)
      << "gates leave little else to read";
}

TEST(DefaultCounts, GoTheRightWay) {
  const auto reads = [](NodeId n1, std::uint32_t bits, std::uint32_t replicas = 1,
                        bool block = true) {
    return DefaultCounts(block, 1000000, {n1, bits, replicas}).slow_reads;
  };
  EXPECT_GT(reads(100000, 0), reads(160000, 0));
  for (const std::uint32_t bits : {0u, 1u, 2u, 4u}) {
    for (const bool block : {true, false}) {
      double before = 1e9;
      for (NodeId n1 = 500; n1 < 900000; n1 = n1 * 5 / 4) {
        EXPECT_LE(reads(n1, bits, 1, block), before)
            << "more promoted nodes never read more: " << n1 << " of " << bits << " bits";
        before = reads(n1, bits, 1, block);
      }
    }
  }
  for (const std::uint32_t bits : {1u, 2u, 4u})
    EXPECT_GT(reads(100000, bits / 2), reads(100000, bits)) << bits;
  EXPECT_GT(reads(100000, 2, 1), reads(100000, 2, 2));
  EXPECT_EQ(reads(100000, 2, 1, false), reads(100000, 2, 2, false))
      << "without cells nobody asks for a second centroid";
  const AccessCounts tiny = DefaultCounts(true, 10, {1, 2, 1});
  EXPECT_LE(tiny.slow_reads, 10);
  EXPECT_LE(tiny.distances_fast, 1);
}

}  // namespace
}  // namespace hmann
