// An hmann server behind the protocol. Build settings: {"server": "127.0.0.1:50051",
// "index": NAME}, and "tls", "ca_file", "certificate_file", "key_file", "token_file", as
// for `hmann query`. Settings: parameters. Each searching thread has its own connection;
// with several queries in flight it uses a SearchStream.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "eval/adapters/adapter.h"
#include "eval/adapters/ladder.h"
#include "eval/adapters/requested_params.h"
#include "hmann/client.h"
#include "index/base/status_macros.h"
#include "index/params/params_json.h"

namespace hmann::eval {
namespace {

using client::Client;

class ServerAdapter : public Adapter {
 public:
  std::string Describe() const override {
    return absl::StrCat("hmann server ", address_, ", index ", index_);
  }

  nlohmann::json DefaultSettings() const override { return settings_; }

  absl::StatusOr<std::optional<BuildFigures>> OpenFinished(const AdapterInput& job) override {
    HMANN_RETURN_IF_ERROR(CheckKeys(job.build, {"server", "index", "tls", "ca_file",
                                                "certificate_file", "key_file", "token_file"}));
    absl::Status status;
    JsonReader reader(job.build, "setting ", absl::StatusCode::kInvalidArgument, &status);
    reader.Text("server", &address_);
    reader.Text("index", &index_);
    connect_.own_connection = true;
    connect_.retry = false;
    connect_.tls = job.build.value("tls", nlohmann::json()) == true;
    for (const auto& [key, value] : {std::pair("ca_file", &connect_.ca_file),
                                     {"certificate_file", &connect_.certificate_file},
                                     {"key_file", &connect_.key_file},
                                     {"token_file", &connect_.token_file}}) {
      if (job.build.contains(key)) reader.Text(key, value);
    }
    HMANN_RETURN_IF_ERROR(status);
    HMANN_RETURN_IF_ERROR(MakeClients(1));
    HMANN_RETURN_IF_ERROR(clients_[0].WaitReady(index_));
    HMANN_ASSIGN_OR_RETURN(const client::IndexDescription index, clients_[0].Describe(index_));
    const bool drive =
        std::any_of(index.placements.begin(), index.placements.end(), [](const auto& placement) {
          return placement.structure == "l0" && placement.tier.starts_with("nvme");
        });
    settings_ = Ladder(index.metric == Metric::kInnerProduct, index.codes.bits > 0, drive);
    return BuildFigures{{"index_bytes", index.file_bytes}};
  }

  bool Waits() const override { return true; }

  absl::Status Prepare(const VectorFile& queries) override {
    row_bytes_ = queries.row_bytes();
    queries_ = CopyRows(queries);
    return absl::OkStatus();
  }

  absl::Status Set(const nlohmann::json& setting) override {
    HMANN_ASSIGN_OR_RETURN(search_, RequestedParams(setting));
    return absl::OkStatus();
  }

  absl::Status SetShape(const RunShape& shape) override {
    in_flight_ = static_cast<std::uint64_t>(shape.in_flight);
    return MakeClients(static_cast<std::size_t>(shape.threads));
  }

  absl::Status Search(const RunShare& share) override {
    if (in_flight_ > 1) return Stream(share);
    for (std::uint64_t q = share.begin; q < share.end; ++q) {
      const QueryTimer timer(share, q);
      HMANN_ASSIGN_OR_RETURN(const client::Answer answer, Call(share, q, {}));
      Store(answer, share, q);
    }
    return absl::OkStatus();
  }

  bool CanCount() const override { return true; }
  absl::StatusOr<nlohmann::json> Count(const RunShare& all) override {
    Counters sum;
    for (std::uint64_t q = 0; q < all.end; ++q) {
      HMANN_ASSIGN_OR_RETURN(const client::Answer answer, Call(all, q, {.counters = true}));
      if (answer.counters) sum += *answer.counters;
      Store(answer, all, q);
    }
    nlohmann::json counts = ToJson(sum, static_cast<double>(all.end));
    counts["distances"] =
        counts["distances_fast"].get<double>() + counts["distances_slow"].get<double>();
    return counts;
  }

 private:
  absl::Status MakeClients(std::size_t threads) {
    while (clients_.size() < threads) {
      HMANN_ASSIGN_OR_RETURN(Client client, Client::Connect(address_, connect_));
      clients_.push_back(std::move(client));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<client::Answer> Call(const RunShare& share, std::uint64_t q,
                                      const client::CallOptions& call) {
    SearchParams options = search_;
    options.k = share.k;
    return clients_[static_cast<std::size_t>(share.thread)].Search(index_, Query(q), options, call);
  }

  absl::Status Stream(const RunShare& share) {
    SearchParams options = search_;
    options.k = share.k;
    client::SearchStream stream = clients_[static_cast<std::size_t>(share.thread)].OpenStream(
        index_, options, {.deadline = std::chrono::hours(1)});
    std::vector<std::optional<QueryTimer>> timers(share.end - share.begin);
    std::uint64_t sent = share.begin;
    for (std::uint64_t answered = share.begin; answered < share.end; ++answered) {
      for (; sent < share.end && sent - answered < in_flight_; ++sent) {
        timers[sent - share.begin].emplace(share, sent);
        if (!stream.Send(sent, Query(sent)).ok()) break;  // Receive reports the reason
      }
      HMANN_ASSIGN_OR_RETURN(std::optional<client::StreamedAnswer> next, stream.Receive());
      if (!next || next->id < share.begin || next->id >= share.end)
        return Internal("the stream ended before its last answer");
      timers[next->id - share.begin].reset();
      HMANN_RETURN_IF_ERROR(next->answer.status());
      Store(*next->answer, share, next->id);
    }
    return stream.DoneSending();
  }

  client::Vectors Query(std::uint64_t q) const {
    return client::Vectors::Raw(std::span(queries_).subspan(q * row_bytes_, row_bytes_));
  }

  static void Store(const client::Answer& found, const RunShare& share, std::uint64_t q) {
    const std::size_t most = std::min<std::size_t>(found.ids.size(), share.k);
    for (std::size_t rank = 0; rank < most; ++rank)
      share.ids[q * share.k + rank] = static_cast<std::uint32_t>(found.ids[rank]);
  }

  std::string address_, index_;
  client::ConnectOptions connect_;
  nlohmann::json settings_;
  std::vector<Client> clients_;  ///< one per thread
  SearchParams search_;
  std::uint64_t in_flight_ = 1;
  std::uint64_t row_bytes_ = 1;
  std::vector<std::byte> queries_;
};

}  // namespace
}  // namespace hmann::eval

int main(int argc, char** argv) {
  hmann::eval::ServerAdapter adapter;
  return hmann::eval::RunAdapter(argc, argv, adapter);
}
