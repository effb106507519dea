#include "index/collection/journal.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "hmann/collection.h"
#include "index/base/checksum.h"
#include "index/base/errors.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

constexpr int kJournalVersion = 1;
/// Tables that came later than the first journals.
constexpr char kLaterTables[] =
    "CREATE TABLE IF NOT EXISTS names(label INTEGER PRIMARY KEY, name TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS named(number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,"
    " seq INTEGER NOT NULL, rows INTEGER NOT NULL, digest INTEGER NOT NULL,"
    " time INTEGER NOT NULL);";
/// How many writes are remembered by name, and how many seconds: guesses. They take some
/// 15 MB.
constexpr std::uint64_t kOperations = 100'000, kOperationSeconds = 7 * 86'400;

std::uint64_t Seconds() { return static_cast<std::uint64_t>(std::time(nullptr)); }

absl::Status StatusOf(int code, const std::string& message) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return ResourceExhausted(message, ": free space on the disk");
    case SQLITE_NOMEM:
      return ResourceExhausted(message);
    case SQLITE_CANTOPEN:
      return NotFound(message);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::PermissionDeniedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Unavailable(message, ": another process uses it: try again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DataLoss(message, ": restore a backup; the sealed index is safe without it");
    default:
      return Internal(message);
  }
}

/// Numbers and attributes of a write as a checksum covers them.
std::uint64_t ChecksumOf(std::uint64_t seq, std::string_view labels, std::string_view puts,
                         std::string_view vectors, std::string_view attributes) {
  std::uint64_t parts[9] = {seq};
  std::size_t i = 1;
  for (const std::string_view part : {labels, puts, vectors, attributes}) {
    parts[i++] = part.size();
    parts[i++] = Checksum(part.data(), part.size());
  }
  return Checksum(parts, sizeof(parts));
}

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

/// What SQLite adds to the columns of a write, and to a name: guesses.
constexpr std::uint64_t kRowOfWrites = 64, kRowOfNames = 32;

std::uint64_t JournalEntry::bytes() const {
  std::uint64_t bytes = kRowOfWrites + labels.size() * 9 + vectors.size();
  for (const std::string& text : attributes) bytes += text.size() + 1;
  for (const auto& [label, name] : names) bytes += name.size() + kRowOfNames;
  return bytes;
}

/// A statement of SQL with its values, for one use.
class Journal::Statement {
 public:
  Statement(const Journal& journal, const char* sql) : journal_(journal) {
    sqlite3_stmt* statement = nullptr;
    code_ = sqlite3_prepare_v2(journal.db_, sql, -1, &statement, nullptr);
    statement_.reset(statement);
  }

  /// Makes it ready for other values.
  Statement& Again() {
    sqlite3_reset(statement_.get());
    bound_ = 0;
    return *this;
  }
  Statement& Bind(std::uint64_t value) {
    if (code_ == SQLITE_OK)
      code_ = sqlite3_bind_int64(statement_.get(), ++bound_, static_cast<sqlite3_int64>(value));
    return *this;
  }
  /// The text must outlive the statement.
  Statement& Bind(std::string_view value, bool is_text) {
    if (code_ != SQLITE_OK) return *this;
    const char* data = value.empty() ? "" : value.data();
    code_ = is_text ? sqlite3_bind_text64(statement_.get(), ++bound_, data, value.size(),
                                          SQLITE_STATIC, SQLITE_UTF8)
                    : sqlite3_bind_blob64(statement_.get(), ++bound_, data, value.size(),
                                          SQLITE_STATIC);
    return *this;
  }

  /// Whether there is another row.
  absl::StatusOr<bool> Step() {
    if (code_ == SQLITE_OK) code_ = sqlite3_step(statement_.get());
    if (code_ == SQLITE_ROW || code_ == SQLITE_DONE)
      return std::exchange(code_, SQLITE_OK) == SQLITE_ROW;
    return journal_.Error("");
  }
  absl::Status Run() { return Step().status(); }

