#include "tests/house.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kForeignFolders = {"build", "data", "node_modules", "__pycache__"};
const std::set<std::string> kTextSuffixes = {
    ".cc", ".h",    ".def", ".proto", ".cmake", ".txt", ".md", ".json", ".js",  ".mjs",
    ".ts", ".html", ".css", ".py",    ".jsonl", ".cfg", ".in", ".sh",   ".yml", ".yaml"};

bool OursToEnter(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (name == ".ci") return true;
  if (name.starts_with('.')) return false;
  return !kForeignFolders.contains(name);
}

bool IsText(const fs::path& path) {
  const std::string name = path.filename().string();
  return kTextSuffixes.contains(path.extension().string()) || name == "dev" || name == "run";
}

std::string Blank(const std::string& text, std::size_t begin, std::size_t end) {
  std::string blank = text.substr(begin, end - begin);
  std::replace_if(
      blank.begin(), blank.end(), [](char c) { return c != '\n'; }, ' ');
  return blank;
}

/// End of the literal or comment that starts at `i`, or `i` if none does.
std::size_t EndOfNonCode(const std::string& text, std::size_t i) {
  const auto found = [&](const std::string& mark, std::size_t from) {
    const std::size_t at = text.find(mark, from);
    return at == std::string::npos ? text.size() : at + mark.size();
  };
  if (text.compare(i, 2, "//") == 0) return std::min(text.find('\n', i), text.size());
  if (text.compare(i, 2, "/*") == 0) return found("*/", i + 2);
  if (text.compare(i, 2, "R\"") == 0) {
    const std::size_t open = text.find('(', i);
    return open == std::string::npos
               ? text.size()
               : found(absl::StrCat(")", text.substr(i + 2, open - i - 2), "\""), open);
  }
  const bool digit_separator =
      text[i] == '\'' && i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0;
  if ((text[i] != '"' && text[i] != '\'') || digit_separator) return i;
  for (std::size_t j = i + 1; j < text.size(); ++j) {
    if (text[j] == '\\')
      ++j;
    else if (text[j] == text[i] || text[j] == '\n')
      return j + 1;
  }
  return text.size();
}

}  // namespace

bool SourceFile::Test() const {
  return path.starts_with("tests/") || path.find("_test.") != std::string::npos ||
         path.find("_bench.") != std::string::npos || path.find("_fuzz.") != std::string::npos ||
         path.find("/testing/") != std::string::npos;
}

std::vector<SourceFile> ReadTree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    if (it->is_symlink()) continue;
    if (it->is_directory()) {
      if (!OursToEnter(*it)) it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file() || !IsText(it->path())) continue;
    std::ifstream in(it->path(), std::ios::binary);
    SourceFile file{
        fs::relative(it->path(), root).string(), {std::istreambuf_iterator<char>(in), {}}, {}};
    std::istringstream lines(file.text);
    for (std::string line; std::getline(lines, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::string CodeOnly(const std::string& text) {
  std::string code;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = EndOfNonCode(text, i);
    if (end == i) {
      code += text[i++];
    } else {
      code += Blank(text, i, end);
      i = end;
    }
  }
  return code;
}

std::string OutputOf(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) absl::StrAppend(&line, "'", word, "' ");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(absl::StrCat(line, "2>/dev/null").c_str(), "r"), ::pclose);
  std::string out;
  char buffer[65536];
  while (pipe != nullptr) {
    const std::size_t read = std::fread(buffer, 1, sizeof buffer, pipe.get());
    if (read == 0) break;
    out.append(buffer, read);
  }
  return out;
}

}  // namespace hmann
