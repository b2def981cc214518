// SPDX-License-Identifier: Apache-2.0
// Reads a trace as a viewer does: strict JSON, and the rule for files of killed jobs.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace ringtune::testing {

// Numbers and words keep their text.
struct Json {
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> members;

  const Json& at(const std::string& key) const { return members.at(key); }
  bool has(const std::string& key) const { return members.contains(key); }
  // The text of a member, "" where there is none.
  std::string of(const std::string& key) const { return has(key) ? at(key).text : ""; }
};

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : left_(text) {}

  // No value where the text is not one JSON value.
  std::optional<Json> read() {
    Json value;
    const bool is_good = read_value(value);
    skip_space();
    return is_good && left_.empty() ? std::optional(std::move(value)) : std::nullopt;
  }

 private:
  void skip_space() {
    while (!left_.empty() && (left_.front() == ' ' || left_.front() == '\n')) {
      left_.remove_prefix(1);
    }
  }

  bool take(char expected) {
    skip_space();
    if (left_.empty() || left_.front() != expected) {
      return false;
    }
    left_.remove_prefix(1);
    return true;
  }

  bool read_value(Json& value) {
    skip_space();
    if (left_.empty()) {
      return false;
    }
    switch (left_.front()) {
      case '[':
        return read_list(value);
      case '{':
        return read_object(value);
      case '"':
        return read_text(value.text);
      default:
        return read_word(value.text);
    }
  }

  bool read_list(Json& value) {
    take('[');
    if (take(']')) {
      return true;
    }
    do {
      if (!read_value(value.items.emplace_back())) {
        return false;
      }
    } while (take(','));
    return take(']');
  }

  bool read_object(Json& value) {
    take('{');
    if (take('}')) {
      return true;
    }
    do {
      std::string key;
      skip_space();
      if (!read_text(key) || !take(':') || value.has(key) || !read_value(value.members[key])) {
        return false;
      }
    } while (take(','));
    return take('}');
  }

  bool read_text(std::string& text) {
    if (!take('"')) {
      return false;
    }
    while (!left_.empty() && left_.front() != '"') {
      if (static_cast<unsigned char>(left_.front()) < 0x20 || !read_character(text)) {
        return false;
      }
    }
    return take('"');
  }

  bool read_character(std::string& text) {
    const bool is_escaped = left_.front() == '\\';
    left_.remove_prefix(is_escaped ? 1 : 0);
    if (left_.empty()) {
      return false;
    }
    if (is_escaped && left_.front() == 'u') {
      text += static_cast<char>(std::stoi(std::string(left_.substr(1, 4)), nullptr, 16));
      left_.remove_prefix(5);
      return true;
    }
    text += left_.front();
    left_.remove_prefix(1);
    return true;
  }

  bool read_word(std::string& word) {
    while (!left_.empty() && (std::isalnum(static_cast<unsigned char>(left_.front())) != 0 || left_.front() == '.')) {
      word += left_.front();
      left_.remove_prefix(1);
    }
    const bool is_number = !word.empty() && word.find_first_not_of("0123456789.") == std::string::npos;
    return is_number || word == "true" || word == "false";
  }

  std::string_view left_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The file as viewers repair one that ends in the middle: the last whole line is the last event.
inline std::string repaired(std::string text) {
  text.resize(text.rfind(",\n"));
  return text + "\n]\n";
}

inline std::vector<Json> events_of(const std::string& text) {
  const std::optional<Json> trace = JsonReader(text).read();
  EXPECT_TRUE(trace) << text.substr(0, 2000);
  return trace ? trace->items : std::vector<Json>();
}

inline std::vector<Json> events_named(const std::vector<Json>& events, const std::string& name) {
  std::vector<Json> found;
  for (const Json& event : events) {
    if (event.of("name") == name) {
      found.push_back(event);
    }
  }
  return found;
}

inline Json first_named(const std::vector<Json>& events, const std::string& name) {
  const std::vector<Json> found = events_named(events, name);
  EXPECT_FALSE(found.empty()) << "no event is named " << name;
  return found.empty() ? Json() : found.front();
}

// The named argument of an event.
inline std::string argument(const Json& event, const std::string& key) {
  return event.has("args") ? event.at("args").of(key) : "";
}

// The trace's name of a row; "" where it has none of that number.
inline std::string row_name(const std::vector<Json>& events, uint32_t row) {
  for (const Json& event : events_named(events, "thread_name")) {
    if (event.of("tid") == std::to_string(row)) {
      return argument(event, "name");
    }
  }
  return "";
}

// A folder that goes with the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ringtune-trace-XXXXXX").string();
    EXPECT_NE(nullptr, mkdtemp(name.data()));
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace ringtune::testing
