/// Inputs and files that a collection must refuse, by name, with nothing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/collection.h"
#include "index/base/checksum.h"
#include "index/collection/moment.h"
#include "index/collection/testing/ledger.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class RefusalTest : public testing::Test {
 protected:
  void Create(DType dtype, Metric metric, std::uint32_t dim) {
    CreateCollection options;
    options.dtype = dtype;
    options.dim = dim;
    options.build.metric = metric;
    const absl::Status status = Collection::Create(folder_, options);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::shared_ptr<Collection> MustOpen(const OpenCollection& options = {.merges = false}) {
    auto opened = Collection::Open(folder_, options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *opened : nullptr;
  }
  std::string WhyNot(const OpenCollection& options = {.merges = false}) {
    const auto opened = Collection::Open(folder_, options);
    return opened.ok() ? "it opened" : opened.status().ToString();
  }
  void Sql(const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ + "/journal.sqlite").c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  SampleFolder parent_;
  const std::string folder_ = parent_ / "c.live";
};

TEST_F(RefusalTest, Vectors) {
  Create(DType::kF32, Metric::kCosine, 3);
  const auto collection = MustOpen();
  const auto why = [&](std::vector<float> vector, std::uint64_t label = 5) {
    WriteBatch batch;
    const std::vector<float> good = {1, 2, 3};
    batch.Put(1, good.data(), 12);
    batch.Put(label, vector.data(), vector.size() * 4);
    return Message(collection->Write(batch).status());
  };
  EXPECT_THAT(why({1, 2}),
              AllOf(HasSubstr("row 1 (label 5)"), HasSubstr("8 bytes, expected 3 x f32")));
  EXPECT_THAT(why({1, NAN, 3}), AllOf(HasSubstr("row 1 (label 5)"), HasSubstr("component 1")));
  EXPECT_THAT(why({0, 0, 0}), AllOf(HasSubstr("row 1 (label 5)"), HasSubstr("zero")));
  EXPECT_THAT(why({1, 2, 3}, ~std::uint64_t{0}), HasSubstr("2^64 - 1 is no label"));
  EXPECT_EQ(collection->info().live, 0u);
  EXPECT_EQ(collection->info().sequence, 0u);
}

TEST_F(RefusalTest, OfALabelTwiceTheLastCounts) {
  Create(DType::kU8, Metric::kL2, 4);
  const auto collection = MustOpen();
  WriteBatch batch;
  batch.Put(7, "\1\1\1\1", 4);
  batch.Delete(8);
  batch.Put(7, "\2\2\2\2", 4);
  batch.Put(8, "\3\3\3\3", 4);
  batch.Put(9, "\3\3\3\3", 4);
  batch.Delete(9);
  ASSERT_TRUE(collection->Write(batch).ok());
  std::string found(8, 'x');
  const std::vector<std::uint64_t> labels = {7, 8};
  CollectionSearcher reader;
  ASSERT_TRUE(reader.Get(*collection->Now(), labels, found.data()).ok());
  EXPECT_EQ(found, "\2\2\2\2\3\3\3\3");
  const std::uint64_t nine = 9;
  EXPECT_THAT(Message(reader.Get(*collection->Now(), {&nine, 1}, found.data())),
              HasSubstr("label 9: no vector"));
  EXPECT_EQ(collection->info().live, 2u);
}

TEST_F(RefusalTest, DeletesOfWhatIsNotThereTakeNoRoom) {
  Create(DType::kU8, Metric::kL2, 4);
  const auto collection = MustOpen();
  for (std::uint64_t first = 0; first < 1'000'000; first += 50'000) {
    WriteBatch batch;
    for (std::uint64_t i = 0; i < 50'000; ++i) batch.Delete(first + i);
    const auto written = collection->Write(batch);
    ASSERT_TRUE(written.ok());
    EXPECT_EQ(written->rows, 0u);
  }
  EXPECT_EQ(collection->info().sequence, 0u);
  EXPECT_LT(collection->info().journal_bytes, 100'000u);
}

TEST_F(RefusalTest, ADeltaThatIsFullSaysWhatToDo) {
  Create(DType::kU8, Metric::kL2, 4);
  const auto collection = MustOpen({.delta_bytes = 200'000, .merges = false});
  absl::Status status;
  std::uint64_t label = 0;
  while (status.ok() && label < 10'000) {
    WriteBatch batch;
    batch.Put(label++, "\1\2\3\4", 4);
    status = collection->Write(batch).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("hmann compact"), HasSubstr("delta-memory")));
  EXPECT_EQ(collection->info().live, label - 1);
  WriteBatch deletion;
  deletion.Delete(0);
  EXPECT_TRUE(collection->Write(deletion).ok());
}

/// Bits say how many rows of a sealed index live; an index of that size is not needed.
TEST_F(RefusalTest, RowsThatNoIndexCanHold) {
  Moment moment;
  moment.shape = std::make_shared<CollectionShape>();
  moment.sealed.segment = std::make_shared<Segment>(nullptr, "sealed");
  moment.sealed.live = std::make_shared<Matches>(
      Matches::All(2'147'483'646, 0).Without(std::vector<std::uint32_t>{7}));
  EXPECT_EQ(moment.live(), 2'147'483'645u);
  EXPECT_TRUE(moment.CheckLive(2).ok());
  const absl::Status status = moment.CheckLive(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("at most 2147483647 vectors"));
  moment.tail = Tail(64);
  const std::vector<std::byte> row(4);
  for (std::uint64_t label = 0; label < 2; ++label)
    ASSERT_TRUE(moment.tail.Append(label, row, {}).ok());
  EXPECT_TRUE(moment.CheckLive(0).ok());
  EXPECT_FALSE(moment.CheckLive(1).ok());
}

TEST_F(RefusalTest, Folders) {
  EXPECT_THAT(WhyNot(), HasSubstr("NOT_FOUND"));
  EXPECT_FALSE(Collection::Is(folder_));
  Create(DType::kU8, Metric::kL2, 4);
  EXPECT_TRUE(Collection::Is(folder_));
  EXPECT_EQ(Collection::Create(folder_, {.dim = 4}).code(), absl::StatusCode::kAlreadyExists);
  const auto collection = MustOpen();
  EXPECT_THAT(WhyNot(), HasSubstr("another process writes"));
  const auto reader = MustOpen({.read_only = true});
  WriteBatch batch;
  batch.Put(1, "\1\1\1\1", 4);
  EXPECT_THAT(Message(reader->Write(batch).status()), HasSubstr("opened for reading"));
  EXPECT_THAT(Message(Collection::Create(parent_ / "bad", {.dim = 0})), HasSubstr("dim"));
  EXPECT_FALSE(std::filesystem::exists(parent_ / "bad"));
}

TEST_F(RefusalTest, Manifests) {
  Create(DType::kU8, Metric::kL2, 4);
  const std::string path = folder_ + "/MANIFEST", text = FileContent(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    EXPECT_NE(changed.find(from), changed.npos);
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(path) << changed;
    return WhyNot();
  };
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("newer")));
  EXPECT_THAT(with("\"rows\": 0", "\"rows\": 5"),
              AllOf(HasSubstr("DATA_LOSS"), HasSubstr("MANIFEST names it")));
  EXPECT_THAT(with("\"dim\": 4", "\"dim\": -4"), AllOf(HasSubstr("DATA_LOSS"), HasSubstr("dim")));
  EXPECT_THAT(with("\"u8\"", "\"u9\""), AllOf(HasSubstr("DATA_LOSS"), HasSubstr("dtype")));
  for (const char* key : {"version", "rows", "dim"}) {
    EXPECT_THAT(with(absl::StrCat("\"", key, "\": "),
                     absl::StrCat("\"", key, "\": ", std::string(100'000, '['),
                                  std::string(100'000, ']'), ", \"x\": ")),
                HasSubstr("no JSON"));
  }
  EXPECT_THAT(with("{", "["), HasSubstr("no JSON"));
  std::ofstream(path) << text.substr(0, 100);
  EXPECT_THAT(WhyNot(), HasSubstr("no JSON"));
  std::filesystem::remove(path);
  EXPECT_THAT(WhyNot(), HasSubstr("NOT_FOUND"));
  std::ofstream(path) << text;
  MustOpen();
}

TEST_F(RefusalTest, AWriteIsSentAgain) {
  Create(DType::kU8, Metric::kL2, 4);
  auto collection = MustOpen();
  const auto put = [&](const char* vector, std::string_view operation) {
    WriteBatch batch;
    batch.Put(7, vector, 4);
    batch.Put(8, vector, 4);
    batch.SetOperation(operation);
    return collection->Write(batch);
  };
  const auto first = put("\1\1\1\1", "one");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(put("\2\2\2\2", "two").ok());
  const auto again = [&](const char* when) {
    const auto second = put("\1\1\1\1", "one");
    ASSERT_TRUE(second.ok()) << when << second.status();
    EXPECT_EQ(second->sequence, first->sequence) << when;
    EXPECT_EQ(second->rows, 2u) << when;
    EXPECT_EQ(collection->info().sequence, 2u) << when;
    const auto other = put("\3\3\3\3", "one");
    EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists) << when << other.status();
    std::string found(4, 'x');
    const std::uint64_t label = 7;
    ASSERT_TRUE(CollectionSearcher().Get(*collection->Now(), {&label, 1}, found.data()).ok());
    EXPECT_EQ(found, "\2\2\2\2") << when;
  };
  again("at once");
  collection.reset();
  collection = MustOpen();
  again("opened again");
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(collection->Compact(quiet).ok());
  again("merged");
  EXPECT_THAT(Message(put("\1\1\1\1", std::string(65, 'x')).status()), HasSubstr("at most 64"));
}

/// Also if it changed nothing: what another client wrote in between stays.
TEST_F(RefusalTest, AnOperationIsRememberedWhateverItChanged) {
  Create(DType::kU8, Metric::kL2, 4);
  auto collection = MustOpen();
  const auto filter = Filter::Parse("year = 7"), other = Filter::Parse("year = 8");
  ASSERT_TRUE(filter.ok() && other.ok());
  const auto put = [&](std::uint64_t label, const char* attributes) {
    WriteBatch batch;
    batch.Put(label, "\1\1\1\1", 4, attributes);
    ASSERT_TRUE(collection->Write(batch).ok());
  };
  const auto label = [&](std::string_view operation) {
    WriteBatch batch;
    batch.Delete(777);
    batch.SetOperation(operation);
    return collection->Write(batch);
  };
  put(1, "{\"year\":1}");
  const auto again = [&](const char* when, std::uint64_t live) {
    for (const auto& written : {label("D"), collection->Delete(*filter, "F")}) {
      ASSERT_TRUE(written.ok()) << when << written.status();
      EXPECT_EQ(written->rows, 0u) << when;
      EXPECT_EQ(written->sequence, 1u) << when;
    }
    EXPECT_EQ(collection->info().live, live) << when;
  };
  again("at first", 1);
  put(777, "{\"year\":7}");
  again("another put came", 2);
  EXPECT_EQ(collection->Delete(*other, "F").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(collection->DeleteAll("D").status().code(), absl::StatusCode::kAlreadyExists);
  collection.reset();
  collection = MustOpen();
  again("opened again", 2);
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(collection->Compact(quiet).ok());
  again("merged", 2);
  ASSERT_EQ(collection->DeleteAll("A")->rows, 2u);
  put(5, "{}");
  EXPECT_EQ(collection->DeleteAll("A")->rows, 2u);
  EXPECT_EQ(collection->info().live, 1u);
  put(777, "{}");
  Sql("UPDATE named SET time = time - 604801");  // a week
  EXPECT_EQ(label("D")->rows, 1u);
  EXPECT_THAT(Message(collection->DeleteAll(std::string(65, 'x')).status()),
              HasSubstr("at most 64"));
}

TEST_F(RefusalTest, VectorsThatEveryMergeWouldRefuse) {
  Create(DType::kF32, Metric::kL2, 4);
  const auto collection = MustOpen();
  const auto put = [&](float x) {
    const std::vector<float> vector(4, x);
    WriteBatch batch;
    batch.Put(5, vector.data(), 16);
    return collection->Write(batch).status();
  };
  for (const float x : {1e-40F, 1e-30F, -1e-15F})
    EXPECT_THAT(Message(put(x)), AllOf(HasSubstr("row 0 (label 5)"), HasSubstr("do not vanish")));
  EXPECT_EQ(collection->info().live, 0u);
  for (const float x : {0.F, 1e-14F}) {
    EXPECT_TRUE(put(x).ok());
    Progress quiet(Progress::Show::kNever);
    EXPECT_TRUE(collection->Compact(quiet).ok()) << x;
  }
}

TEST_F(RefusalTest, FilesOfOthersStay) {
  Create(DType::kU8, Metric::kL2, 4);
  const std::vector<std::string> others = {"sealed-notes.txt",    "sealed-000001.hmann.bak",
                                           "sealed-1.hmann",      "sealed-0000001.hmann",
                                           "sealed-999999.hmann", "notes.tmp.txt",
                                           "a.tmp.1.0123",        "a.tmp.x.0123456789abcdef",
                                           "merge/notes.txt",     "merge/base.npy"};
  const std::vector<std::string> own = {"sealed-000000.hmann.tuned", "sealed-000002.hmann",
                                        "sealed-000002.hmann.attrs",
                                        "MANIFEST.tmp.1.0123456789abcdef"};
  std::filesystem::create_directories(folder_ + "/merge");
  for (const std::string& name : others) std::ofstream(folder_ + "/" + name) << name;
  Progress quiet(Progress::Show::kNever);
  {
    const auto collection = MustOpen();
    WriteBatch batch;
    for (std::uint64_t label = 0; label < 50; ++label) batch.Put(label, "\1\2\3\4", 4);
    ASSERT_TRUE(collection->Write(batch).ok());
    ASSERT_TRUE(collection->Compact(quiet).ok());
  }
  for (const std::string& name : own) std::ofstream(folder_ + "/" + name) << name;
  const auto collection = MustOpen();
  for (const std::string& name : others) EXPECT_EQ(FileContent(folder_ + "/" + name), name);
  EXPECT_THAT(collection->info().other_files,
              UnorderedElementsAreArray(others.begin(), others.end() - 2));
  for (const std::string& name : own) EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + name));
  EXPECT_TRUE(collection->Verify(quiet).ok());
}

/// SQLite takes a log that ends early as one of fewer writes.
TEST_F(RefusalTest, WritesThatWereLostAreSeen) {
  Create(DType::kU8, Metric::kL2, 4);
  Progress quiet(Progress::Show::kNever);
  auto collection = MustOpen();
  const auto put = [&] {
    WriteBatch batch;
    batch.Put(1, "\1\2\3\4", 4);
    ASSERT_TRUE(collection->Write(batch).ok());
  };
  const auto lost_in = [&](const std::string& folder, bool read_only) -> std::uint64_t {
    const auto opened = Collection::Open(folder, {.read_only = read_only, .merges = false});
    if (!opened.ok()) return 1000;
    const std::uint64_t lost = (*opened)->info().lost_writes;
    EXPECT_EQ((*opened)->Verify(quiet).ok(), lost == 0);
    return lost;
  };
  for (int i = 0; i < 3; ++i) put();
  const std::string copy = parent_ / "copy", cut = parent_ / "cut";
  std::filesystem::copy(folder_, copy, std::filesystem::copy_options::recursive);
  std::filesystem::copy(folder_, cut, std::filesystem::copy_options::recursive);
  const std::string log = cut + "/journal.sqlite-wal";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 100);
  EXPECT_EQ(lost_in(copy, false), 0u);
  EXPECT_EQ(lost_in(cut, true), 1u);
  EXPECT_EQ(lost_in(cut, false), 1u);
  EXPECT_EQ(lost_in(cut, false), 1u) << "opened again";
  std::filesystem::remove(cut + "/LOCK");
  EXPECT_EQ(lost_in(cut, false), 0u) << "accepted";
  // An older journal is brought back.
  collection.reset();
  const std::string journal = folder_ + "/journal.sqlite", older = parent_ / "older";
  std::filesystem::copy_file(journal, older);
  collection = MustOpen();
  for (int i = 0; i < 5; ++i) put();
  collection.reset();
  std::filesystem::copy_file(older, journal, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(lost_in(folder_, false), 5u);
}

TEST_F(RefusalTest, Journals) {
  Create(DType::kU8, Metric::kL2, 4);
  {
    const auto collection = MustOpen();
    for (std::uint64_t label = 0; label < 5; ++label) {
      WriteBatch batch;
      batch.Put(label, "\1\2\3\4", 4);
      ASSERT_TRUE(collection->Write(batch).ok());
    }
  }
  const std::string copy = parent_ / "copy.sqlite", path = folder_ + "/journal.sqlite";
  std::filesystem::copy_file(path, copy);
  const auto restore = [&] {
    std::filesystem::copy_file(copy, path, std::filesystem::copy_options::overwrite_existing);
  };
  Sql("DELETE FROM writes WHERE seq = 3");
  EXPECT_THAT(WhyNot(),
              AllOf(HasSubstr("DATA_LOSS"), HasSubstr("write 3: expected, found write 4")));
  restore();
  Sql("UPDATE writes SET vectors = x'01020305' WHERE seq = 4");
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("write 4"), HasSubstr("checksum"),
                              HasSubstr("all before it is safe")));
  restore();
  // A kind of change that this version does not know, with a checksum that matches.
  const std::uint64_t label = 3, none = Checksum("", 0);
  const std::uint64_t parts[9] = {4, 8,   Checksum(&label, 8), 1, Checksum("\2", 1), 0, none,
                                  0, none};
  Sql(absl::StrCat("UPDATE writes SET puts = x'02', vectors = x'', checksum = ",
                   static_cast<std::int64_t>(Checksum(parts, sizeof(parts))), " WHERE seq = 4")
          .c_str());
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("write 4"), HasSubstr("bytes other than 0 and 1")));
  restore();
  Sql("UPDATE meta SET version = 2");
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("newer")));
  restore();
  Sql("UPDATE meta SET id = 'another'");
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("belongs to")));
  restore();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4096);
  EXPECT_THAT(WhyNot(), HasSubstr("DATA_LOSS"));
  std::filesystem::resize_file(path, 50);
  EXPECT_THAT(WhyNot(), HasSubstr("DATA_LOSS"));
  std::filesystem::remove(path);
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("NOT_FOUND"), HasSubstr("journal.sqlite")));
  restore();
  EXPECT_EQ(MustOpen()->info().live, 5u);
}

