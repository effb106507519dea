// The program as a user meets it: reports and file errors. Every test runs the real
// binary on the sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char kBase[] = "datasets/sample/base.u8bin";
const char kQueries[] = "datasets/sample/query.u8bin";
const char kTruth[] = "datasets/sample/query.gt100";

RunOptions WithSimd(const std::string& level) {
  RunOptions options;
  options.environment = {{"HMANN_SIMD", level}};
  return options;
}

/// The index of the sample's first 2000 vectors, built once.
const std::string& SmallIndex() {
  static const TestFolder* folder = new TestFolder("cli_index");
  static const std::string path = *folder / "small.hmann";
  static const Outcome built = Hmann({"build", "--base", kBase, "--out", path, "--rows", "2000"});
  EXPECT_EQ(built.exit_code, 0) << built.err;
  return path;
}

void Succeeds(const Outcome& ran) { ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err; }

/// Expects exit code 1, a one-line error that contains every word, and an empty stdout.
void FailsNaming(const Outcome& ran, const std::vector<std::string>& words) {
  EXPECT_EQ(ran.exit_code, 1) << "signal " << ran.signal << "\n" << ran.err;
  EXPECT_THAT(ran.out, IsEmpty());
  for (const std::string& word : words) EXPECT_THAT(ran.err, HasSubstr(word));
}

/// A .?bin file: u32 n, u32 dim, then `bytes`.
std::string BinFile(std::uint32_t n, std::uint32_t dim, const std::string& bytes) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &n, 4);
  std::memcpy(file.data() + 4, &dim, 4);
  return file + bytes;
}

std::string Floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(Reports, BuildInfoAndVerifyAgree) {
  const TestFolder folder("reports");
  const std::string index = folder / "a.hmann";
  const Outcome built = Hmann({"build", "--base", kBase, "--out", index, "--rows", "3000",
                               "--promote", "0.2", "--m", "8", "--threads", "2", "--json"});
  Succeeds(built);
  const json build = json::parse(built.out);
  EXPECT_EQ(build["n"], 3000);
  EXPECT_EQ(build["dim"], 128);
  EXPECT_EQ(build["dtype"], "u8");
  EXPECT_EQ(build["metric"], "l2");
  EXPECT_EQ(build["m"], 8);
  EXPECT_EQ(build["threads"], 2);
  EXPECT_EQ(build["alpha"], 1.2);
  EXPECT_EQ(build["layers"][1]["nodes"], 600);
  EXPECT_EQ(build["layers"][2]["nodes"], 75);
  EXPECT_EQ(build["reachable_share"], 1.0);
  EXPECT_GT(build["seconds"]["total"], 0);
  EXPECT_GT(build["cpu_seconds"]["total"], 0);
  EXPECT_GT(build["peak_rss_bytes"], 0);

  const Outcome requested = Hmann({"info", index, "--json"});
  Succeeds(requested);
  const json info = json::parse(requested.out);
  for (const auto& [name, value] : info.items()) EXPECT_EQ(build[name], value) << name;
  EXPECT_EQ(info["file_bytes"], std::filesystem::file_size(index));
  for (const auto& [name, structure] : info["bytes"].items()) {
    if (structure["formula"].is_null() || name == "l0_links") continue;  // packed
    EXPECT_NEAR(structure["bytes"].get<double>() / structure["formula"].get<double>(), 1, 0.01)
        << name;
  }

  const Outcome verified = Hmann({"verify", index, "--json"});
  Succeeds(verified);
  EXPECT_EQ(json::parse(verified.out)["content_hash"], info["content_hash"]);
  EXPECT_THAT(Hmann({"info", index}).out,
              AllOf(HasSubstr("upper_links"), HasSubstr("3000 vectors, 128 x u8"),
                    HasSubstr("alpha 1.2,")));
}

