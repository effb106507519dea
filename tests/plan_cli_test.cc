// `hmann profile` and `hmann plan`, and --fast-memory of `build` and `promote`: the real
// binary on the sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "hmann/build.h"
#include "hmann/tune.h"
#include "index/base/cpu.h"
#include "index/construct/fast_memory.h"
#include "index/construct/pipeline.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const char kBase[] = "datasets/sample/base.u8bin";

json MustPrint(const std::vector<std::string>& arguments) {
  const Outcome ran = Hmann(arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  return ran.exit_code == 0 ? json::parse(ran.out) : json::object();
}

const std::vector<std::string> kBillion = {"plan", "--rows",  "1000000000", "--dim",
                                           "128",  "--dtype", "u8"};

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Plan, ABillionVectorsFitNinetySixGiB) {
  const json plan = MustPrint(With(kBillion, {"--fast-memory", "96GiB", "--json"}));
  EXPECT_LE(plan["fast_bytes"], std::uint64_t{96} << 30);
  EXPECT_GT(plan["bits"], 0);
  EXPECT_GT(plan["file_bytes"], std::uint64_t{200} << 30);
  std::uint64_t fast = 0;
  for (const json& line : plan["structures"])
    fast += line["tier"] == "dram" ? line["bytes"].get<std::uint64_t>() : 0;
  EXPECT_LE(fast, plan["fast_bytes"]);
  EXPECT_GT(fast, 0.99 * plan["fast_bytes"].get<double>()) << "whole pages are little";
  EXPECT_EQ(plan["explain"].size(), 3u);
  const Outcome reported = Hmann(With(kBillion, {"--fast-memory", "96GiB"}));
  EXPECT_THAT(reported.err, IsEmpty());
  EXPECT_THAT(
      reported.out,
      AllOf(HasSubstr("hmann build --base F"), HasSubstr("--build-memory 98304MiB --work IDX.work"),
            HasSubstr("of disk in all: base 119.2 GiB"), HasSubstr("1. L0 takes"),
            HasSubstr("3. the rest is for promoted nodes")));
}

TEST(BuildPlan, SaysWhatABuildTakesAndLeavesNothingBehind) {
  const TestFolder folder("build_plan");
  const std::vector<std::string> build = {
      "build", "--base", kBase, "--out", folder / "a.hmann", "--work", folder / "work"};
  const json plan = MustPrint(With(build, {"--build-memory", "128MiB", "--plan", "--json"}));
  EXPECT_EQ(plan["n"], 10000);
  EXPECT_EQ(plan["promoted"], 1600);
  EXPECT_GT(plan["measured"]["rows"], 0);
  EXPECT_GT(plan["bounded"]["base_passes"], 0);
  EXPECT_GT(plan["cpu_seconds"], 0);
  EXPECT_GT(plan["seconds"], 0);
  // All rows were measured, so nothing grows.
  EXPECT_EQ(plan["measured"]["rows"], 10000);
  EXPECT_LE(plan["measured"]["growth"], 1.01);
  EXPECT_GT(plan["measured"]["growth"], 0.3);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "only its own file, for a while";

  const Outcome small = Hmann(With(build, {"--build-memory", "1MiB", "--plan"}));
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("expected at least about"));

  // The rows of attributes must fit, too.
  const auto with_rows = [&](const std::string& rows, const std::string& memory) {
    return Hmann(With(build, {"--attrs", rows, "--build-memory", memory, "--plan"}));
  };
  WriteFile(folder / "few.ndjson", "{\"a\": 1}\n");
  EXPECT_EQ(with_rows("datasets/sample/attributes.csv", "128MiB").exit_code, 0);
  EXPECT_THAT(with_rows(folder / "few.ndjson", "128MiB").err,
              HasSubstr("rows for 1 of the 10000 vectors"));
  EXPECT_THAT(with_rows("datasets/sample/attributes.csv", "10MiB").err,
              AllOf(HasSubstr("attributes of 10000 vectors need at least"),
                    HasSubstr("raise --build-memory")));
  std::filesystem::remove(folder / "few.ndjson");

  const json built = MustPrint(With(build, {"--build-memory", "128MiB", "--json"}));
  EXPECT_NEAR(plan["file_bytes"].get<double>() / built["file_bytes"].get<double>(), 1, 0.01);
  EXPECT_NEAR(plan["bounded"]["work_bytes"].get<double>() / built["work_bytes"].get<double>(), 1,
              0.2)
      << "of few vectors the folder's own files are a part";
}