  std::uint64_t Number(int column) const {
    return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
  }
  /// Valid until the next step.
  std::string_view Bytes(int column) const {
    const void* data = sqlite3_column_blob(statement_.get(), column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
    return data == nullptr ? std::string_view()
                           : std::string_view(static_cast<const char*>(data), size);
  }

 private:
  const Journal& journal_;
  std::unique_ptr<sqlite3_stmt, CloseStatement> statement_;
  int code_ = SQLITE_OK, bound_ = 0;
};

void Journal::CloseStatement::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Journal::~Journal() { sqlite3_close(db_); }

absl::Status Journal::Error(const char* what) const {
  const int code = db_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(db_);
  std::string message =
      absl::StrCat(path_, ": ", what, db_ == nullptr ? "out of memory" : sqlite3_errmsg(db_));
  if (db_ != nullptr && sqlite3_system_errno(db_) != 0 && (code & 0xff) == SQLITE_IOERR)
    absl::StrAppend(&message, " (", std::strerror(sqlite3_system_errno(db_)), ")");
  return StatusOf(code, message);
}

absl::Status Journal::Execute(const char* sql) const {
  return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus()
                                                                        : Error("");
}

absl::Status Journal::Create(const std::string& folder, const std::string& id,
                             const std::vector<AttributeField>& fields) {
  Journal journal;
  journal.path_ = PathIn(folder);
  if (sqlite3_open_v2(journal.path_.c_str(), &journal.db_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) != SQLITE_OK)
    return journal.Error("create: ");
  HMANN_RETURN_IF_ERROR(journal.Execute(
      "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN;"
      "CREATE TABLE meta(id TEXT NOT NULL, version INTEGER NOT NULL);"
      "CREATE TABLE fields(name TEXT PRIMARY KEY, type INTEGER NOT NULL) WITHOUT ROWID;"
      "CREATE TABLE writes(seq INTEGER PRIMARY KEY, labels BLOB NOT NULL, puts BLOB NOT NULL,"
      " vectors BLOB NOT NULL, attributes TEXT NOT NULL, checksum INTEGER NOT NULL);"));
  HMANN_RETURN_IF_ERROR(journal.Execute(kLaterTables));
  HMANN_RETURN_IF_ERROR(Statement(journal, "INSERT INTO meta VALUES(?, ?)")
                            .Bind(id, true)
                            .Bind(std::uint64_t{kJournalVersion})
                            .Run());
  HMANN_RETURN_IF_ERROR(journal.InsertAll(0, {}, fields));
  return journal.Execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);");
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& folder,
                                                       const std::string& id, bool read_only) {
  std::unique_ptr<Journal> journal(new Journal());
  journal->path_ = PathIn(folder);
  std::error_code error;
  if (!std::filesystem::exists(journal->path_, error))
    return NotFound(journal->path_, ": no such file: restore a backup of the folder");
  // On a disk that cannot be written, SQLite reads a journal that was closed cleanly.
  const std::string wal = journal->path_ + "-wal";
  const bool is_fixed = ::access(folder.c_str(), W_OK) != 0 && !std::filesystem::exists(wal, error);
  const std::string uri = absl::StrCat(
      "file:", absl::StrReplaceAll(journal->path_, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}}),
      is_fixed ? "?immutable=1" : "");
  const int flags = SQLITE_OPEN_URI | (is_fixed ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
  if (sqlite3_open_v2(uri.c_str(), &journal->db_, flags, nullptr) != SQLITE_OK)
    return journal->Error("open: ");
  sqlite3_busy_timeout(journal->db_, 10'000);
  // A cache of 8 MiB and a log of 16 MiB, or of one transaction: guesses.
  HMANN_RETURN_IF_ERROR(
      journal->Execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"
                       "PRAGMA cache_size=-8192;"));
  HMANN_RETURN_IF_ERROR(journal->CheckMeta(id));
  if (read_only) {
    HMANN_RETURN_IF_ERROR(journal->Execute("PRAGMA query_only=ON;"));
  } else {
    HMANN_RETURN_IF_ERROR(
        journal->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                         "PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint=4096;"
                         "PRAGMA journal_size_limit=16777216;"));
    HMANN_RETURN_IF_ERROR(journal->Execute(kLaterTables));
    HMANN_RETURN_IF_ERROR(journal->TakeOver());
  }
  return journal;
}

