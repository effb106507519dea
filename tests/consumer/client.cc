// A client in a foreign project: searches the index `argv[2]` of the server at `argv[1]`,
// and prints the answer.
#include <hmann/client.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int, char** argv) {
  auto client = hmann::client::Client::Connect(argv[1], {.retry = false});
  if (!client.ok()) return 1;
  const std::vector<float> query(128);
  const auto answer = client->Search(argv[2], hmann::client::Vectors::Floats(query), {});
  if (!answer.ok()) {
    std::printf("%s\n", std::string(absl::StatusCodeToString(answer.status().code())).c_str());
    return 0;
  }
  std::printf("nearest %llu\n", static_cast<unsigned long long>(answer->ids.front()));
}
