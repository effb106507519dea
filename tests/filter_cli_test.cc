// Attributes and filters as a user meets them: made, shown, searched by, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "absl/strings/numbers.h"
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

TEST_F(Filters, ThatCannotBeAreNamed) {
  const std::vector<std::string> search = {"search", index_, "--queries", kQueries, "--filter"};
  const auto filtered = [&](const std::string& filter) {
    std::vector<std::string> arguments = search;
    arguments.push_back(filter);
    return Fails(arguments);
  };
  EXPECT_THAT(filtered("a = 1"), HasSubstr("sample.hmann.attrs: No such file"));
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