absl::Status Journal::TakeOver() const {
  HMANN_ASSIGN_OR_RETURN(const std::uint64_t has,
                         Ask("SELECT count(*) FROM sqlite_schema WHERE name = 'operations'"));
  if (has == 0) return absl::OkStatus();
  HMANN_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  return End(
      Execute("INSERT OR IGNORE INTO named(id, seq, rows, digest, time) SELECT id, seq, rows, "
              "digest, strftime('%s', 'now') FROM operations ORDER BY seq; DROP TABLE operations"));
}

absl::Status Journal::CheckMeta(const std::string& id) const {
  Statement meta(*this, "SELECT version, id FROM meta");
  HMANN_ASSIGN_OR_RETURN(const bool found, meta.Step());
  if (!found) return DataLoss(path_, ": table meta is empty: restore a backup of the folder");
  if (meta.Number(0) > kJournalVersion) {
    return Unimplemented(path_, ": is of version ", meta.Number(0), ", this program reads ",
                         kJournalVersion, ": use a newer hmann");
  }
  if (std::string(meta.Bytes(1)) != id) {
    return FailedPrecondition(path_, ": belongs to the collection ", std::string(meta.Bytes(1)),
                              ", the folder is ", id, ": bring its own journal back");
  }
  return absl::OkStatus();
}

absl::Status Journal::InsertAll(std::uint64_t first, std::span<const JournalEntry* const> entries,
                                std::span<const AttributeField> fields) const {
  for (const AttributeField& field : fields) {
    HMANN_RETURN_IF_ERROR(Statement(*this, "INSERT OR IGNORE INTO fields VALUES(?, ?)")
                              .Bind(field.name, true)
                              .Bind(static_cast<std::uint64_t>(field.type))
                              .Run());
  }
  Statement insert(*this, "INSERT INTO writes VALUES(?, ?, ?, ?, ?, ?)");
  for (const JournalEntry* entry : entries) {
    if (entry->labels.empty()) {  // a write that is remembered, and changed nothing
      HMANN_RETURN_IF_ERROR(Remember(*entry, first - 1));
      continue;
    }
    const std::string attributes = absl::StrJoin(entry->attributes, "\n");
    const std::string_view labels = BytesOf(entry->labels), puts = BytesOf(entry->puts),
                           vectors = BytesOf(entry->vectors);
    HMANN_RETURN_IF_ERROR(insert.Again()
                              .Bind(first)
                              .Bind(labels, false)
                              .Bind(puts, false)
                              .Bind(vectors, false)
                              .Bind(attributes, true)
                              .Bind(ChecksumOf(first, labels, puts, vectors, attributes))
                              .Run());
    for (const auto& [label, name] : entry->names) {
      HMANN_RETURN_IF_ERROR(Statement(*this, "INSERT OR IGNORE INTO names VALUES(?, ?)")
                                .Bind(label)
                                .Bind(name, true)
                                .Run());
    }
    if (!entry->operation.empty()) HMANN_RETURN_IF_ERROR(Remember(*entry, first));
    ++first;
  }
  return absl::OkStatus();
}

absl::Status Journal::Remember(const JournalEntry& entry, std::uint64_t seq) const {
  HMANN_RETURN_IF_ERROR(Statement(*this,
                                  "INSERT OR REPLACE INTO named(id, seq, rows, digest, time) "
                                  "VALUES(?, ?, ?, ?, ?)")
                            .Bind(entry.operation, false)
                            .Bind(seq)
                            .Bind(std::uint64_t{entry.labels.size()})
                            .Bind(entry.digest)
                            .Bind(Seconds())
                            .Run());
  return Statement(*this, "DELETE FROM named WHERE number + ? <= (SELECT max(number) FROM named)")
      .Bind(kOperations)
      .Run();
}

absl::Status Journal::Append(std::uint64_t first, std::span<const JournalEntry* const> entries,
                             std::span<const AttributeField> fields) {
  const std::scoped_lock lock(mutex_);
  HMANN_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  return End(InsertAll(first, entries, fields));
}