TEST(Plan, BuildMakesWhatThePlanSays) {
  const TestFolder folder("plan_build");
  const std::string index = folder / "a.hmann";
  const json plan = MustPrint({"plan", "--base", kBase, "--fast-memory", "3MiB", "--json"});
  const json built =
      MustPrint({"build", "--base", kBase, "--out", index, "--fast-memory", "3MiB", "--json"});
  EXPECT_EQ(built["layers"][1]["nodes"], plan["promoted"]);
  EXPECT_NEAR(
      plan["file_bytes"].get<double>() / static_cast<double>(std::filesystem::file_size(index)), 1,
      0.01);
  EXPECT_EQ(built["bytes"].contains("codes"), plan["bits"] > 0);

  const json as_is = MustPrint({"plan", index, "--as-is", "--fast-memory", "3MiB", "--json"});
  EXPECT_EQ(as_is["promoted"], plan["promoted"]);
  EXPECT_EQ(as_is["bits"], plan["bits"]);

  // Attributes take fast memory, and their columns stay in the file.
  const auto roomy = [&] {
    return MustPrint({"plan", index, "--as-is", "--fast-memory", "5MiB", "--json"});
  };
  const auto bytes_of = [](const json& of, const std::string& structure) {
    for (const json& line : of["structures"]) {
      if (line["structure"] == structure) return line["bytes"].get<std::uint64_t>();
    }
    return std::uint64_t{0};
  };
  const json bare = roomy();
  const json attrs =
      MustPrint({"attrs", index, "--from", "datasets/sample/attributes.csv", "--json"});
  const json attributed = roomy();
  EXPECT_EQ(bytes_of(bare, "attributes"), 0u);
  EXPECT_GT(bytes_of(attributed, "attributes"), 0u);
  EXPECT_EQ(bytes_of(attributed, "attributes"), attrs["memory_bytes"]);
  EXPECT_EQ(bytes_of(attributed, "attribute columns"), attrs["mapped_bytes"]);
  EXPECT_LE(attributed["fast_bytes"], 5u << 20);
  std::uint64_t fast = 0;
  for (const json& line : attributed["structures"])
    fast += line["tier"] == "dram" ? line["bytes"].get<std::uint64_t>() : 0;
  EXPECT_LE(fast, attributed["fast_bytes"]);
  EXPECT_LE(bytes_of(attributed, "cache of l0"), bytes_of(bare, "cache of l0"));

  const std::string promoted = folder / "b.hmann";
  const Outcome ran =
      Hmann({"promote", index, "--out", promoted, "--fast-memory", "3MiB", "--replicas", "1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("planned for 3.0 MiB"));
  const Outcome pinned =
      Hmann({"promote", index, "--out", promoted, "--fast-memory", "3MiB", "--bits", "1"});
  EXPECT_EQ(pinned.exit_code, 0) << pinned.err;
  EXPECT_THAT(pinned.err, HasSubstr("1 bits"));
}

/// The program and the library read the same words in the same way.
TEST(Plan, ThenBuildInTheLibraryIsBuildFastMemory) {
  const TestFolder folder("plan_library");
  const std::string theirs = folder / "program.hmann", promoted = folder / "promoted.hmann";
  BuildOptions wish;
  wish.base = kBase;
  wish.rows = 2000;
  wish.out = folder / "library.hmann";
  const std::uint64_t fast = ReservedFastBytes(0, UsableCores()) + (200 << 10);
  const auto hash = [&](const BuildOptions& build) {
    Progress quiet(Progress::Show::kNever);
    const absl::StatusOr<PlannedBuild> planned = Plan(build, {.fast_memory_bytes = fast});
    EXPECT_TRUE(planned.ok()) << planned.status();
    const absl::StatusOr<BuildReport> built = BuildIndex(planned->build, quiet);
    EXPECT_TRUE(built.ok()) << built.status();
    return built->info.content_hash;
  };
  const std::string words = absl::StrCat(fast);
  const std::vector<std::string> built = {"build", "--base", kBase,           "--rows", "2000",
                                          "--out", theirs,   "--fast-memory", words};
  for (const std::string bits : {"", "1", "0"}) {
    const std::vector<std::string> flags = {"--bits", bits};
    ASSERT_EQ(Hmann(With(built, bits.empty() ? std::vector<std::string>() : flags)).exit_code, 0);
    wish.bits.reset();
    if (!bits.empty()) wish.bits = bits == "1" ? 1 : 0;
    EXPECT_EQ(ReadInfo(theirs)->content_hash, hash(wish)) << bits;
  }
  ASSERT_EQ(Hmann({"promote", theirs, "--out", promoted, "--fast-memory", words, "--bits", "2"})
                .exit_code,
            0);
  BuildOptions again;
  again.from_index = theirs;
  again.out = wish.out;
  again.bits = 2;
  EXPECT_EQ(ReadInfo(promoted)->content_hash, hash(again));
}

TEST(Plan, AnIndexTellsItsShape) {
  const TestFolder folder("plan_index");
  const std::string index = folder / "a.hmann";
  EXPECT_EQ(Hmann({"build", "--base", kBase, "--rows", "4000", "--out", index}).exit_code, 0);
  const json plan =
      MustPrint({"plan", index, "--fast-memory", "2MiB", "--slow", "emulated:lat=300ns", "--json"});
  EXPECT_EQ(plan["n"], 4000);
  EXPECT_EQ(plan["dim"], 128);
  EXPECT_EQ(plan["read_buffer_bytes"], 0) << "for drives";
}

TEST(Plan, WhatCannotBeIsNamed) {
  const auto fails = [](const std::vector<std::string>& arguments, const std::string& word) {
    const Outcome ran = Hmann(arguments);
    EXPECT_EQ(ran.exit_code, 1) << ran.err;
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err, HasSubstr(word));
  };
  fails(With(kBillion, {"--fast-memory", "4KiB"}), "is too small");
  fails(With(kBillion, {"--fast-memory", "96GiB", "--slow", "tape"}), "found 'tape'");
  fails({"plan", "--fast-memory", "1GiB"}, "expected an index, or --base, or --rows");
  fails({"plan", "absent.hmann", "--fast-memory", "1GiB"}, "absent.hmann");
  fails({"build", "--base", kBase, "--out", "never.hmann", "--fast-memory", "4KiB"},
        "is too small");
  EXPECT_EQ(Hmann(kBillion).exit_code, 2) << "--fast-memory is required";
  EXPECT_EQ(Hmann({"profile"}).exit_code, 2);
}

TEST(Profile, IsWritten) {
  const TestFolder folder("profile_cli");
  const std::string file = folder / "device.json";
  const Outcome ran = Hmann({"profile", "--out", file, "--slow", "mapped", "--budget", "200ms"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, IsEmpty());
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("loads in flight"), HasSubstr("repeats in"), HasSubstr("stolen")));
  EXPECT_THAT(folder.Files(), testing::ElementsAre("device.json"))
      << "what was read at random is gone";
  std::ifstream in(file);
  const json profile = json::parse(in);
  const json cpu = MustPrint({"info", "--cpu", "--json"});
  for (const char* key : {"cores", "simd"}) EXPECT_EQ(profile["machine"][key], cpu[key]) << key;
  ASSERT_EQ(profile["memory"].size(), 2u);
  EXPECT_EQ(profile["memory"][1]["tier"], "mapped");
  for (const json& memory : profile["memory"]) EXPECT_GT(memory["in_flight"].size(), 5u);
}

}  // namespace
}  // namespace hmann