TEST(Reports, SameSeedSameBytesForAnyThreads) {
  const TestFolder folder("same");
  for (const char* threads : {"1", "2"}) {
    Succeeds(Hmann({"build", "--base", kBase, "--out", folder / threads, "--rows", "2000",
                    "--threads", threads}));
  }
  EXPECT_TRUE(ReadFile(folder / "1") == ReadFile(folder / "2"));
}

TEST(Reports, SearchFindsAndCounts) {
  const TestFolder folder("search");
  const std::string index = folder / "sample.hmann";
  Succeeds(Hmann({"build", "--base", kBase, "--out", index}));
  const Outcome ran = Hmann({"search", index, "--queries", kQueries, "--groundtruth", kTruth, "--k",
                             "10", "--ef-l1", "100", "--ef-l0", "50", "--mode", "graph",
                             "--threads", "2", "--json", "--out", folder / "a.jsonl"});
  Succeeds(ran);
  const json report = json::parse(ran.out);
  EXPECT_GE(report["recall"], 0.95);
  EXPECT_EQ(report["k"], 10);
  EXPECT_EQ(report["mode"], "graph");
  EXPECT_EQ(report["threads"], 2);
  EXPECT_EQ(report["ef_l1"], 100);
  EXPECT_GT(report["distances_fast"], 0);
  EXPECT_GT(report["expanded_l1"], 0);
  EXPECT_GE(report["node_accesses"], report["node_reads"]);
  EXPECT_GE(report["p99_us"], report["p50_us"]);

  const std::string ids = folder / "a.ibin";
  const std::string truth = folder / "a.gt";
  for (const std::string& out : {ids, truth}) {
    Succeeds(Hmann({"search", index, "--queries", kQueries, "--k", "10", "--ef-l1", "100",
                    "--ef-l0", "50", "--mode", "graph", "--out", out}));
  }
  const std::size_t queries = report["queries"];
  EXPECT_EQ(ReadFile(ids).size(), 8 + queries * 10 * 4);
  EXPECT_EQ(ReadFile(truth).size(), 8 + queries * 10 * 8);
  EXPECT_EQ(ReadFile(truth).substr(0, ReadFile(ids).size()), ReadFile(ids));
  const std::string lines = ReadFile(folder / "a.jsonl");
  const json first = json::parse(lines.substr(0, lines.find('\n')));
  std::uint32_t id = 0;
  std::memcpy(&id, ReadFile(ids).data() + 8, 4);
  EXPECT_EQ(first["ids"][0], id);

  // Compared with its own answers, a search finds all of them.
  const Outcome again =
      Hmann({"search", index, "--queries", kQueries, "--k", "10", "--ef-l1", "100", "--ef-l0", "50",
             "--mode", "graph", "--groundtruth", truth, "--rows", "100", "--json"});
  Succeeds(again);
  EXPECT_EQ(json::parse(again.out)["recall"], 1.0);
  EXPECT_EQ(json::parse(again.out)["queries"], 100);
}