absl::Status Journal::End(absl::Status status) const {
  if (status.ok()) status = Execute("COMMIT");
  if (!status.ok() && sqlite3_get_autocommit(db_) == 0) Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::StatusOr<std::vector<AttributeField>> Journal::Fields() const {
  const std::scoped_lock lock(mutex_);
  std::vector<AttributeField> fields;
  Statement rows(*this, "SELECT name, type FROM fields");
  while (true) {
    HMANN_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return fields;
    const std::uint64_t type = rows.Number(1);
    if (type < 1 || type > 6) return DataLoss(path_, ": fields: no type has number ", type);
    fields.push_back({std::string(rows.Bytes(0)), static_cast<AttributeType>(type)});
  }
}

absl::Status Journal::ForEach(std::uint64_t after, std::size_t vector_bytes,
                              const Visit& visit) const {
  const std::scoped_lock lock(mutex_);
  Statement rows(*this,
                 "SELECT seq, labels, puts, vectors, attributes, checksum FROM writes "
                 "WHERE seq > ? ORDER BY seq");
  rows.Bind(after);
  for (std::uint64_t expected = after + 1;; ++expected) {
    HMANN_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    const std::uint64_t seq = rows.Number(0);
    const std::string_view labels = rows.Bytes(1), puts = rows.Bytes(2), vectors = rows.Bytes(3),
                           attributes = rows.Bytes(4);
    const auto damaged = [&](const auto&... what) {
      return DataLoss(path_, ": write ", expected, ": ", what..., ": all before it is safe");
    };
    if (seq != expected) return damaged("expected, found write ", seq);
    if (ChecksumOf(seq, labels, puts, vectors, attributes) != rows.Number(5))
      return damaged("its checksum does not match");
    JournalRow row;
    row.puts = puts;
    row.vectors = vectors;
    const auto count = static_cast<std::size_t>(std::count(puts.begin(), puts.end(), '\1'));
    if (puts.find_first_not_of(std::string_view("\0\1", 2)) != puts.npos)
      return damaged("puts has bytes other than 0 and 1");
    if (labels.size() != puts.size() * sizeof(std::uint64_t) ||
        vectors.size() != count * vector_bytes)
      return damaged("its parts do not fit each other");
    row.labels.resize(puts.size());
    std::memcpy(row.labels.data(), labels.data(), labels.size());
    row.bytes = kRowOfWrites + labels.size() + puts.size() + vectors.size() + attributes.size();
    for (const absl::string_view line :
         absl::StrSplit(absl::string_view(attributes.data(), attributes.size()), '\n')) {
      if (!attributes.empty()) row.attributes.emplace_back(line.data(), line.size());
    }
    if (!row.attributes.empty() && row.attributes.size() != count)
      return damaged("has attributes of ", row.attributes.size(), " rows, not ", count);
    HMANN_RETURN_IF_ERROR(visit(seq, row));
  }
}

absl::Status Journal::ReadLabels(std::uint64_t* after, std::vector<std::uint64_t>* labels) const {
  constexpr std::size_t kAtOnce = 1 << 20;
  const std::scoped_lock lock(mutex_);
  Statement rows(*this, "SELECT seq, labels FROM writes WHERE seq > ? ORDER BY seq");
  rows.Bind(*after);
  labels->clear();
  while (true) {
    HMANN_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more || labels->size() >= kAtOnce) return absl::OkStatus();
    const std::string_view bytes = rows.Bytes(1);
    const std::size_t old = labels->size(), size = bytes.size() / sizeof(std::uint64_t);
    labels->resize(old + size);
    std::memcpy(labels->data() + old, bytes.data(), size * sizeof(std::uint64_t));
    *after = rows.Number(0);
  }
}

absl::StatusOr<std::string> Journal::Name(std::uint64_t label) const {
  const std::scoped_lock lock(mutex_);
  Statement row(*this, "SELECT name FROM names WHERE label = ?");
  HMANN_ASSIGN_OR_RETURN(const bool found, row.Bind(label).Step());
  if (!found) return std::string();
  std::string name(row.Bytes(0));
  if (VectorLabel(name).number() == label) return name;
  return DataLoss(path_, ": names: label ", label, " is not that of its string: restore a backup");
}

