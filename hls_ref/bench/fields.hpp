// The fields of a JSON file, each with the kind and range it must have.
#ifndef APPROX_BENCH_FIELDS_HPP
#define APPROX_BENCH_FIELDS_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "files.hpp"
#include "json.hpp"

namespace bench {

const std::uint64_t MAX_JSON_BYTES = 64u << 20;

// Of any text, what fits in one line of a message.
inline std::string printable(const std::string &text, std::size_t most = 80) {
    std::string shown;
    for (std::size_t i = 0; i < text.size() && i < most; ++i) {
        shown += text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    return text.size() > most ? shown + "..." : shown;
}

inline std::string shown(const json::Value &value) {
    switch (value.kind) {
        case json::Kind::null: return "null";
        case json::Kind::boolean: return value.flag ? "true" : "false";
        case json::Kind::number: return printable(value.text);
        case json::Kind::text: return "\"" + printable(value.text) + "\"";
        case json::Kind::list: return "a list";
        default: return "an object";
    }
}

// An object within a JSON file. Each method throws Error that names file and field.
class Fields {
  public:
    Fields(const json::Value &value, const std::string &path, const std::string &prefix)
        : value_(value), path_(path), prefix_(prefix) {
        if (value.kind != json::Kind::object) {
            const std::string what = prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1) + " ";
            throw Error(path + ": " + what + "is " + shown(value) + "; allowed: an object");
        }
    }

    std::string text(const char *key) const { return get(key, json::Kind::text, "text").text; }

    bool flag(const char *key) const {
        return get(key, json::Kind::boolean, "true or false").flag;
    }

    std::int64_t integer(const char *key, std::int64_t least, std::int64_t most) const {
        const std::string allowed =
            "an integer from " + std::to_string(least) + " to " + std::to_string(most);
        const json::Value &value = get(key, json::Kind::number, allowed);
        // 18 digits always fit; whoever writes more, or a fraction, is out of every range here.
        const bool plain = value.text.find_first_of(".eE") == std::string::npos;
        if (!plain || value.text.size() > 18) refuse(key, shown(value), allowed);
        const std::int64_t number = std::stoll(value.text);
        if (number < least || number > most) refuse(key, shown(value), allowed);
        return number;
    }

    std::string sha256(const char *key) const {
        const std::string found = text(key);
        if (found.size() != 64 || found.find_first_not_of("0123456789abcdef") != std::string::npos) {
            refuse(key, "\"" + printable(found) + "\"", "64 digits 0-9, a-f");
        }
        return found;
    }

    Fields object(const char *key) const {
        return Fields(get(key, json::Kind::object, "an object"), path_, prefix_ + key + ".");
    }

    std::vector<Fields> list(const char *key) const {
        const json::Value &value = get(key, json::Kind::list, "a list");
        std::vector<Fields> found;
        for (std::size_t i = 0; i < value.items.size(); ++i) {
            found.emplace_back(value.items[i], path_, prefix_ + key + "." + std::to_string(i) + ".");
        }
        return found;
    }

    // Fields that can have one value only.
    void require_text(const char *key, const std::string &value) const {
        const std::string found = text(key);
        if (found != value) refuse(key, "\"" + printable(found) + "\"", "\"" + value + "\"");
    }

    void require_integer(const char *key, std::int64_t value) const { integer(key, value, value); }

    void require_flag(const char *key, bool value) const {
        if (flag(key) != value) refuse(key, value ? "false" : "true", value ? "true" : "false");
    }

    [[noreturn]] void refuse(const std::string &key, const std::string &found,
                             const std::string &allowed) const {
        throw Error(path_ + ": " + prefix_ + key + " is " + found + "; allowed: " + allowed);
    }

  private:
    const json::Value &value_;
    std::string path_, prefix_;

    const json::Value &get(const std::string &key, json::Kind kind,
                           const std::string &allowed) const {
        const json::Value *value = value_.find(key);
        if (value == nullptr) {
            throw Error(path_ + ": " + prefix_ + key + " is missing; write the vectors again");
        }
        if (value->kind != kind) refuse(key, shown(*value), allowed);
        return *value;
    }
};

// What a JSON file holds. Throws Error if it is no file, too large, or no JSON.
inline json::Value read_json(const std::string &path) {
    const std::uint64_t size = require_file(path);
    if (size > MAX_JSON_BYTES) {
        throw Error(path + " is larger than " + std::to_string(MAX_JSON_BYTES) +
                    " bytes; not a manifest");
    }
    try {
        return json::parse(read_bytes(path, size));
    } catch (const json::Error &error) {
        throw Error(path + " is not ASCII JSON text: " + error.what() + "; write the vectors again");
    }
}

}  // namespace bench

#endif
