// Collections as a user meets them: made, written, searched, merged, copied, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char kBase[] = "datasets/sample/base.u8bin";
const char kQueries[] = "datasets/sample/query.u8bin";
const char kTruth[] = "datasets/sample/query.gt100";
const char kAttributes[] = "datasets/sample/attributes.csv";

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// An .?bin file of rows of `dim` components.
template <typename T>
std::string Vectors(std::uint32_t dim, const std::vector<T>& components) {
  return BytesOf(
             std::vector<std::uint32_t>{static_cast<std::uint32_t>(components.size() / dim), dim}) +
         BytesOf(components);
}

class Collections : public testing::Test {
 protected:
  json Json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Outcome ran = Hmann(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.exit_code == 0 ? json::parse(ran.out) : json();
  }
  std::string Fails(const std::vector<std::string>& arguments) {
    const Outcome ran = Hmann(arguments);
    EXPECT_EQ(ran.exit_code, 1) << ran.out;
    return ran.err;
  }
  /// The first 1000 vectors of the sample.
  void PutSample() {
    Json({"create", live_, "--dim", "128", "--dtype", "u8"});
    EXPECT_EQ(Json({"put", live_, kBase, "--rows", "1000"})["put"], 1000);
  }
  std::string In(const std::string& file) { return live_ + "/" + file; }

  TestFolder folder_{"collections"};
  const std::string live_ = folder_ / "c.live";
};

TEST_F(Collections, FromTheFirstVectorToTheBackup) {
  const json made = Json({"create", live_, "--dim", "128", "--dtype", "u8", "--types",
                          "strength:int64", "--queries", kQueries});
  EXPECT_EQ(made, json::parse(R"({"dtype": "u8", "dim": 128, "metric": "l2", "live": 0})"));
  const json put = Json({"put", live_, "--base", kBase, "--attrs", kAttributes});
  EXPECT_EQ(put, json::parse(R"({"put": 10000, "sequence": 10, "live": 10000})"));
  const auto search = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"search", live_, kQueries});
    return Json(more);
  };
  EXPECT_EQ(search({"--groundtruth", kTruth})["recall"], 1.0) << "a scan of the tail is exact";
  const std::string filter = "strength > 3500";
  const json filtered = search({"--filter", filter, "--out", folder_ / "found.jsonl"});
  const std::uint64_t strong = filtered["matches"];
  EXPECT_TRUE(strong > 0 && strong < 10'000) << strong;
  EXPECT_EQ(Json({"compact", live_})["sealed_rows"], 10'000);
  EXPECT_GE(search({"--groundtruth", kTruth, "--recall", "0.95"})["recall"], 0.9);
  EXPECT_EQ(
      search({"--filter", filter, "--mode", "scan", "--out", folder_ / "again.jsonl"})["matches"],
      strong);
  EXPECT_EQ(ReadFile(folder_ / "found.jsonl"), ReadFile(folder_ / "again.jsonl"));

  EXPECT_EQ(Json({"delete", live_, "17", "3", "123456"})["deleted"], 2);
  WriteFile(folder_ / "some.ndjson", R"({"label": 5, "seen": true, "strength": null})"
                                     "\n");
  EXPECT_EQ(Json({"update", live_, "--attrs", folder_ / "some.ndjson"})["updated"], 1);
  const json five = Json({"get", live_, "5"})["vectors"][0];
  EXPECT_EQ(five["attributes"]["seen"], true);
  EXPECT_FALSE(five["attributes"].contains("strength"));
  EXPECT_EQ(Json({"get", live_, "9"})["vectors"][0]["vector"].size(), 128u);
  EXPECT_THAT(Fails({"get", live_, "5", "17"}), HasSubstr("label 17: no vector"));
  EXPECT_EQ(search({"--filter", "seen"})["matches"], 1);

  const json info = Json({"info", live_});
  EXPECT_EQ(info["live"], 9998);
  EXPECT_EQ(info["sealed_dead"], 3);
  EXPECT_EQ(info["delta_rows"], 1);
  EXPECT_THAT(Hmann({"info", live_}).out, HasSubstr("9998 vectors, 128 x u8, metric l2"));
  EXPECT_EQ(Json({"backup", live_, folder_ / "copy"})["sequence"], info["sequence"]);
  EXPECT_EQ(Json({"delete", live_, "--filter", "strength <= 3500 or strength > 3500 or seen",
                  "--all"})["live"],
            0);
  EXPECT_EQ(Json({"verify", folder_ / "copy"})["live"], 9998);
  EXPECT_EQ(Json({"info", folder_ / "copy"})["id"], info["id"]);
  EXPECT_EQ(Json({"compact", live_})["sealed_rows"], 0);
  EXPECT_EQ(search({})["k"], 10);
}

TEST_F(Collections, ABlankFilterIsNoWishForAllVectors) {
  PutSample();
  for (const std::string blank : {"", " ", "\t\n "}) {
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"search", live_, kQueries, "--filter", blank},
             {"search", live_, kQueries, absl::StrCat("--filter=", blank)},
             {"delete", live_, "--filter", blank},
             {"delete", live_, "--filter", blank, "--all"},
             {"query", "--server", "127.0.0.1:1", "--index", "c", kQueries, "--filter", blank},
             {"data", "groundtruth", "--base", kBase, "--queries", kQueries, "--attrs", kAttributes,
              "--filter", blank, "--out", folder_ / "t.gt"}}) {
      const Outcome ran = Hmann(command);
      EXPECT_EQ(ran.exit_code, 2) << command[0] << ran.out;
      EXPECT_THAT(ran.err, HasSubstr("--filter: expected a ")) << command[0];
    }
  }
  EXPECT_EQ(Json({"info", live_})["live"], 1000);
}

