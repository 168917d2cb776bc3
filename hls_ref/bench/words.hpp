// Codes as text: a word a line, two's complement in lower-case hex, as docs/vectors.md has it.
#ifndef APPROX_BENCH_WORDS_HPP
#define APPROX_BENCH_WORDS_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "files.hpp"

namespace bench {

typedef std::vector<long long> Codes;

inline std::uint64_t hex_digits(std::uint64_t width) { return (width + 3) / 4; }

// The value of a digit; 16 of anything else.
inline unsigned digit_value(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    return 16;
}

[[noreturn]] inline void refuse_word(const std::string &path, std::size_t line, std::uint64_t width) {
    throw Error(path + " line " + std::to_string(line + 1) + " is no word; allowed: " +
                std::to_string(hex_digits(width)) + " lower-case hex digits of " +
                std::to_string(width) + " bits");
}

// Lines of one word each, of at most 64 bits; of the bits above `width` all are 0.
inline Codes parse_words(const std::string &path, const std::string &bytes, int width,
                         bool is_signed) {
    const std::size_t digits = static_cast<std::size_t>(hex_digits(width));
    Codes codes(bytes.size() / (digits + 1));
    const std::uint64_t sign = std::uint64_t(1) << (width - 1);
    for (std::size_t line = 0; line < codes.size(); ++line) {
        const char *text = bytes.data() + line * (digits + 1);
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            const unsigned value = digit_value(text[i]);
            if (value > 15) refuse_word(path, line, width);
            word = word << 4 | value;
        }
        const bool fits = width == 64 || word >> width == 0;
        if (text[digits] != '\n' || !fits) refuse_word(path, line, width);
        if (is_signed && width < 64) word = (word ^ sign) - sign;
        codes[line] = static_cast<long long>(word);
    }
    return codes;
}

// A file of words that is what its manifest says: size, SHA-256 and every word.
inline Codes read_words(const std::string &path, std::uint64_t words, const std::string &sha256,
                        int width, bool is_signed) {
    const std::string bytes = read_bytes(path, words * (hex_digits(width) + 1));
    check_sha256(path, bytes, sha256);
    return parse_words(path, bytes, width, is_signed);
}

}  // namespace bench

#endif
