// A small strict reader of ASCII JSON (RFC 8259): refuses what is not JSON, a key that comes twice in
// one object, and nesting deeper than MAX_DEPTH. Numbers stay text until they are asked for.
#ifndef APPROX_BENCH_JSON_HPP
#define APPROX_BENCH_JSON_HPP

#include <cstddef>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {
namespace json {

const int MAX_DEPTH = 64;

struct Error : std::runtime_error {
    explicit Error(const std::string &what) : std::runtime_error(what) {}
};

enum class Kind { null, boolean, number, text, list, object };

struct Value {
    Kind kind = Kind::null;
    bool flag = false;               // of a boolean
    std::string text;                // of a text, decoded; of a number, as it was written
    std::vector<std::string> keys;   // of an object, one for each item
    std::vector<Value> items;        // of a list or an object

    // The item of that key, or null.
    const Value *find(const std::string &key) const {
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if (keys[i] == key) return &items[i];
        }
        return nullptr;
    }
};

class Parser {
  public:
    explicit Parser(const std::string &source) : source_(source) {}

    Value parse() {
        Value value = parse_value(0);
        skip_space();
        if (at_ != source_.size()) fail("text after the end");
        return value;
    }

  private:
    const std::string &source_;
    std::size_t at_ = 0;

    [[noreturn]] void fail(const std::string &what) const {
        throw Error(what + " at byte " + std::to_string(at_));
    }

    // The byte at hand; 0, which JSON never holds, at the end.
    char here() const { return at_ < source_.size() ? source_[at_] : '\0'; }

    static bool is_digit(char c) { return c >= '0' && c <= '9'; }

    void skip_space() {
        while (here() == ' ' || here() == '\n' || here() == '\t' || here() == '\r') ++at_;
    }

    void expect(char c) {
        if (here() != c) fail(std::string("no '") + c + "'");
        ++at_;
    }

    Value parse_value(int depth) {
        if (depth > MAX_DEPTH) fail("nesting deeper than " + std::to_string(MAX_DEPTH));
        skip_space();
        switch (here()) {
            case '{': return parse_object(depth);
            case '[': return parse_list(depth);
            case '"': return parse_text();
            case 't': return parse_word("true", Kind::boolean, true);
            case 'f': return parse_word("false", Kind::boolean, false);
            case 'n': return parse_word("null", Kind::null, false);
            default: return parse_number();
        }
    }

    Value parse_word(const char *word, Kind kind, bool flag) {
        const std::size_t length = std::strlen(word);
        if (source_.compare(at_, length, word) != 0) fail("an unknown word");
        at_ += length;
        Value value;
        value.kind = kind;
        value.flag = flag;
        return value;
    }

    void skip_digits() {
        if (!is_digit(here())) fail("no digit");
        while (is_digit(here())) ++at_;
    }

    Value parse_number() {
        const std::size_t start = at_;
        if (here() == '-') ++at_;
        if (here() == '0') {
            ++at_;
        } else {
            skip_digits();
        }
        if (here() == '.') {
            ++at_;
            skip_digits();
        }
        if (here() == 'e' || here() == 'E') {
            ++at_;
            if (here() == '+' || here() == '-') ++at_;
            skip_digits();
        }
        Value value;
        value.kind = Kind::number;
        value.text = source_.substr(start, at_ - start);
        return value;
    }

    Value parse_text() {
        Value value;
        value.kind = Kind::text;
        expect('"');
        while (here() != '"') {
            const unsigned char c = static_cast<unsigned char>(here());
            if (c < 0x20 || c > 0x7e) fail("a byte that no text may hold");
            ++at_;
            if (c == '\\') {
                add_escape(value.text);
            } else {
                value.text += static_cast<char>(c);
            }
        }
        ++at_;
        return value;
    }

    void add_escape(std::string &text) {
        static const char NAMES[] = "\"\\/bfnrt";
        static const char MEANINGS[] = "\"\\/\b\f\n\r\t";
        const char c = here();
        if (c == 'u') {
            ++at_;
            add_utf8(text, parse_code_point());
            return;
        }
        const char *found = c == '\0' ? nullptr : std::strchr(NAMES, c);
        if (found == nullptr) fail("an unknown escape");
        text += MEANINGS[found - NAMES];
        ++at_;
    }

    unsigned long parse_four_digits() {
        unsigned long value = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            const char c = here();
            if (is_digit(c)) {
                value = value * 16 + static_cast<unsigned long>(c - '0');
            } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
                value = value * 16 + static_cast<unsigned long>((c | 0x20) - 'a' + 10);
            } else {
                fail("no hex digit");
            }
        }
        return value;
    }

    // Of one \u escape, or of two that make a surrogate pair.
    unsigned long parse_code_point() {
        const unsigned long high = parse_four_digits();
        if (high < 0xd800 || high > 0xdfff) return high;
        if (high > 0xdbff) fail("half a surrogate pair");
        expect('\\');
        expect('u');
        const unsigned long low = parse_four_digits();
        if (low < 0xdc00 || low > 0xdfff) fail("half a surrogate pair");
        return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }

    static void add_utf8(std::string &text, unsigned long code) {
        const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        static const unsigned long LEADS[] = {0, 0xc0, 0xe0, 0xf0};
        text += static_cast<char>(LEADS[more] | (code >> (6 * more)));
        for (int i = more - 1; i >= 0; --i) {
            text += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f));
        }
    }

    Value parse_list(int depth) {
        Value value;
        value.kind = Kind::list;
        expect('[');
        skip_space();
        if (here() == ']') {
            ++at_;
            return value;
        }
        while (true) {
            value.items.push_back(parse_value(depth + 1));
            skip_space();
            if (here() == ']') break;
            expect(',');
        }
        ++at_;
        return value;
    }

    Value parse_object(int depth) {
        Value value;
        value.kind = Kind::object;
        std::set<std::string> seen;
        expect('{');
        skip_space();
        if (here() == '}') {
            ++at_;
            return value;
        }
        while (true) {
            skip_space();
            value.keys.push_back(parse_text().text);
            if (!seen.insert(value.keys.back()).second) fail("a key that was there before");
            skip_space();
            expect(':');
            value.items.push_back(parse_value(depth + 1));
            skip_space();
            if (here() == '}') break;
            expect(',');
        }
        ++at_;
        return value;
    }
};

// What a JSON text holds. Throws Error that says what is wrong and where.
inline Value parse(const std::string &source) { return Parser(source).parse(); }

}  // namespace json
}  // namespace bench

#endif
