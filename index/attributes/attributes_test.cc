// Files of attributes: written, opened, filtered by, verified; damaged ones are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "index/attributes/bound_filter.h"
#include "index/attributes/stored_rows.h"
#include "index/attributes/testing/sample_attrs.h"

namespace hmann {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// The cells of all vectors by id.
struct CellsById {
  explicit CellsById(const std::shared_ptr<const Attributes>& attributes) {
    const auto rows = StoredRows::Open(attributes);
    EXPECT_TRUE(rows.ok()) << rows.status();
    fields = (*rows)->fields();
    const absl::Status read = (*rows)->ForEach([this](auto, auto, auto of_row) {
      cells.emplace_back(of_row.begin(), of_row.end());
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
  }
  std::vector<AttributeField> fields;
  std::vector<std::vector<AttributeCell>> cells;
};

/// The rows for which a filter holds, by the file, by their cells and by its definition.
void ExpectSame(const SampleAttrs& sample, const Attributes& attributes, const CellsById& by_id,
                const Filter& filter) {
  const auto matches = attributes.Matching(filter);
  ASSERT_TRUE(matches.ok()) << filter.text() << ": " << matches.status();
  const auto bound = BindFilter(filter, by_id.fields);
  ASSERT_TRUE(bound.ok()) << bound.status();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < sample.rows.size(); ++i) {
    const bool holds = Holds(filter.root(), sample.rows[i]);
    const std::uint32_t id = sample.id_of[i];
    count += holds ? 1 : 0;
    ASSERT_EQ(matches->Has(id), holds) << filter.text() << ", row " << i;
    ASSERT_EQ(bound->Holds(by_id.cells[id]), holds) << filter.text() << ", row " << i;
  }
  EXPECT_EQ(matches->size(), count) << filter.text();
}

TEST(Attributes, SelectWhatTheirDefinitionSays) {
  const SampleAttrs sample(3000);
  const auto attributes = sample.Open();
  ASSERT_TRUE(attributes.ok()) << attributes.status();
  const CellsById by_id(*attributes);
  for (const char* text :
       {"year = 2001",
        "year != 2001",
        "year < 1995",
        "year <= 1995",
        "year > 2010.5",
        "year >= 1990",
        "year in (1, 1999, 2003)",
        "year not in (1999)",
        "year is null",
        "year is not null",
        "price < 0",
        "price >= 12.125",
        "price = 1",
        "price != 1.5",
        "price in (1, 2.5, 3)",
        "price < -1000",
        "sold",
        "not sold",
        "sold = false",
        "sold != false",
        "sold in (true, false)",
        "sold is null",
        "tag = 't3'",
        "tag != 't3'",
        "tag in ('t3', 't4', 'none')",
        "has(tag, 't3', 't4')",
        "tag is null",
        "tag = 'absent'",
        "number = -3",
        "number in (-3, 4)",
        "has(number, 1, 2)",
        "made < '1971-03-01'",
        "made >= '1970-06-01T00:00:00Z' and made <= 31536000000000",
        "year > 2000 and sold and tag in ('t1', 't2') or not (price < 50 or number is null)",
        "year > 2018 and price > 100 and sold",
        "year >= 2001 and price != 1.5 and has(tag, 't3', 't4', 't5') and has(number, 1, 2)",
        "has(tag, 't3', 't4') and has(number, 4) and year in (1999, 2003, 2001) and made is null",
        "has(tag, 't3', 't4') and has(number, 4) and price <= 60 and not price < 5"}) {
    const auto filter = Filter::Parse(text);
    ASSERT_TRUE(filter.ok()) << filter.status();
    ExpectSame(sample, **attributes, by_id, *filter);
  }
}

/// Some condition, which may hold others.
std::string AnyFilter(std::uint64_t seed, std::uint64_t at, int levels) {
  const auto any = [&](std::uint64_t stream, std::uint64_t below) {
    return RandomBelow(seed + stream, at, below);
  };
  static const char* kOps[] = {"=", "!=", "<", "<=", ">", ">="};
  switch (any(1, levels > 0 ? 8 : 5)) {
    case 0:
      return absl::StrCat("year ", kOps[any(2, 6)], " ", 1989 + any(3, 32));
    case 1:
      return absl::StrCat("price ", kOps[any(2, 6)], " ", any(3, 130), ".25");
    case 2:
      return absl::StrCat("tag in ('t", any(2, 22), "', 't", any(3, 22), "')");
    case 3:
      return any(2, 2) == 0 ? "sold" : "made is null";
    case 4:
      return absl::StrCat("has(number, ", any(2, 25), ")");
    case 5:
      return absl::StrCat("not (", AnyFilter(seed, at * 3 + 1, levels - 1), ")");
    default:
      return absl::StrCat("(", AnyFilter(seed, at * 3 + 1, levels - 1),
                          any(4, 2) == 0 ? " and " : " or ",
                          AnyFilter(seed, at * 3 + 2, levels - 1), ")");
  }
}

TEST(Attributes, SelectTheSameForAnyFilter) {
  for (const std::uint64_t n : {1, 63, 64, 70'000}) {
    const SampleAttrs sample(n);
    const auto attributes = sample.Open();
    ASSERT_TRUE(attributes.ok()) << attributes.status();
    const CellsById by_id(*attributes);
    for (std::uint64_t i = 0; i < (n > 1000 ? 40 : 200); ++i) {
      const auto filter = Filter::Parse(AnyFilter(n, i + 1, 4));
      ASSERT_TRUE(filter.ok()) << filter.status();
      // A small sample may lack a field.
      if (n > 1) ExpectSame(sample, **attributes, by_id, *filter);
    }
    EXPECT_TRUE((*attributes)->Verify().ok()) << (*attributes)->Verify();
  }
}

TEST(Attributes, HaveTheSameBytesWithinAnyMemory) {
  const SampleAttrs sample(70'000);  // more than the least part
  const std::string bytes = ReadAll(sample.path);
  const auto rows =
      AttributeRows::Open(sample.folder / "rows.ndjson", {{"made", AttributeType::kTime}});
  for (const std::uint64_t memory : {200'000u, 1'000'000u}) {
    ASSERT_TRUE(sample.Write(**rows, memory).ok());
    EXPECT_TRUE(ReadAll(sample.path) == bytes) << memory;
  }
}

/// Files of this version must stay readable, so a change of their bytes is a new version.
TEST(Attributes, HaveTheBytesOfTheGoldenFile) {
  const SampleAttrs sample(60);
  const std::string golden = "index/attributes/golden/v1.attrs";
  if (std::getenv("HMANN_GOLDEN") != nullptr) WriteAll(golden, ReadAll(sample.path));
  EXPECT_TRUE(ReadAll(sample.path) == ReadAll(golden));
}

void ExpectRows(const SampleAttrs& sample, const std::shared_ptr<const Attributes>& attributes,
                const AttributeRows& stored) {
  const std::uint64_t n = sample.rows.size();
  std::vector<const SampleRow*> row_of(n);
  for (std::uint64_t row = 0; row < n; ++row) row_of[sample.id_of[row]] = &sample.rows[row];
  std::uint64_t next = 0;
  const absl::Status read = stored.ForEach([&](auto row, auto label, auto cells) {
    EXPECT_EQ(row, next);
    EXPECT_EQ(label, next);
    SampleRow found;
    for (const AttributeCell& cell : cells)
      found[stored.fields()[cell.field].name].push_back(cell.value);
    EXPECT_TRUE(found == *row_of[next]) << next;
    EXPECT_TRUE(std::is_sorted(cells.begin(), cells.end()));
    if (next % 997 == 0 || next + 1 == n) {
      const auto one = CellsOf(*attributes, static_cast<std::uint32_t>(next));
      EXPECT_TRUE(one.ok()) << one.status();
      EXPECT_TRUE(std::equal(cells.begin(), cells.end(), one->begin(), one->end())) << next;
    }
    ++next;
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(next, n);
}

/// Rows are read back, all at once and one by one; and so are those of a file that was
/// made of them.
TEST(Attributes, AreReadBackByRow) {
  for (const std::uint64_t n : {1u, 60u, 70'000u}) {
    SampleAttrs sample(n);
    const std::size_t bytes = ReadAll(sample.path).size();
    LabelIds same(n, true);
    for (std::uint32_t id = 0; id < n; ++id) same.Add(id, id);
    same.Sort();
    for (int time = 0; time < 2; ++time) {
      const auto attributes = sample.Open();
      ASSERT_TRUE(attributes.ok()) << attributes.status();
      EXPECT_TRUE((*attributes)->Verify().ok());
      const auto stored = StoredRows::Open(*attributes);
      ASSERT_TRUE(stored.ok()) << stored.status();
      ExpectRows(sample, *attributes, **stored);
      Progress quiet(Progress::Show::kNever);
      sample.path = sample.folder / "copy.attrs";
      ASSERT_TRUE(
          WriteAttributes(**stored, same, {sample.path, n, SampleAttrs::kHash, 1 << 20}, quiet)
              .ok());
      EXPECT_EQ(ReadAll(sample.path).size(), bytes);
    }
  }
}

TEST(Attributes, TellWhatTheyHold) {
  const SampleAttrs sample(1000);
  const auto attributes = sample.Open();
  std::vector<std::string> found;
  for (const AttributeFieldInfo& info : (*attributes)->fields()) {
    std::uint64_t rows = 0;
    for (const SampleRow& row : sample.rows) rows += row.contains(info.field.name) ? 1 : 0;
    EXPECT_EQ(info.rows, rows) << info.field.name;
    found.push_back(absl::StrCat(
        info.field.name, ":", std::string(AttributeTypeName(info.field.type)), " ", info.values));
  }
  EXPECT_THAT(found, testing::ElementsAre("made:time 0", "number:int-tag 50", "price:float64 0",
                                          "sold:bool 0", "tag:tag 20", "year:int64 0"));
  EXPECT_EQ((*attributes)->mapped_bytes(),
            3 * 8'000 + 4 * ((*attributes)->fields()[0].rows + (*attributes)->fields()[2].rows +
                             (*attributes)->fields()[5].rows));
}

TEST(Attributes, RefuseWhatAFilterCannotMean) {
  const SampleAttrs sample(100);
  const auto attributes = sample.Open();
  for (const auto& [text, error] : {
           std::pair("color = 1",
                     "filter: column 1: there is no field color, only made, number, "
                     "price, sold, tag, year"),
           std::pair("sold and year = 'x'",
                     "filter: column 10: year is int64, and \"x\" is no number"),
           std::pair("tag < 'x'", "filter: column 1: tag is tag, and tags have no order"),
           std::pair("tag = 3", "filter: column 1: tag is tag, and 3 is no string"),
           std::pair("number = 'x'",
                     "filter: column 1: number is int-tag, and \"x\" is no whole number"),
           std::pair("has(year, 3)",
                     "filter: column 1: has() needs a field of tags, and year is int64"),
           std::pair("sold < true",
                     "filter: column 1: sold is bool, and true and false have no order"),
           std::pair("sold = 1", "filter: column 1: sold is bool, and 1 is neither true nor false"),
           std::pair("year", "filter: column 1: year is int64, and true is no number"),
       }) {
    const auto filter = Filter::Parse(text);
    ASSERT_TRUE(filter.ok()) << filter.status();
    EXPECT_EQ((*attributes)->Matching(*filter).status().message(), error);
    EXPECT_EQ(BindFilter(*filter, CellsById(*attributes).fields).status().message(), error);
  }
  const auto filter = Filter::Parse("made > 'yesterday'");
  EXPECT_THAT(std::string((*attributes)->Matching(*filter).status().message()),
              HasSubstr("filter: column 1: "));
}

TEST(Attributes, NeedARowForEachVector) {
  const SampleAttrs sample(3);
  const std::string before = ReadAll(sample.path), path = sample.folder / "other.ndjson";
  for (const auto& [text, error] : {
           std::pair("{\"a\": 1}\n{\"a\": 1}\n", "rows for 2 of the 3 vectors of the index"),
           std::pair("{\"a\": 1}\n{}\n{}\n{}\n", "row 3: no vector of the index has label 3"),
           std::pair("{\"label\": 0}\n{\"label\": 0}\n{\"label\": 2}\n",
                     "row 1: label 0 had a row"),
           std::pair("{\"label\": 0}\n{\"label\": 9}\n",
                     "row 1: no vector of the index has label 9"),
       }) {
    WriteAll(path, text);
    const auto rows = AttributeRows::Open(path);
    ASSERT_TRUE(rows.ok()) << rows.status();
    const absl::Status status = sample.Write(**rows, 1 << 20);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(error));
  }
  EXPECT_TRUE(ReadAll(sample.path) == before) << "the old file stays";
}

TEST(Attributes, FollowLabelsOfTheUser) {
  const TempFolder folder;
  // Two vectors share label 7.
  LabelIds ids(3, true);
  for (const auto& [label, id] : {std::pair(7, 2), std::pair(900, 0), std::pair(7, 1)})
    ids.Add(static_cast<std::uint64_t>(label), static_cast<std::uint32_t>(id));
  ids.Sort();
  WriteAll(folder / "rows.ndjson", "{\"label\": 900, \"a\": 1}\n{\"label\": 7, \"a\": 2}\n");
  const auto rows = AttributeRows::Open(folder / "rows.ndjson");
  Progress quiet(Progress::Show::kNever);
  const std::string path = folder / "x.attrs";
  ASSERT_TRUE(WriteAttributes(**rows, ids, {path, 3, 5, 1 << 20}, quiet).ok());
  const auto attributes = Attributes::Open(path, 3, 5);
  ASSERT_TRUE(attributes.ok()) << attributes.status();
  const auto matches = (*attributes)->Matching(*Filter::Parse("a = 2"));
  EXPECT_EQ(matches->size(), 2u);
  EXPECT_FALSE(matches->Has(0));
  WriteAll(folder / "rows.ndjson", "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 2}\n");
  const auto without = AttributeRows::Open(folder / "rows.ndjson");
  EXPECT_THAT(std::string(WriteAttributes(**without, ids, {path, 3, 5, 1 << 20}, quiet).message()),
              HasSubstr("the index has labels of its own"));
}

/// What opening and verifying say of a file.
absl::Status Check(const SampleAttrs& sample, const std::string& bytes) {
  WriteAll(sample.path, bytes);
  const auto attributes = sample.Open();
  return attributes.ok() ? (*attributes)->Verify() : attributes.status();
}

TEST(Attributes, OfAnotherIndexOrFormatAreRefused) {
  const SampleAttrs sample(100);
  EXPECT_EQ(Attributes::Open(sample.path, 101, SampleAttrs::kHash).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Attributes::Open(sample.path, 100, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Attributes::Open(sample.path + "x", 100, 1).status().code(),
            absl::StatusCode::kNotFound);
  std::string bytes = ReadAll(sample.path);
  bytes[8] = 2;
  EXPECT_EQ(Check(sample, bytes).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Check(sample, "").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Check(sample, std::string(1000, 'x')).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Attributes, CutShortOrFlippedAreNoticed) {
  const SampleAttrs sample(60);
  const std::string good = ReadAll(sample.path);
  for (std::size_t size = 0; size < good.size(); size += 7)
    EXPECT_FALSE(Check(sample, good.substr(0, size)).ok()) << size;
  std::size_t unnoticed = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x20);
    const absl::Status status = Check(sample, bytes);
    unnoticed += status.ok() && good[i] == 0 ? 1 : 0;  // in a gap between sections
    EXPECT_TRUE(good[i] == 0 || !status.ok()) << i;
  }
  EXPECT_LT(unnoticed, 64u * 30);
  EXPECT_TRUE(Check(sample, good).ok());
}

/// Rows are read back from what verifies; from anything else they are, or DATA_LOSS is.
void ExpectReadable(const std::shared_ptr<const Attributes>& attributes, bool verified) {
  const auto none = [](auto, auto, auto) { return absl::OkStatus(); };
  const auto rows = StoredRows::Open(attributes);
  const absl::Status read = rows.ok() ? (*rows)->ForEach(none) : rows.status();
  EXPECT_TRUE(read.ok() || (!verified && absl::IsDataLoss(read))) << read;
  const auto cells = CellsOf(*attributes, 100);
  EXPECT_TRUE(cells.ok() || absl::IsDataLoss(cells.status())) << cells.status();
}

/// Every value of a file with right checksums is hostile in turn: nothing crashes, and a
/// filter's answer is an error or has only vectors.
TEST(Attributes, HostileOnesAreRefusedByNameOrHarmless) {
  const SampleAttrs sample(200);
  const std::string good = ReadAll(sample.path);
  const Filter filter = *Filter::Parse(
      "tag in ('t1', 't2') or year > 2000 or sold or has(number, 3) or price < 5 or made is null");
  std::size_t named = 0;
  for (std::size_t i = 0; i < good.size(); i += 17) {
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string bytes = good;
      bytes[i] = value;
      ResealAttrs(bytes);
      WriteAll(sample.path, bytes);
      const auto attributes = sample.Open();
      absl::Status status = attributes.status();
      if (attributes.ok()) {
        const auto matches = (*attributes)->Matching(filter);
        EXPECT_LE(matches.ok() ? matches->size() : 0, 200u);
        status = (*attributes)->Verify();
        ExpectReadable(*attributes, status.ok());
      }
      if (status.ok()) continue;
      ++named;
      EXPECT_THAT(status.code(),
                  AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kUnimplemented,
                        absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition))
          << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(sample.path));
    }
  }
  EXPECT_GT(named, good.size() / 20);
}

}  // namespace
}  // namespace hmann
