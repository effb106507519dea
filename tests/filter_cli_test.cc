// Attributes and filters as a user meets them: made, shown, searched by, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const char kQueries[] = "datasets/sample/query.u8bin";

class Filters : public testing::Test {
 protected:
  Filters() : folder_("filters") {
    const Outcome built =
        Hmann({"build", "--base", "datasets/sample/base.u8bin", "--out", index_, "--no-calibrate"});
    EXPECT_EQ(built.exit_code, 0) << built.err;
  }
  json Json(const std::vector<std::string>& arguments) {
    const Outcome ran = Hmann(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.exit_code == 0 ? json::parse(ran.out) : json();
  }
  json Search(std::vector<std::string> more) {
    more.insert(more.begin(), {"search", index_, "--queries", kQueries, "--json"});
    return Json(more);
  }
  std::string Fails(const std::vector<std::string>& arguments) {
    const Outcome ran = Hmann(arguments);
    EXPECT_EQ(ran.exit_code, 1) << ran.out;
    return ran.err;
  }

  TestFolder folder_;
  const std::string index_ = folder_ / "sample.hmann";
};

TEST_F(Filters, SelectByTheAttributesOfAFile) {
  const json made = Json({"attrs", index_, "--from", "datasets/sample/attributes.csv", "--json"});
  EXPECT_EQ(made["fields"],
            json::parse(R"([{"name": "direction", "type": "tag", "rows": 10000, "values": 8},
                            {"name": "strength", "type": "int64", "rows": 10000}])"));
  EXPECT_EQ(Json({"attrs", index_, "--json"}), made);
  // As the lines of the file say.
  std::istringstream lines(ReadFile("datasets/sample/attributes.csv"));
  std::string line;
  std::getline(lines, line);
  std::vector<bool> wanted;
  while (std::getline(lines, line)) {
    const std::string direction = line.substr(line.find(',') + 1);
    std::int64_t strength = 0;
    EXPECT_TRUE(absl::SimpleAtoi(line.substr(0, line.find(',')), &strength)) << line;
    wanted.push_back((direction == "N" || direction == "S") && strength > 3500);
  }
  const char* const filter = "direction in (\"N\", \"S\") and strength > 3500";
  const std::string exact = folder_ / "exact.jsonl", found = folder_ / "found.jsonl";
  const json scanned = Search({"--filter", filter, "--mode", "scan", "--out", exact});
  EXPECT_EQ(scanned["matches"], std::count(wanted.begin(), wanted.end(), true));
  EXPECT_EQ(scanned["filter"], filter);
  EXPECT_EQ(scanned["matches_share"], scanned["matches"].get<double>() / 10'000);
  EXPECT_THAT(Hmann({"search", index_, "--queries", kQueries, "--filter", filter}).out,
              HasSubstr(absl::StrFormat("k 10, %d match (%.3g %%)", scanned["matches"].get<int>(),
                                        scanned["matches"].get<double>() / 100)));
  Search({"--filter", filter, "--out", found});
  std::size_t same = 0, all = 0;
  std::istringstream of_scan(ReadFile(exact)), of_search(ReadFile(found));
  for (std::string a, b; std::getline(of_scan, a) && std::getline(of_search, b);) {
    const json right = json::parse(a)["ids"], ids = json::parse(b)["ids"];
    ASSERT_EQ(ids.size(), 10u);
    for (const json& id : ids) EXPECT_TRUE(wanted[id.get<std::size_t>()]) << id;
    for (const json& id : ids) same += std::find(right.begin(), right.end(), id) != right.end();
    all += right.size();
  }
  EXPECT_EQ(all, 2000u);
  EXPECT_GE(static_cast<double>(same), 0.9 * static_cast<double>(all));
}

TEST_F(Filters, MayDifferFromQueryToQuery) {
  // Vector i has the tags i % 3 and 10 + i % 5; query i wants those of i.
  const auto spmat = [](std::int64_t rows) {
    std::string bytes;
    const auto add = [&bytes](const auto value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    for (const std::int64_t number : {rows, std::int64_t{20}, 2 * rows}) add(number);
    for (std::int64_t i = 0; i <= rows; ++i) add(2 * i);
    for (std::int32_t i = 0; i < rows; ++i) {
      add(i % 3);
      add(10 + i % 5);
    }
    for (std::int64_t i = 0; i < 2 * rows; ++i) add(1.0f);
    return bytes;
  };
  WriteFile(folder_ / "base.spmat", spmat(10'000));
  WriteFile(folder_ / "query.spmat", spmat(200));
  Json({"attrs", index_, "--from", folder_ / "base.spmat", "--json"});
  const std::string out = folder_ / "found.jsonl";
  const json ran = Search({"--filter-tags", folder_ / "query.spmat", "--out", out});
  EXPECT_NEAR(ran["matches"].get<double>(), 10'000 / 15.0, 1);
  std::istringstream lines(ReadFile(out));
  std::string line;
  for (std::size_t i = 0; std::getline(lines, line); ++i) {
    const json ids = json::parse(line)["ids"];
    ASSERT_EQ(ids.size(), 10u);
    for (const json& id : ids) EXPECT_EQ(id.get<std::size_t>() % 15, i % 15);
  }
  WriteFile(folder_ / "few.spmat", spmat(17));
  EXPECT_THAT(
      Fails({"search", index_, "--queries", kQueries, "--filter-tags", folder_ / "few.spmat"}),
      HasSubstr("filters of 17 queries, 200 are searched"));
}

TEST_F(Filters, HaveTheirAttributesFromTheBuild) {
  const std::string rows = "datasets/sample/attributes.csv", made = folder_ / "made.hmann";
  Json({"attrs", index_, "--from", rows, "--json"});
  std::vector<std::string> build = {"build",  "--base", "datasets/sample/base.u8bin",
                                    "--out",  made,     "--no-calibrate",
                                    "--json", "--attrs"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), build.begin(), build.end());
    return more;
  };
  const json report = Json(with({rows}));
  EXPECT_TRUE(report["seconds"].contains("attributes")) << report["seconds"];
  EXPECT_TRUE(ReadFile(made + ".attrs") == ReadFile(index_ + ".attrs"));
  Json(with({rows, "--build-memory", "128MiB", "--work", folder_ / "work"}));
  EXPECT_TRUE(ReadFile(made + ".attrs") == ReadFile(index_ + ".attrs"));
  std::filesystem::remove(made);
  std::filesystem::remove(made + ".attrs");
  // Wrong rows are refused before the build.
  WriteFile(folder_ / "few.ndjson", "{\"a\": 1}\n");
  WriteFile(folder_ / "bad.ndjson", "{\"a\": 1}\n{\"a\"\n");
  EXPECT_THAT(Fails(with({folder_ / "few.ndjson"})), HasSubstr("rows for 1 of the 10000 vectors"));
  EXPECT_THAT(Fails(with({folder_ / "bad.ndjson"})), HasSubstr("bad.ndjson: line 2"));
  EXPECT_THAT(Fails(with({folder_ / "none.csv"})), HasSubstr("none.csv"));
  EXPECT_THAT(Fails(with({rows, "--rows", "500"})), HasSubstr("row 500: no vector of the index"));
  EXPECT_EQ(Hmann(with({rows, "--types", "a"})).exit_code, 1);
  build.pop_back();
  EXPECT_EQ(Hmann(with({"--types", "a:tag"})).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST_F(Filters, AreRepairedByAttrsAfterAnIncompleteBuild) {
  const std::string rows = "datasets/sample/attributes.csv", made = folder_ / "made.hmann";
  std::filesystem::create_directory(made + ".attrs");
  EXPECT_THAT(Fails({"build", "--base", "datasets/sample/base.u8bin", "--out", made,
                     "--no-calibrate", "--attrs", rows}),
              HasSubstr("made.hmann is complete, but has no attributes (`hmann attrs"));
  EXPECT_TRUE(ReadFile(made) == ReadFile(index_));
  std::filesystem::remove(made + ".attrs");
  Json({"attrs", made, "--from", rows, "--json"});
}

/// The tags of each row.
std::vector<std::vector<std::int32_t>> ReadSpmat(const std::string& path) {
  const std::string bytes = ReadFile(path);
  const auto number = [&](auto value, std::size_t offset) {
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  };
  const auto count = static_cast<std::size_t>(number(std::int64_t{}, 0));
  std::vector<std::vector<std::int32_t>> rows(count);
  for (std::size_t row = 0; row < count; ++row) {
    const auto begin = static_cast<std::size_t>(number(std::int64_t{}, 24 + 8 * row)),
               end = static_cast<std::size_t>(number(std::int64_t{}, 32 + 8 * row));
    for (std::size_t i = begin; i < end; ++i)
      rows[row].push_back(number(std::int32_t{}, 32 + 8 * count + 4 * i));
  }
  return rows;
}

/// Generated vectors, queries and their tags, and `data groundtruth` of them.
class Truths : public Filters {
 protected:
  Truths() {
    const auto generate = [&](std::vector<std::string> more) {
      const std::vector<std::string> generate = {"data", "generate",   "--dim",
                                                 "8",    "--clusters", "20"};
      more.insert(more.begin(), generate.begin(), generate.end());
      EXPECT_EQ(Hmann(more).exit_code, 0);
    };
    generate({"--n", "3000", "--tags", base_tags_, "--out", base_});
    generate({"--n", "60", "--first", "3000", "--queries", "--tags", tags_, "--out", queries_});
  }
  std::vector<std::string> Truth(const std::string& base, const std::string& queries,
                                 const std::string& attrs, std::vector<std::string> filter) const {
    const std::vector<std::string> truth = {"data",   "groundtruth", "--base", base,    "--queries",
                                            queries,  "--k",         "10",     "--out", gt_,
                                            "--json", "--attrs",     attrs};
    filter.insert(filter.begin(), truth.begin(), truth.end());
    return filter;
  }

  const std::string base_ = folder_ / "b.u8bin", base_tags_ = folder_ / "b.spmat",
                    queries_ = folder_ / "q.u8bin", tags_ = folder_ / "q.spmat",
                    gt_ = folder_ / "exact.gt";
};

TEST_F(Truths, HaveTheMatchesThatThereAre) {
  EXPECT_EQ(Json(Truth(base_, queries_, base_tags_, {"--filter-tags", tags_}))["filter"], tags_);
  EXPECT_FALSE(std::filesystem::exists(gt_ + ".attrs"));
  const auto has = ReadSpmat(base_tags_), wants = ReadSpmat(tags_);
  const std::string bytes = ReadFile(gt_);
  std::size_t incomplete = 0;
  for (std::size_t query = 0; query < wants.size(); ++query) {
    std::size_t matches = 0, listed = 0;
    const auto match = [&](std::size_t row) {
      return std::includes(has[row].begin(), has[row].end(), wants[query].begin(),
                           wants[query].end());
    };
    for (std::size_t row = 0; row < has.size(); ++row) matches += match(row);
    for (std::size_t i = 0; i < 10; ++i) {
      std::uint32_t id = 0;
      std::memcpy(&id, bytes.data() + 8 + 4 * (10 * query + i), 4);
      EXPECT_TRUE(id == ~0u || match(id)) << query << " " << id;
      listed += id != ~0u;
    }
    EXPECT_GE(matches, 1u);
    EXPECT_EQ(listed, std::min<std::size_t>(matches, 10));
    incomplete += listed < 10;
  }
  EXPECT_GT(incomplete, 5u);
}

TEST_F(Truths, AreWhatScansFind) {
  const std::string made = folder_ / "made.hmann";
  Json(
      {"build", "--base", base_, "--out", made, "--attrs", base_tags_, "--no-calibrate", "--json"});
  const auto recall = [&](std::vector<std::string> more) {
    const std::vector<std::string> search = {
        "search", made, "--queries", queries_, "--groundtruth", gt_, "--mode", "scan", "--json"};
    more.insert(more.begin(), search.begin(), search.end());
    return Json(more)["recall"];
  };
  Json(Truth(base_, queries_, base_tags_, {"--filter-tags", tags_}));
  EXPECT_EQ(recall({"--filter-tags", tags_}), 1.0);
  EXPECT_LT(recall({}), 1.0);
  const std::vector<std::string> filter = {"--filter", "tags in (1, 5)"};
  EXPECT_EQ(Json(Truth(base_, queries_, base_tags_, filter))["filter"], filter[1]);
  EXPECT_EQ(recall(filter), 1.0);
}

TEST_F(Truths, ThatCannotBeAreNamed) {
  const std::vector<std::string> tags = {"--filter-tags", tags_};
  EXPECT_THAT(Fails(Truth(base_, queries_, base_tags_, {"--filter", "color = 1"})),
              HasSubstr("there is no field color"));
  EXPECT_THAT(Fails(Truth(base_, queries_, tags_, tags)),
              HasSubstr("rows for 60 of the 3000 vectors"));
  EXPECT_THAT(Fails(Truth(queries_, queries_, base_tags_, tags)),
              HasSubstr("no vector of the index has label 60"));
  EXPECT_THAT(Fails(Truth(base_, base_, base_tags_, tags)),
              HasSubstr("filters of 60 queries, 3000 are searched"));
  EXPECT_THAT(Fails(Truth(base_, queries_, base_, tags)), HasSubstr("b.u8bin"));
  EXPECT_EQ(Hmann(Truth(base_, queries_, base_tags_, {})).exit_code, 2);
  EXPECT_EQ(Hmann({"data", "generate", "--kind", "uniform", "--dim", "4", "--tags", tags_, "--out",
                   base_})
                .exit_code,
            2);
}

TEST_F(Filters, ThatCannotBeAreNamed) {
  const std::vector<std::string> search = {"search", index_, "--queries", kQueries, "--filter"};
  const auto filtered = [&](const std::string& filter) {
    std::vector<std::string> arguments = search;
    arguments.push_back(filter);
    return Fails(arguments);
  };
  EXPECT_THAT(
      filtered("a = 1"),
      HasSubstr("sample.hmann.attrs: the index has no attributes: give it some with hmann attrs"));
  Json({"attrs", index_, "--from", "datasets/sample/attributes.csv", "--json"});
  EXPECT_THAT(filtered("a ="), HasSubstr("filter: column 4: expected a value"));
  EXPECT_THAT(filtered("a = 1"), HasSubstr("there is no field a, only direction, strength"));
  const std::string attrs = index_ + ".attrs", good = ReadFile(attrs);
  WriteFile(folder_ / "rows.ndjson", "{\"a\": 1}\n");
  EXPECT_THAT(Fails({"attrs", index_, "--from", folder_ / "rows.ndjson"}),
              HasSubstr("rows for 1 of the 10000 vectors"));
  EXPECT_TRUE(ReadFile(attrs) == good) << "the old file stays";
  // Damaged, they fail filters by name. Other searches go on.
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  bad[bad.size() - 20] = static_cast<char>(bad[bad.size() - 20] ^ 1);
  WriteFile(attrs, bad);
  EXPECT_THAT(filtered("strength > 1"), HasSubstr("damaged"));
  EXPECT_THAT(Fails({"verify", index_}), HasSubstr("sample.hmann.attrs"));
  EXPECT_EQ(Search({})["queries"], 200);
  // Those of another index.
  const Outcome other = Hmann({"build", "--base", "datasets/sample/base.u8bin", "--rows", "500",
                               "--out", folder_ / "other.hmann", "--no-calibrate"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  WriteFile(folder_ / "other.hmann.attrs", good);
  EXPECT_THAT(Fails({"attrs", folder_ / "other.hmann"}), HasSubstr("attributes of another index"));
}

}  // namespace
}  // namespace hmann