TEST(Reports, ResampledVectorsAreMadeOfAFile) {
  const TestFolder folder("resampled");
  const auto make = [&](std::vector<std::string> more, const std::string& name) {
    std::vector<std::string> all = {"data",  "generate",    "--kind", "resample",
                                    "--out", folder / name, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return Hmann(all);
  };
  const Outcome base = make({"--from", kBase, "--n", "20K"}, "base.u8bin");
  Succeeds(base);
  EXPECT_EQ(json::parse(base.out)["n"], 20'000);
  EXPECT_EQ(json::parse(base.out)["dim"], 128);
  Succeeds(make({"--from", kBase, "--n", "50", "--queries"}, "query.u8bin"));
  Succeeds(Hmann({"data", "groundtruth", "--base", folder / "base.u8bin", "--queries",
                  folder / "query.u8bin", "--out", folder / "x.gt", "--json"}));
  const Outcome truth = Hmann({"data", "info", folder / "x.gt", "--json"});
  Succeeds(truth);
  EXPECT_GT(json::parse(truth.out)["if_l2"]["local_intrinsic_dimension"], 5);
  EXPECT_LT(json::parse(truth.out)["if_l2"]["local_intrinsic_dimension"], 40);
  // With as many vectors as the source has, they are as dense, but they are not its rows.
  EXPECT_GT(json::parse(truth.out)["if_l2"]["median_10th_distance"], 100);
  EXPECT_EQ(make({}, "no.u8bin").exit_code, 2);
  EXPECT_EQ(Hmann({"data", "generate", "--n", "5", "--out", folder / "no.u8bin"}).exit_code, 2);
  EXPECT_EQ(Hmann({"data", "generate", "--from", kBase, "--dim", "4", "--out", folder / "no.u8bin"})
                .exit_code,
            2);
  const Outcome foreign = make({"--from", kBase}, "no.fbin");
  EXPECT_EQ(foreign.exit_code, 1);
  EXPECT_THAT(foreign.err, HasSubstr("a suffix of u8 expected"));
}

TEST(Reports, ForcedSimdIsReportedAndTheUnknownRefused) {
  const Outcome scalar =
      Hmann({"search", SmallIndex(), "--queries", kQueries, "--rows", "10", "--json"},
            WithSimd("scalar"));
  Succeeds(scalar);
  EXPECT_EQ(json::parse(scalar.out)["simd"], "scalar");
  FailsNaming(Hmann({"search", SmallIndex(), "--queries", kQueries}, WithSimd("mmx")), {"mmx"});
  const Outcome cpu = Hmann({"info", "--cpu", "--json"}, WithSimd("scalar"));
  Succeeds(cpu);
  EXPECT_EQ(json::parse(cpu.out)["simd"], "scalar");
}

TEST(Reports, AFullStdoutIsAnError) {
  RunOptions full;
  full.stdout_to = "/dev/full";
  const Outcome ran = Hmann({"info", SmallIndex(), "--json"}, full);
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, HasSubstr("stdout"));
}

TEST(WrongIndex, IsNamedByEveryCommandThatOpensIt) {
  const TestFolder folder("wrong_index");
  const std::string good = ReadFile(SmallIndex());
  std::string newer = good;
  newer[8] ^= 0x7f;
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"empty.hmann", ""},
      {"one_byte.hmann", good.substr(0, 1)},
      {"header_only.hmann", good.substr(0, 64)},
      {"half.hmann", good.substr(0, good.size() / 2)},
      {"one_short.hmann", good.substr(0, good.size() - 1)},
      {"foreign.hmann", ReadFile(kQueries).substr(0, 100000)},
      {"header_bit.hmann", newer},
      {"zeros.hmann", std::string(good.size(), '\0')},
  };
  for (const auto& [name, content] : wrong) {
    WriteFile(folder / name, content);
    FailsNaming(Hmann({"info", folder / name}), {name});
    FailsNaming(Hmann({"verify", folder / name}), {name});
    FailsNaming(Hmann({"search", folder / name, "--queries", kQueries, "--json"}), {name});
  }
  FailsNaming(Hmann({"info", folder / "absent.hmann"}), {"absent.hmann", "No such file"});
  FailsNaming(Hmann({"verify", folder.path().string()}), {folder.path().filename().string()});
}

TEST(WrongIndex, VerifySeesOneBitAnywhere) {
  const TestFolder folder("bits");
  const std::string good = ReadFile(SmallIndex());
  const std::string path = folder / "bit.hmann";
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t at = i * (good.size() - 1) / 23;
    std::string bad = good;
    bad[at] ^= 0x10;
    WriteFile(path, bad);
    const Outcome ran = Hmann({"verify", path});
    EXPECT_EQ(ran.exit_code, 1) << "byte " << at << " of " << good.size() << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("bit.hmann"));
  }
}

