#include "tools/write_target.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "tools/collection_writer.h"
#include "tools/connect_flags.h"
#include "tools/flags.h"
#include "tools/interrupt.h"

namespace hmann::tools {
namespace {

class FolderTarget : public WriteTarget {
 public:
  FolderTarget(std::string folder, std::shared_ptr<Collection> collection)
      : folder_(std::move(folder)), collection_(std::move(collection)) {}

  absl::StatusOr<Facts> facts() override {
    const CollectionInfo info = collection_->info();
    return Facts{info.dtype, info.dim, info.sequence, info.live,
                 info.delta_rows + info.sealed_dead};
  }
  absl::StatusOr<Written> Write(const WriteBatch& batch) override {
    return collection_->Write(batch);
  }
  absl::Status MakeRoom(const std::atomic<bool>& interrupted) override {
    Progress merging;
    return collection_->Compact(merging, &interrupted);
  }
  int most_tries() const override { return 1; }
  absl::StatusOr<Written> DeleteMatching(const std::string& text, bool all) override {
    if (text.empty()) return collection_->DeleteAll();
    HMANN_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(text));
    const std::shared_ptr<const Moment> now = collection_->Now();
    HMANN_ASSIGN_OR_RETURN(const auto prepared, Prepare(now, {.k = 1}, &filter));
    const std::uint64_t live = LiveRows(*now);
    if (live > 0 && MatchingRows(*prepared) == live && !all) {
      return FailedPrecondition(folder_, ": the filter holds for all ", live,
                                " vectors: with --all they are deleted");
    }
    return collection_->Delete(filter);
  }

 private:
  const std::string folder_;
  const std::shared_ptr<Collection> collection_;
};

class ServerTarget : public WriteTarget {
 public:
  ServerTarget(std::string name, client::Client client)
      : name_(std::move(name)), client_(std::move(client)) {}

  absl::StatusOr<Facts> facts() override {
    HMANN_ASSIGN_OR_RETURN(const client::IndexDescription info, client_.Describe(name_));
    if (!info.collection.has_value()) {
      return FailedPrecondition(name_, ": the server has an index of this name, which does not ",
                                "change: `hmann create --from` makes a collection of it");
    }
    constexpr std::uint64_t kRest = 64 << 10;  // name, lengths
    return Facts{info.dtype,
                 info.dim,
                 info.collection->sequence,
                 info.n,
                 info.collection->delta_rows + info.collection->dead_rows,
                 info.limits.max_batch,
                 info.limits.max_request_bytes - kRest};
  }

  /// All changes of a batch are of one kind.
  absl::StatusOr<Written> Write(const WriteBatch& batch) override {
    std::vector<std::uint64_t> labels;
    std::vector<std::string> names, attributes;
    std::vector<std::byte> vectors;
    bool has_attributes = false;
    for (const bool is_string : {false, true}) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const WriteBatch::View change = batch.At(i);
        if (change.name.has_value() != is_string) continue;
        if (is_string) {
          names.emplace_back(*change.name);
        } else {
          labels.push_back(change.label);
        }
        vectors.insert(vectors.end(), change.vector.begin(), change.vector.end());
        has_attributes |= !change.attributes.empty();
        attributes.emplace_back(change.attributes);
      }
    }
    const client::Rows rows{labels, names};
    const client::CallOptions call{.deadline = std::chrono::minutes(1)};
    absl::StatusOr<client::Written> written;
    switch (batch.At(0).kind) {
      case WriteBatch::Kind::kPut:
        if (!has_attributes) attributes.clear();
        written = client_.Put(name_, rows, client::Vectors::Raw(vectors), attributes, call);
        break;
      case WriteBatch::Kind::kUpdate:
        written = client_.Update(name_, rows, attributes, call);
        break;
      case WriteBatch::Kind::kDelete:
        written = client_.Delete(name_, rows, call);
        break;
    }
    HMANN_RETURN_IF_ERROR(written.status());
    return Written{written->sequence, written->rows};
  }

  absl::Status MakeRoom(const std::atomic<bool>& interrupted) override {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return interrupted ? absl::CancelledError("stopped") : absl::OkStatus();
  }
  int most_tries() const override { return 600; }  // ten minutes: a guess

  absl::StatusOr<Written> DeleteMatching(const std::string& filter, bool all) override {
    HMANN_ASSIGN_OR_RETURN(
        const client::Written written,
        client_.DeleteMatching(name_, all,
                               {.deadline = std::chrono::minutes(1), .filter = Given(filter)}));
    return Written{written.sequence, written.rows};
  }

 private:
  const std::string name_;
  client::Client client_;
};

}  // namespace

void AddTargetFlags(CLI::App& app, TargetFlags* flags) {
  app.add_option("COLLECTION", flags->name, "folder of the collection, or its name on --server")
      ->required();
  app.add_option("--server", flags->server, "HOST:PORT of a server that serves the collection");
  AddConnectFlags(app, &flags->connect);
}

absl::StatusOr<std::unique_ptr<WriteTarget>> WriteTarget::Open(const TargetFlags& flags) {
  if (!flags.server.empty()) {
    HMANN_ASSIGN_OR_RETURN(client::Client client,
                           client::Client::Connect(flags.server, flags.connect));
    return std::make_unique<ServerTarget>(flags.name, std::move(client));
  }
  Progress progress;
  HMANN_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                         OpenFolder(flags.name, {.merges = false, .merge_threads = 0}, progress));
  return std::make_unique<FolderTarget>(flags.name, std::move(collection));
}

CollectionWriter::CollectionWriter(WriteTarget& target, const WriteTarget::Facts& facts,
                                   std::string from, std::uint64_t first, std::uint64_t total,
                                   std::size_t rows_a_write)
    : target_(target),
      from_(std::move(from)),
      first_(first),
      total_(total),
      rows_a_write_(std::min<std::uint64_t>(rows_a_write, facts.most_rows)),
      most_bytes_(facts.most_bytes),
      interrupted_(*CancelOnInterrupt()) {
  progress_.Start("write", total, "rows");
}

absl::StatusOr<WriteBatch*> CollectionWriter::Room(std::size_t bytes) {
  if (batch_.size() == rows_a_write_ || bytes_ + bytes > most_bytes_)
    HMANN_RETURN_IF_ERROR(Flush());
  bytes_ += bytes;
  return &batch_;
}

absl::Status CollectionWriter::Flush() {
  if (batch_.size() == 0) return absl::OkStatus();
  const absl::StatusOr<Written> written = interrupted_ ? absl::CancelledError("stopped") : Write();
  if (!written.ok()) {
    return {written.status().code(),
            absl::StrCat(from_, "s ", first_ + done_, " to ", first_ + done_ + batch_.size() - 1,
                         ": ", written.status().message(), "; ", done_, " of ", total_,
                         " changes are in: the same command may be run again")};
  }
  done_ += batch_.size();
  rows_ += written->rows;
  progress_.Advance(batch_.size());
  if (done_ == total_) progress_.Finish();
  batch_ = {};
  bytes_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<Written> CollectionWriter::Write() {
  for (int tries = 0;; ++tries) {
    absl::StatusOr<Written> written = target_.Write(batch_);
    if (!absl::IsResourceExhausted(written.status()) || tries == target_.most_tries())
      return written;
    HMANN_RETURN_IF_ERROR(target_.MakeRoom(interrupted_));
  }
}

}  // namespace hmann::tools