TEST_F(Collections, OnlyLiveRowsAreCounted) {
  PutSample();
  EXPECT_EQ(Json({"put", live_, kBase, "--rows", "1000"})["live"], 1000) << "again";
  const auto loose = [&] {
    const json info = Json({"info", live_});
    EXPECT_LE(info["loose_rows"], info["delta_rows"]);
    EXPECT_LE(info["sealed_dead"], info["sealed_rows"]);
    return info["delta_rows"];
  };
  EXPECT_EQ(loose(), 1000);
  Json({"delete", live_, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"});
  EXPECT_EQ(loose(), 990);
  Json({"compact", live_});
  EXPECT_EQ(loose(), 0);
  Json({"put", live_, kBase, "--rows", "100"});
  Json({"put", live_, kBase, "--rows", "100"});
  EXPECT_EQ(loose(), 100);
  for (const char* k : {"1048577", "2000000"}) {
    EXPECT_THAT(Fails({"search", live_, kQueries, "--k", k}), HasSubstr("at most the 1000 vec"));
  }
}

TEST_F(Collections, TakeOverAnIndex) {
  const std::string index = folder_ / "a.hmann";
  Json({"build", kBase, index, "--rows", "1000", "--m", "8", "--no-calibrate"});
  EXPECT_EQ(Json({"create", live_, "--from", index})["live"], 1000);
  EXPECT_EQ(Json({"put", live_, kBase, "--rows", "1500"})["live"], 1500);
  Json({"compact", live_, "--threads", "1", "--build-memory", "512MiB"});
  EXPECT_EQ(Json({"info", Json({"info", live_})["sealed_file"]})["m"], 8);
  EXPECT_THAT(Hmann({"info", live_, "--live"}).out, HasSubstr("upper_links"));
  EXPECT_THAT(Fails({"search", live_, kQueries, "--cold"}), HasSubstr("never read ahead"));
  EXPECT_EQ(Json({"verify", index})["n"], 1000) << "the index stays";
  EXPECT_EQ(Hmann({"create", folder_ / "x", "--from", index, "--m", "9"}).exit_code, 2);
  EXPECT_EQ(Hmann({"create", folder_ / "x"}).exit_code, 2);
  EXPECT_THAT(Fails({"create", live_, "--from", index}), HasSubstr("is there already"));
}

TEST_F(Collections, OfALabelTwiceInAFileTheLastCounts) {
  Json({"create", live_, "--dim", "2", "--dtype", "u8"});
  WriteFile(folder_ / "v.u8bin", Vectors<std::uint8_t>(2, {1, 1, 2, 2, 3, 3, 4, 4}));
  WriteFile(folder_ / "labels", BytesOf(std::vector<std::uint64_t>{7, 8, 7, 9}));
  WriteFile(folder_ / "rows.ndjson", "{\"label\": 9, \"a\": 1}\n{\"label\": 7, \"a\": 2}\n");
  for (const char* batch : {"1", "2", "1000"}) {
    Json({"put", live_, folder_ / "v.u8bin", "--labels", folder_ / "labels", "--batch", batch,
          "--attrs", folder_ / "rows.ndjson"});
    const json found = Json({"get", live_, "7,8,9"})["vectors"];
    EXPECT_EQ(found[0]["vector"], json::parse("[3, 3]"));
    EXPECT_EQ(found[0]["attributes"], json::parse(R"({"a": 2})"));
    EXPECT_EQ(found[1]["attributes"], json::object());
    EXPECT_EQ(found[2]["attributes"], json::parse(R"({"a": 1})"));
  }
  EXPECT_EQ(Json({"put", live_, folder_ / "v.u8bin", "--first", "100"})["live"], 7);
  EXPECT_EQ(Json({"delete", live_, "--labels", folder_ / "labels"})["deleted"], 3);
  WriteFile(folder_ / "none.ndjson", "{\"label\": 5, \"a\": 1}\n");
  EXPECT_THAT(Fails({"put", live_, folder_ / "v.u8bin", "--attrs", folder_ / "none.ndjson"}),
              HasSubstr("none.ndjson: row 0: label 5: no vector of --base has it"));
  WriteFile(folder_ / "few.ndjson", "{\"a\": 1}\n");
  EXPECT_THAT(Fails({"put", live_, folder_ / "v.u8bin", "--attrs", folder_ / "few.ndjson"}),
              HasSubstr("rows for 1 of the 4 vectors"));
}

TEST_F(Collections, TakeStringsAsLabels) {
  Json({"create", live_, "--dim", "2", "--dtype", "u8"});
  WriteFile(folder_ / "v.u8bin", Vectors<std::uint8_t>(2, {1, 1, 2, 2, 3, 3}));
  WriteFile(folder_ / "labels.txt", "cat.jpg\r\n17\na \"dog\"");
  Json({"put", live_, folder_ / "v.u8bin", "--labels", folder_ / "labels.txt"});
  EXPECT_THAT(Hmann({"search", live_, folder_ / "v.u8bin", "--k", "2"}).out,
              HasSubstr("0  \"cat.jpg\" (0)  17 (2)"));
  Json({"search", live_, folder_ / "v.u8bin", "--k", "1", "--out", folder_ / "a.jsonl"});
  EXPECT_THAT(ReadFile(folder_ / "a.jsonl"), HasSubstr(R"("ids":["cat.jpg"])"));
  WriteFile(folder_ / "change.ndjson", "{\"label\": \"cat.jpg\", \"seen\": true}\n");
  EXPECT_EQ(Json({"update", live_, folder_ / "change.ndjson"})["updated"], 1);
  const json found = Json({"get", live_, "cat.jpg", "17"})["vectors"];
  EXPECT_EQ(found[0],
            json::parse(R"({"label":"cat.jpg","vector":[1,1],"attributes":{"seen":true}})"));
  EXPECT_EQ(found[1]["label"], 17);
  EXPECT_EQ(Json({"delete", live_, "a \"dog\"", "99", "nobody"})["deleted"], 1);
  WriteFile(folder_ / "gone.txt", "cat.jpg\n");
  EXPECT_EQ(Json({"delete", live_, "--labels", folder_ / "gone.txt"})["deleted"], 1);
  EXPECT_THAT(Fails({"get", live_, "cat.jpg"}), HasSubstr("no vector of the collection has it"));
  EXPECT_THAT(Fails({"delete", live_, "18446744073709551616"}), HasSubstr("below 2^64 - 1"));
  EXPECT_THAT(Fails({"put", live_, folder_ / "v.u8bin", "--labels", folder_ / "gone.txt"}),
              HasSubstr("has 1 lines, expected 3 labels"));
}

TEST_F(Collections, RefuseVectorsByNameAndKeepTheRest) {
  Json({"create", live_, "--dim", "3", "--metric", "cosine"});
  const auto put = [&](const std::vector<float>& components, std::uint32_t dim = 3,
                       std::vector<std::string> more = {}) {
    WriteFile(folder_ / "v.fbin", Vectors<float>(dim, components));
    more.insert(more.begin(), {"put", live_, folder_ / "v.fbin"});
    return Fails(more);
  };
  EXPECT_THAT(put({1, 2}, 2),
              AllOf(HasSubstr("v.fbin"), HasSubstr("3 x f32"), HasSubstr("2 x f32")));
  EXPECT_THAT(put({1, 2, 3, 4, NAN, 6}), AllOf(HasSubstr("row 1"), HasSubstr("component 1")));
  EXPECT_THAT(Fails({"put", live_, kBase}), AllOf(HasSubstr("base.u8bin"), HasSubstr("f32")));
  WriteFile(folder_ / "labels", BytesOf(std::vector<std::uint64_t>{1, ~std::uint64_t{0}}));
  EXPECT_THAT(put({1, 2, 3, 4, 5, 6}, 3, {"--labels", folder_ / "labels"}),
              HasSubstr("labels: row 1: found label 2^64 - 1"));
  EXPECT_THAT(put({1, 2, 3, 4, 5, 6}, 3, {"--first", "18446744073709551614"}),
              HasSubstr("labels pass 2^64 - 2"));
  EXPECT_EQ(Json({"info", live_})["live"], 0);
  EXPECT_THAT(put({1, 2, 3, 4, 5, 6, 0, 0, 0}, 3, {"--batch", "2"}),
              AllOf(HasSubstr("v.fbin: rows 2 to 2: "), HasSubstr("(label 2): "), HasSubstr("zero"),
                    HasSubstr("2 of 3 changes are in")));
  EXPECT_EQ(Json({"info", live_})["live"], 2);
}

TEST_F(Collections, DeleteAllOnlyIfAsked) {
  PutSample();
  WriteFile(folder_ / "rows.ndjson", "{\"label\": 0, \"a\": 1}\n");
  Json({"update", live_, "--attrs", folder_ / "rows.ndjson"});
  EXPECT_THAT(Fails({"delete", live_, "--filter", "a = 1 or a is null"}),
              HasSubstr("the filter holds for all 1000 vectors: with --all they are deleted"));
  EXPECT_EQ(Json({"delete", live_, "--filter", "a = 1"})["deleted"], 1);
  EXPECT_EQ(Json({"delete", live_, "--filter", "a = 1"})["deleted"], 0);
  EXPECT_EQ(Hmann({"delete", live_}).exit_code, 2);
  EXPECT_EQ(Hmann({"delete", live_, "1", "--all"}).exit_code, 2);
  EXPECT_EQ(Json({"delete", live_, "--all"}),
            json::parse(R"({"deleted": 999, "sequence": 4, "live": 0})"));
}

TEST_F(Collections, RefuseChangesOfAttributesByLine) {
  PutSample();
  const auto update = [&](const std::string& lines) {
    WriteFile(folder_ / "rows.ndjson", lines);
    return Fails({"update", live_, "--attrs", folder_ / "rows.ndjson"});
  };
  EXPECT_THAT(update("{\"label\": 1, \"a\": 1}\n{\"a\": 1}\n"),
              HasSubstr("rows.ndjson: line 2: expected a key \"label\""));
  EXPECT_THAT(update("{\"label\": 1"), HasSubstr("line 1: expected an object"));
  EXPECT_THAT(update(std::string("{\"label\": 1, \"a\": ") + std::string(1'000'000, '[')),
              HasSubstr("line 1: expected an object"));
  EXPECT_THAT(update("{\"label\": 5000, \"a\": 1}\n"),
              AllOf(HasSubstr("lines 1 to 1: "), HasSubstr("label 5000: no vector")));
  EXPECT_EQ(Json({"get", live_, "1"})["vectors"][0]["attributes"], json::object());
}

TEST_F(Collections, FoldersThatAreNoneAreNamed) {
  for (const char* command : {"put", "backup", "update", "delete", "compact"}) {
    std::vector<std::string> words = {command, folder_ / ""};
    if (words[0] == "put") words.emplace_back(kBase);
    if (words[0] == "backup") words.push_back(folder_ / "out");
    if (words[0] == "update") words.emplace_back(kAttributes);
    if (words[0] == "delete") words.emplace_back("--all");
    EXPECT_THAT(Fails(words), HasSubstr("no collection: expected a folder with a file MANIFEST"))
        << command;
  }
  EXPECT_THAT(Fails({"search", folder_ / "", kQueries}), HasSubstr("is a folder, expected a file"));
  PutSample();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"promote", live_}, {"attrs", live_}, {"tune", live_, "--queries", kQueries}})
    EXPECT_THAT(Fails(words), HasSubstr("c.live: is a folder, expected a file")) << words[0];
  Json({"compact", live_});
  const std::string sealed = Json({"info", live_})["sealed_file"];
  fs::rename(sealed, folder_ / "elsewhere");
  EXPECT_THAT(Fails({"search", live_, kQueries}),
              AllOf(HasSubstr(sealed), HasSubstr("restore a backup")));
  fs::rename(folder_ / "elsewhere", sealed);
  fs::rename(In("MANIFEST"), folder_ / "elsewhere");
  EXPECT_THAT(Fails({"put", live_, kBase}), HasSubstr("expected a folder with a file MANIFEST"));
}