TEST(WrongVectors, BuildNamesFileExpectedAndFound) {
  const TestFolder folder("wrong_vectors");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"empty.u8bin", ""},
      {"short.u8bin", BinFile(100, 16, std::string(1599, 'x'))},
      {"long.u8bin", BinFile(100, 16, std::string(1601, 'x'))},
      {"none.u8bin", BinFile(0, 16, "")},
      {"flat.u8bin", BinFile(16, 0, "")},
      {"huge.fbin", BinFile(0xffffffff, 0x7fffffff, "xxxx")},
      {"nan.fbin", BinFile(2, 2, Floats({1, 2, 3, nan}))},
      {"ragged.fvecs",
       std::string("\2\0\0\0", 4) + Floats({1, 2}) + std::string("\1\0\0\0", 4) + Floats({1, 2})},
      {"words.txt", "these are no vectors"},
      {"array.npy", "\x93NUMPY"},
  };
  for (const auto& [name, content] : wrong) {
    WriteFile(folder / name, content);
    FailsNaming(Hmann({"build", "--base", folder / name, "--out", folder / "x.hmann", "--json"}),
                {name});
  }
  WriteFile(folder / "zero.fbin", BinFile(2, 2, Floats({1, 2, 0, 0})));
  FailsNaming(Hmann({"build", "--base", folder / "zero.fbin", "--out", folder / "x.hmann",
                     "--metric", "cosine"}),
              {"zero"});
  EXPECT_FALSE(std::filesystem::exists(folder / "x.hmann"));
}