absl::StatusOr<std::optional<Journal::Recorded>> Journal::Operation(std::string_view id) const {
  const std::scoped_lock lock(mutex_);
  Statement row(*this, "SELECT seq, rows, digest FROM named WHERE id = ? AND time >= ?");
  row.Bind(id, false).Bind(Seconds() - kOperationSeconds);
  HMANN_ASSIGN_OR_RETURN(const bool found, row.Step());
  if (!found) return std::nullopt;
  return Recorded{{.sequence = row.Number(0), .rows = row.Number(1)}, row.Number(2)};
}

absl::Status Journal::EraseNames(std::span<const std::uint64_t> labels) {
  if (labels.empty()) return absl::OkStatus();
  const std::scoped_lock lock(mutex_);
  HMANN_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  Statement erase(*this, "DELETE FROM names WHERE label = ?");
  absl::Status status;
  for (std::size_t i = 0; i < labels.size() && status.ok(); ++i)
    status = erase.Again().Bind(labels[i]).Run();
  return End(std::move(status));
}

absl::StatusOr<std::uint64_t> Journal::Last() const {
  const std::scoped_lock lock(mutex_);
  return Ask("SELECT max(seq) FROM writes");
}

absl::Status Journal::Prune(std::uint64_t covered) {
  // Writers wait for a step, and its zeros go through the log.
  constexpr std::uint64_t kStepBytes = 8 << 20;
  for (std::uint64_t last = 1; last > 0;) {
    const std::scoped_lock lock(mutex_);
    Statement sizes(*this,
                    "SELECT seq, length(vectors) + length(attributes) + length(labels) FROM writes "
                    "WHERE seq <= ? ORDER BY seq LIMIT 4096");
    sizes.Bind(covered);
    last = 0;
    for (std::uint64_t bytes = 0; bytes < kStepBytes; bytes += sizes.Number(1)) {
      HMANN_ASSIGN_OR_RETURN(const bool more, sizes.Step());
      if (!more) break;
      last = sizes.Number(0);
    }
    sizes.Again();
    HMANN_RETURN_IF_ERROR(Statement(*this, "DELETE FROM writes WHERE seq <= ?").Bind(last).Run());
  }
  {
    const std::scoped_lock lock(mutex_);
    HMANN_RETURN_IF_ERROR(Statement(*this, "DELETE FROM named WHERE time < ?")
                              .Bind(Seconds() - kOperationSeconds)
                              .Run());
    // A journal that an earlier program made keeps its free pages.
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t mode, Ask("PRAGMA auto_vacuum"));
    if (mode != 2) HMANN_RETURN_IF_ERROR(Execute("PRAGMA auto_vacuum=INCREMENTAL; VACUUM"));
  }
  for (std::uint64_t before = ~std::uint64_t{0}, free = before - 1; free > 0 && free < before;) {
    const std::scoped_lock lock(mutex_);
    before = free;
    HMANN_RETURN_IF_ERROR(Execute("PRAGMA incremental_vacuum(2048)"));
    HMANN_ASSIGN_OR_RETURN(free, Ask("PRAGMA freelist_count"));
  }
  const std::scoped_lock lock(mutex_);
  return Execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

absl::StatusOr<std::uint64_t> Journal::Ask(const char* sql) const {
  Statement statement(*this, sql);
  HMANN_RETURN_IF_ERROR(statement.Step().status());
  return statement.Number(0);
}

absl::Status Journal::CopyTo(const std::string& path) const {
  const std::scoped_lock lock(mutex_);
  return Statement(*this, "VACUUM INTO ?").Bind(path, true).Run();
}

absl::Status Journal::CheckPages() const {
  const std::scoped_lock lock(mutex_);
  Statement check(*this, "PRAGMA integrity_check(1)");
  HMANN_ASSIGN_OR_RETURN(const bool found, check.Step());
  const std::string words = found ? std::string(check.Bytes(0)) : "no answer";
  return words == "ok" ? absl::OkStatus() : DataLoss(path_, ": ", words);
}

std::uint64_t Journal::bytes() const {
  std::uint64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path_ + suffix, error);
    bytes += error ? 0 : size;
  }
  return bytes;
}

}  // namespace hmann