TEST_F(Collections, DamagedJournalsAreNamed) {
  PutSample();
  const std::string good = ReadFile(In("journal.sqlite"));
  const auto with = [&](const std::string& bytes) {
    WriteFile(In("journal.sqlite"), bytes);
    const Outcome ran = Hmann({"verify", live_});
    EXPECT_EQ(ran.exit_code, 1) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr("journal.sqlite"));
    return ran.err;
  };
  ASSERT_GT(good.size(), 100'000u) << "the log is in it";
  with(good.substr(0, good.size() / 2));
  std::string flipped = good;
  char& inside_a_page = flipped[flipped.size() / 2 + 100];
  inside_a_page = static_cast<char>(inside_a_page ^ 1);
  EXPECT_THAT(with(flipped), HasSubstr("write 1: its checksum does not match"));
  Json({"create", folder_ / "other", "--dim", "128", "--dtype", "u8"});
  EXPECT_THAT(with(ReadFile(folder_ / "other/journal.sqlite")),
              HasSubstr("belongs to the collection"));
  WriteFile(In("journal.sqlite"), good);
  EXPECT_EQ(Json({"verify", live_})["live"], 1000);
}

TEST_F(Collections, InAFolderThatIsReadOnlyAreSearched) {
  PutSample();
  // Root may write everywhere.
  const auto as_user = [](std::vector<std::string> words) {
    words.insert(words.begin(), fs::absolute(HmannProgram()));
    if (::geteuid() == 0) {
      words.insert(words.begin(),
                   {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    }
    return RunProgram(words);
  };
  fs::permissions(live_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                             fs::perms::others_exec);
  const Outcome found = as_user({"search", live_, kQueries, "--rows", "3"}),
                put = as_user({"put", live_, kBase}), verified = as_user({"verify", live_});
  fs::permissions(live_, fs::perms::owner_all);
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_EQ(put.exit_code, 1) << put.out;
  EXPECT_THAT(put.err, AllOf(HasSubstr(live_), HasSubstr("Permission denied")));
}

TEST_F(Collections, CtrlCEndsAPutBetweenTwoWrites) {
  Json({"create", live_, "--dim", "128", "--dtype", "u8"});
  Program put({HmannProgram(), "put", live_, kBase, "--batch", "1"});
  ASSERT_TRUE(put.UntilBusyFor(0.3));
  put.Signal(SIGINT);
  const Outcome ran = put.Wait();
  EXPECT_EQ(ran.signal, SIGINT);
  const std::uint64_t live = Json({"info", live_})["live"];
  EXPECT_TRUE(live > 0 && live < 10'000) << live;
  EXPECT_THAT(ran.err, HasSubstr(absl::StrCat("stopped; ", live, " of 10000 changes are in")));
}

/// A merge that takes long enough to be met at work.
class Merging : public Collections {
 protected:
  Merging() {
    Json({"create", live_, "--dim", "128", "--dtype", "u8", "--method", "insertion",
          "--ef-construction", "2000"});
    Json({"put", live_, kBase});
  }
  std::vector<std::string> CompactCommand() {
    return {HmannProgram(), "compact", live_, "--threads", "1"};
  }
};

TEST_F(Merging, OthersReadAndMayNotWrite) {
  Program merge(CompactCommand());
  ASSERT_TRUE(merge.UntilBusyFor(0.5));
  EXPECT_THAT(Fails({"delete", live_, "1"}), HasSubstr("another process writes to it"));
  EXPECT_EQ(Json({"search", live_, kQueries, "--groundtruth", kTruth})["recall"], 1.0);
  EXPECT_EQ(Json({"backup", live_, folder_ / "copy"})["sequence"], 10);
  EXPECT_EQ(Json({"info", folder_ / "copy"})["live"], 10'000);
}

TEST_F(Merging, CtrlCEndsItAndNothingIsLost) {
  Program merge(CompactCommand());
  ASSERT_TRUE(merge.UntilBusyFor(0.5));
  merge.Signal(SIGINT);
  const Outcome ran = merge.Wait();
  EXPECT_EQ(ran.signal, SIGINT);
  EXPECT_THAT(ran.err, HasSubstr("all vectors are there"));
  EXPECT_EQ(Json({"info", live_})["live"], 10'000);
  EXPECT_EQ(Json({"verify", live_})["sequence"], 10);
}

}  // namespace
}  // namespace hmann