TEST(WrongVectors, TheContentsFormatAndACropAreNamed) {
  const TestFolder folder("misnamed");
  const auto convert = [&](const char* suffix, const char* name) {
    const std::string right = folder / absl::StrCat("right", suffix), wrong = folder / name;
    Succeeds(Hmann({"data", "convert", kQueries, right}));
    std::filesystem::rename(right, wrong);
    return wrong;
  };
  for (const auto& [suffix, name, content] : {std::tuple(".fvecs", "a.fbin", ".fvecs"),
                                              {".fbin", "a.fvecs", ".fbin"},
                                              {".fvecs", "a.u8bin", ".fvecs"},
                                              {".u8bin", "b.fbin", ".u8bin"},
                                              {".fbin", "a.i8bin", ".fbin"},
                                              {".bvecs", "b.fvecs", ".bvecs"},
                                              {".f16bin", "c.fbin", ".f16bin"},
                                              {".fvecs", "a.hdf5", ".fvecs"}}) {
    FailsNaming(Hmann({"data", "info", convert(suffix, name)}),
                {name, absl::StrCat("its content is ", content)});
  }
  Succeeds(Hmann({"data", "convert", kTruth, folder / "t.ivecs"}));
  std::filesystem::rename(folder / "t.ivecs", folder / "t.ibin");
  FailsNaming(Hmann({"data", "info", folder / "t.ibin"}),
              {"t.ibin", "its content is .fvecs or .ivecs"});

  const std::string rows(50 * 16, 'x');
  for (const auto& [name, cut] : {std::pair("base.1B.u8bin.crop_nb_50", 0),
                                  {"cut.u8bin", 0},
                                  {"odd.1B.u8bin.crop_nb_50", 3}}) {
    const std::string path = folder / name;
    WriteFile(path, BinFile(1'000'000'000, 16, rows + std::string(cut, 'x')));
    FailsNaming(Hmann({"build", "--base", path, "--out", folder / "x.hmann"}), {name, "--rows 50"});
    Succeeds(Hmann({"build", "--base", path, "--out", folder / "x.hmann", "--rows", "50"}));
  }
  const std::string torn = folder / "torn.u8bin";  // no whole number of rows: a broken copy
  WriteFile(torn, BinFile(1'000'000'000, 16, rows + "xxx"));
  EXPECT_THAT(Hmann({"data", "info", torn}).err, testing::Not(HasSubstr("--rows")));
}

TEST(WrongVectors, OfTwoBadQueriesTheFirstIsNamed) {
  const TestFolder folder("two_bad");
  std::vector<float> values;
  for (int i = 0; i < 400; ++i) values.push_back(static_cast<float>(i * 37 % 101) + 1);
  WriteFile(folder / "base.fbin", BinFile(100, 4, Floats(values)));
  const std::string index = folder / "f32.hmann";
  Succeeds(Hmann({"build", "--base", folder / "base.fbin", "--out", index}));
  values[4 * 41 + 2] = values[4 * 6] = std::numeric_limits<float>::quiet_NaN();
  WriteFile(folder / "bad.fbin", BinFile(100, 4, Floats(values)));
  for (const char* threads : {"1", "2", "3", "5", "8"}) {
    for (const char* in_flight : {"1", "4"}) {
      FailsNaming(Hmann({"search", index, "--queries", folder / "bad.fbin", "--threads", threads,
                         "--in-flight", in_flight}),
                  {"query 6: "});
    }
    FailsNaming(Hmann({"build", "--base", folder / "bad.fbin", "--out", folder / "x.hmann",
                       "--threads", threads}),
                {"vector 6: "});
  }
}

TEST(WrongVectors, SearchChecksQueriesAndTruth) {
  const TestFolder folder("wrong_queries");
  WriteFile(folder / "narrow.u8bin", BinFile(2, 64, std::string(128, 'x')));
  WriteFile(folder / "floats.fbin", BinFile(1, 128, Floats(std::vector<float>(128, 1))));
  WriteFile(folder / "cut.gt100", ReadFile(kTruth).substr(0, 5000));
  const auto search = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"search", SmallIndex(), "--json", "--queries"});
    return Hmann(more);
  };
  FailsNaming(search({folder / "narrow.u8bin"}), {"narrow.u8bin", "128", "64"});
  FailsNaming(search({folder / "floats.fbin"}), {"floats.fbin", "u8", "f32"});
  FailsNaming(search({folder / "absent.u8bin"}), {"absent.u8bin", "No such file"});
  FailsNaming(search({kQueries, "--groundtruth", folder / "cut.gt100"}), {"cut.gt100"});
  FailsNaming(search({kQueries, "--k", "200", "--groundtruth", kTruth}), {"query.gt100"});
  FailsNaming(search({kQueries, "--k", "2001"}), {"2001", "2000"});
  FailsNaming(search({kQueries, "--out", folder / "no/folder/a.gt"}), {"no/folder"});
  FailsNaming(search({kQueries, "--slow", "cloud"}), {"cloud"});
}

TEST(WrongVectors, NanAndZeroQueries) {
  const TestFolder folder("nan_query");
  std::vector<float> values;
  for (int i = 0; i < 400; ++i) values.push_back(static_cast<float>(i * 37 % 101) + 1);
  WriteFile(folder / "base.fbin", BinFile(100, 4, Floats(values)));
  WriteFile(folder / "nan.fbin",
            BinFile(2, 4, Floats({1, 2, 3, 4, 1, std::numeric_limits<float>::quiet_NaN(), 3, 4})));
  WriteFile(folder / "zero.fbin", BinFile(1, 4, Floats({0, 0, 0, 0})));
  const std::string index = folder / "f32.hmann";
  Succeeds(Hmann({"build", "--base", folder / "base.fbin", "--out", index, "--metric", "cosine"}));
  FailsNaming(Hmann({"search", index, "--queries", folder / "nan.fbin"}), {"query 1"});
  FailsNaming(Hmann({"search", index, "--queries", folder / "zero.fbin"}), {"query 0"});
}

TEST(Interrupted, AFullDiskLeavesTheOldIndex) {
  const TestFolder folder("full");
  const std::string index = folder / "a.hmann";
  std::filesystem::copy_file(SmallIndex(), index);
  const std::string before = ReadFile(index);
  for (const std::uint64_t limit : {std::uint64_t{4096}, std::uint64_t{100'000},
                                    static_cast<std::uint64_t>(before.size()) - 1}) {
    RunOptions options;
    options.most_file_bytes = limit;
    FailsNaming(
        Hmann({"build", "--base", kBase, "--out", index, "--rows", "2000", "--m", "20"}, options),
        {"a.hmann"});
    EXPECT_TRUE(ReadFile(index) == before) << limit;
    EXPECT_THAT(folder.Files(), ElementsAre("a.hmann")) << limit;
  }
}

TEST(Interrupted, CtrlCLeavesNothingHalfWritten) {
  const TestFolder folder("interrupt");
  const std::string index = folder / "a.hmann";
  for (const int signal : {SIGINT, SIGTERM}) {
    Program build({HmannProgram(), "build", "--base", kBase, "--out", index, "--ef-construction",
                   "3000", "--m", "64", "--threads", "1"});
    ASSERT_TRUE(build.UntilBusyFor(0.4)) << build.Wait().err;
    build.Signal(signal);
    const Outcome ran = build.Wait();
    EXPECT_EQ(ran.signal, signal) << ran.exit_code << ran.err;  // 130 in a shell for SIGINT
    EXPECT_THAT(ran.err, AllOf(HasSubstr("stopping"), HasSubstr("cancelled")));
    EXPECT_THAT(folder.Files(), IsEmpty());
  }
}

TEST(Numbers, HaveTheSameUnitsEverywhere) {
  const TestFolder folder("units");
  const std::string out = folder / "v.fbin";
  for (const char* n : {"2k", "2K", "2000", "0.002M", "2e3"}) {
    const Outcome made = Hmann(
        {"data", "generate", "--dim", "4", "--n", n, "--first", "1k", "--out", out, "--json"});
    ASSERT_EQ(made.exit_code, 0) << n << made.err;
    EXPECT_EQ(json::parse(made.out)["n"], 2000) << n;
    EXPECT_EQ(json::parse(made.out)["first"], 1000) << n;
  }
  const std::string index = folder / "i.hmann";
  const Outcome built = Hmann({"build", out, index, "--rows", "1k", "--no-calibrate", "--json"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_EQ(json::parse(Hmann({"info", index, "--json"}).out)["n"], 1000);
  const Outcome searched =
      Hmann({"search", index, out, "--rows", "0.01k", "--ef-l0", "0.2k", "--json"});
  ASSERT_EQ(searched.exit_code, 0) << searched.err;
  EXPECT_EQ(json::parse(searched.out)["queries"], 10);
  EXPECT_EQ(json::parse(searched.out)["ef_l0"], 200);
  for (const char* wrong : {"20x", "1.5", "k"}) {
    EXPECT_EQ(Hmann({"data", "generate", "--dim", "4", "--n", wrong, "--out", out}).exit_code, 2)
        << wrong;
  }

  for (const char* k : {"1001", "1048577", "2000000", "4000000000"}) {
    const Outcome refused = Hmann({"search", index, out, "--k", k});
    EXPECT_EQ(refused.exit_code, 1) << k;
    EXPECT_THAT(refused.err, HasSubstr("k: expected at most the 1000 vectors of the index")) << k;
  }
  EXPECT_THAT(Hmann({"tune", index, "--k", "2M"}).err,
              HasSubstr("k: expected 1 to the 1000 vectors of the index"));

  WriteFile(folder / "names.txt", "1234567\n");  // the size of a raw label
  EXPECT_THAT(Hmann({"build", out, index, "--rows", "1", "--labels", folder / "names.txt"}).err,
              HasSubstr("names.txt: expected numbers; strings are labels of collections alone"));

  const std::string got = Hmann({"get", index, "--labels", "1,2,3", "--json"}).out;
  EXPECT_EQ(json::parse(got)["vectors"].size(), 3u);
  EXPECT_EQ(json::parse(got)["vectors"][2]["vector"].size(), 4u);
  EXPECT_EQ(std::count(got.begin(), got.end(), '\n'), 18) << got;
}

}  // namespace
}  // namespace hmann
