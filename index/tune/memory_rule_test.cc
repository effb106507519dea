#include "index/tune/memory_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/base/units.h"
#include "index/construct/fast_memory.h"

namespace hmann {
namespace {

using testing::HasSubstr;

PlanRequest RuleRequest(std::uint64_t n, std::uint64_t fast_bytes,
                        const std::string& slow = "nvme") {
  PlanRequest request;
  request.shape = {n, 128, DType::kU8, Metric::kL2, 16, false};
  request.fast_bytes = fast_bytes;
  request.slow = slow;
  request.threads = 2;
  return request;
}

MemoryPlan MustPlanRule(const PlanRequest& request) {
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : MemoryPlan{};
}

std::uint64_t BytesOf(const MemoryPlan& plan, const std::string& tier) {
  std::uint64_t bytes = 0;
  for (const PlacedBytes& line : plan.bytes) bytes += line.tier == tier ? line.bytes : 0;
  return bytes;
}

std::uint64_t FastBytesOf(const PlanShape& shape, const PlanStructure& structure) {
  return FastBytes(FastShapeOf(*HeaderOf(shape, structure)), structure.n1);
}

// The table of the design: bytes of fast memory per vector at 1e9 x 128 u8, M = 16, 10 %
// promoted, centroid implicit in its cell. Labels have lines of their own there.
TEST(FastBytes, AreWithinThreePercentOfTheDesignsTable) {
  constexpr double kBillion = 1e9;
  const PlanShape shape{1000000000, 128, DType::kU8, Metric::kL2, 16, false};
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

TEST(PlanMemory, LinesAreTheFormulas) {
  for (const std::uint32_t bits : {0u, 2u}) {
    PlanRequest request = RuleRequest(1000000, 200_MiB);
    request.bits = bits;
    const MemoryPlan plan = MustPlanRule(request);
    EXPECT_EQ(plan.structure.bits, bits);
    const std::uint64_t structures = FastBytesOf(request.shape, plan.structure);
    std::uint64_t lines = 0;
    for (const PlacedBytes& line : plan.bytes) {
      if (line.tier == "dram" && line.structure != "cache of l0" &&
          line.structure != "cache's index" && line.structure != "read buffers and scratch") {
        lines += line.bytes;
      }
    }
    EXPECT_EQ(lines, structures);
    EXPECT_GE(plan.fast_bytes, BytesOf(plan, "dram"));
    EXPECT_LE(plan.fast_bytes, request.fast_bytes);
    EXPECT_EQ(plan.reserve_bytes, ReservedFastBytes(request.fast_bytes, request.threads));
    request.slow = "emulated:lat=300ns";
    EXPECT_EQ(MustPlanRule(request).reserve_bytes, ReservedFastBytes(0, request.threads))
        << "memory needs no buffers";
  }
}

/// 64 MiB of these once took 64.9: a cache over 4 MiB lies on pages of 2 MiB.
TEST(PlanMemory, TheCacheOfADriveStaysWithinTheMemory) {
  int cached = 0;
  for (std::uint64_t mib = 50; mib < 90; ++mib) {
    PlanRequest request = RuleRequest(100'000, mib << 20);
    request.shape.dtype = DType::kF32;
    const MemoryPlan plan = MustPlanRule(request);
    EXPECT_LE(plan.fast_bytes, request.fast_bytes) << mib;
    cached += plan.cache_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(cached, 10);
}

TEST(PlanMemory, TheMoreMemoryTheMoreIsTaken) {
  for (const char* slow : {"nvme", "emulated:lat=300ns"}) {
    bool fits = false;
    std::uint32_t bits = 0;
    NodeId n1 = 0;
    for (std::uint64_t mib = 8; mib < 230; mib += mib < 60 ? 3 : 28) {
      SCOPED_TRACE(absl::StrCat(slow, ", ", mib, " MiB"));
      const PlanRequest request = RuleRequest(1000000, mib << 20, slow);
      const absl::StatusOr<MemoryPlan> plan = PlanMemory(request);
      if (!plan.ok()) {
        EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_FALSE(fits) << "more memory still fits";
        continue;
      }
      fits = true;
      EXPECT_LE(plan->fast_bytes, request.fast_bytes);
      EXPECT_EQ(plan->l0_tier, slow);
      EXPECT_GE(plan->structure.bits, bits);
      if (plan->structure.bits == bits) {
        EXPECT_GE(plan->structure.n1, n1);
      }
      bits = plan->structure.bits;
      n1 = plan->structure.n1;
    }
    EXPECT_TRUE(fits);
  }
}

/// A tenth of a billion vectors, so that reserve and pages matter little.
MemoryPlan ForBytes(double bytes_a_vector, const std::string& slow, std::uint32_t dim = 128,
                    DType dtype = DType::kU8) {
  PlanRequest request =
      RuleRequest(100'000'000, static_cast<std::uint64_t>(bytes_a_vector * 1e8), slow);
  request.shape.dim = dim;
  request.shape.dtype = dtype;
  return MustPlanRule(request);
}

/// These are the choices of the search over predicted times that the rule replaces
/// (doc/notes/planner.md), whose reserve took some 1.3 % more of the memory.
TEST(PlanMemory, TakesWhatTheSearchTook) {
  for (const auto& [bytes, bits, percent] : {std::tuple(10.0, 0u, 3.7),
                                             {27.0, 1u, 2.4},
                                             {43.0, 2u, 2.4},
                                             {75.0, 2u, 15.4},
                                             {96.0, 4u, 12.4},
                                             {160.0, 4u, 42.5}}) {
    SCOPED_TRACE(bytes);
    const PlanStructure structure = ForBytes(0.987 * bytes, "nvme").structure;
    EXPECT_EQ(structure.bits, bits);
    EXPECT_EQ(structure.replicas, 1u);
    EXPECT_NEAR(structure.n1 / 1e6, percent, 0.02 * percent + 0.05);
  }
  for (const auto& [bytes, bits, percent] :
       {std::tuple(10.0, 0u, 3.7), {27.0, 0u, 10.0}, {60.0, 0u, 22.2}, {120.0, 2u, 33.8}}) {
    SCOPED_TRACE(bytes);
    const PlanStructure structure = ForBytes(0.987 * bytes, "emulated:lat=300ns").structure;
    EXPECT_EQ(structure.bits, bits);
    EXPECT_NEAR(structure.n1 / 1e6, percent, 0.02 * percent + 0.05);
  }
  EXPECT_EQ(ForBytes(27, "emulated:lat=300ns", 96, DType::kF32).structure.bits, 0u);
  EXPECT_EQ(ForBytes(43, "emulated:lat=300ns", 96, DType::kF32).structure.bits, 2u);
  EXPECT_EQ(ForBytes(27, "nvme", 96, DType::kF32).structure.bits, 1u);
  EXPECT_EQ(ForBytes(43, "nvme", 96, DType::kF32).structure.bits, 2u);
  EXPECT_EQ(ForBytes(85, "nvme", 96, DType::kF32).structure.bits, 4u);
  EXPECT_EQ(ForBytes(80, "nvme", 768, DType::kF32).structure.bits, 0u);
  EXPECT_EQ(ForBytes(180, "nvme", 768, DType::kF32).structure.bits, 1u);
  EXPECT_EQ(ForBytes(400, "nvme", 768, DType::kF32).structure.bits, 2u);
}

TEST(PlanMemory, AStaticCacheComesLast) {
  EXPECT_EQ(ForBytes(200, "nvme").cache_bytes, 0u);
  MemoryPlan plan = ForBytes(500, "nvme", 96, DType::kF32);
  EXPECT_EQ(plan.structure.n1, 80'000'000u);
  EXPECT_GT(plan.cached_share, 0.05);
  EXPECT_GT(plan.fast_bytes, 0.99 * 500e8) << "all of it";
  plan = ForBytes(500, "emulated:lat=300ns", 96, DType::kF32);
  EXPECT_EQ(plan.structure.n1, 80'000'000u);
  EXPECT_EQ(plan.cache_bytes, 0u) << "lines of memory come sooner than they are found";
  EXPECT_EQ(plan.read_buffer_bytes, 0u) << "for drives";
}

TEST(PlanMemory, AllInFastMemoryWhereItFits) {
  const MemoryPlan plan = MustPlanRule(RuleRequest(100000, 1_GiB));
  EXPECT_EQ(plan.l0_tier, "dram");
  EXPECT_EQ(plan.structure.bits, 0u);
  EXPECT_EQ(plan.structure.n1, 16000u);
  EXPECT_EQ(plan.cache_bytes, 0u) << "nothing to copy";
  EXPECT_EQ(plan.read_buffer_bytes, 0u);
}

TEST(PlanMemory, KeepsWhatIsPinned) {
  PlanRequest request = RuleRequest(1000000, 150_MiB);
  request.bits = 4;
  MemoryPlan plan = MustPlanRule(request);
  EXPECT_EQ(plan.structure.bits, 4u);
  EXPECT_GT(plan.fast_bytes, 148_MiB) << "as many promoted as fit";
  request.promote = 0.07;
  request.replicas = 2;
  plan = MustPlanRule(request);
  EXPECT_EQ(plan.structure.n1, 70000u);
  EXPECT_EQ(plan.structure.bits, 4u);
  EXPECT_EQ(plan.structure.replicas, 2u);
  EXPECT_GT(plan.cache_bytes, 0u) << "of what is left";
  request.finished = PlanStructure{50000, 1, 1};
  plan = MustPlanRule(request);
  EXPECT_EQ(plan.structure.n1, 50000u);
  EXPECT_EQ(plan.structure.bits, 1u);
}

TEST(PlanMemory, SaysItsThreeLinesWithTheNumbers) {
  const MemoryPlan plan = ForBytes(43, "nvme");
  ASSERT_EQ(plan.rule.size(), 3u);
  EXPECT_THAT(plan.rule[0], HasSubstr("L0 lies on nvme"));
  EXPECT_THAT(plan.rule[1], testing::AllOf(HasSubstr("here 2 bits"), HasSubstr("a guess")));
  EXPECT_THAT(plan.rule[2], HasSubstr(": 2.6"));
  EXPECT_THAT(ForBytes(500, "nvme", 96, DType::kF32).rule[2], HasSubstr(": 80 %"))
      << "of many vectors too";
}

TEST(PlanMemory, BudgetsThatAreTooSmallNameOneThatWorks) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, 1_KiB, 900_KiB}) {
    PlanRequest request = RuleRequest(1000000, bytes);
    const absl::Status status = PlanMemory(request).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << bytes;
    const std::string message(status.message());
    const std::size_t at = message.find("least ");
    ASSERT_NE(at, std::string::npos) << message;
    ASSERT_TRUE(absl::SimpleAtoi(message.substr(at + 6, message.find(' ', at + 6) - at - 6),
                                 &request.fast_bytes))
        << message;
    EXPECT_TRUE(PlanMemory(request).ok()) << message;
    request.fast_bytes -= 8_KiB;
    EXPECT_FALSE(PlanMemory(request).ok()) << "nearly the smallest: " << message;
  }
}

TEST(PlanMemory, BadRequestsAreNamed) {
  PlanRequest request = RuleRequest(1, 100_MiB);
  EXPECT_THAT(std::string(PlanMemory(request).status().message()), HasSubstr("rows"));
  for (const char* slow : {"dram", "tape", "emulated", ""}) {
    request = RuleRequest(1000, 100_MiB, slow);
    const absl::Status status = PlanMemory(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << slow;
    EXPECT_THAT(std::string(status.message()), HasSubstr("slow: expected")) << slow;
  }
}

}  // namespace
}  // namespace hmann