/// A byte of the journal is flipped: it opens with all rows, or is refused by name.
TEST_F(RefusalTest, FlippedBytesOfTheJournal) {
  Create(DType::kU8, Metric::kL2, 4);
  {
    const auto collection = MustOpen();
    WriteBatch batch;
    for (std::uint64_t label = 0; label < 200; ++label) batch.Put(label, "\1\2\3\4", 4);
    ASSERT_TRUE(collection->Write(batch).ok());
  }
  const std::string path = folder_ + "/journal.sqlite", text = FileContent(path);
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    std::string changed = text;
    changed[random() % text.size()] ^= static_cast<char>(1u << (random() % 8));
    std::ofstream(path, std::ios::binary) << changed;
    const auto opened = Collection::Open(folder_, {.merges = false});
    if (opened.ok()) {
      EXPECT_EQ((*opened)->info().live, 200u);
    } else {
      EXPECT_THAT(Message(opened.status()), HasSubstr("journal.sqlite"));
    }
  }
}

TEST_F(RefusalTest, CompactedBytesAreNowhere) {
  Ledger ledger(folder_);
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(400, 300);
  ledger.Compact();
  const std::string secret = "sixteen bytes of";
  const auto count = [&] {
    int found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.is_regular_file())
        found += FileContent(entry.path()).find(secret) != std::string::npos ? 1 : 0;
    return found;
  };
  WriteBatch put, deletion;
  put.Put(1'000, secret.data(), secret.size());
  deletion.Delete(1'000);
  ASSERT_TRUE(ledger.collection().Write(put).ok());
  EXPECT_GE(count(), 1);
  ledger.Compact();
  EXPECT_GE(count(), 1);  // sealed
  ASSERT_TRUE(ledger.collection().Write(deletion).ok());
  EXPECT_GE(count(), 1);
  ledger.Compact();
  EXPECT_EQ(count(), 0);
  ASSERT_TRUE(ledger.collection().Write(put).ok());
  ASSERT_TRUE(ledger.collection().Write(deletion).ok());
  ledger.Compact();
  EXPECT_EQ(count(), 0);
}

TEST_F(RefusalTest, BackupsAndCopiesOpen) {
  Ledger ledger(folder_);
  ledger.Create({});
  ledger.Open();
  ledger.RandomWrites(500, 300);
  ledger.Compact();
  ledger.RandomWrites(100, 400);
  const auto sequence = ledger.collection().Backup(parent_ / "backup");
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(*sequence, ledger.info().sequence);
  EXPECT_EQ(ledger.collection().Backup(parent_ / "backup").status().code(),
            absl::StatusCode::kAlreadyExists);
  std::filesystem::copy(folder_, parent_ / "copy", std::filesystem::copy_options::recursive);
  for (const char* name : {"backup", "copy"}) {
    const auto opened = Collection::Open(parent_ / name, {.read_only = true, .merges = false});
    ASSERT_TRUE(opened.ok()) << name << opened.status();
    EXPECT_EQ((*opened)->info().live, ledger.info().live);
    EXPECT_EQ((*opened)->info().sequence, ledger.info().sequence);
    Progress quiet(Progress::Show::kNever);
    EXPECT_TRUE((*opened)->Verify(quiet).ok());
  }
}

}  // namespace
}  // namespace hmann
