// A folder of golden vectors (docs/vectors.md), read and checked for the kernel that driver.hpp drives.
#ifndef APPROX_BENCH_VECTORS_HPP
#define APPROX_BENCH_VECTORS_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "driver.hpp"
#include "fields.hpp"
#include "files.hpp"
#include "words.hpp"

namespace bench {

// Rows that fit an int, and files whose sizes fit 64 bits.
const std::int64_t MAX_COUNT = 0x7fffffff;
const std::int64_t MAX_WORDS = std::int64_t(1) << 40;
const int MAX_LANES = 4096;
const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";

#ifdef APPROX_TRACE
const bool TRACED = true;
#else
const bool TRACED = false;
#endif

// Rows first .. first + count - 1, and what they are for.
struct RowClass {
    std::string name;
    std::int64_t first, count;
};

struct VectorSet {
    std::string folder, digest;
    int layer = -1, rows = 0, dim = 0;
    std::vector<RowClass> classes;
    std::vector<Codes> codes;  // by number in driver::SIGNALS; empty if it is not compared
    int x = -1, y = -1;        // their numbers
    std::string x_sha256;      // of x.hex

    std::size_t words() const { return static_cast<std::size_t>(rows) * dim; }

    // Words a row of a signal of driver::SIGNALS.
    int words_a_row(int signal) const {
        return driver::SIGNALS[signal].level == 'e' ? dim : 1;
    }

    const std::string &class_of(int row) const {
        for (const RowClass &c : classes) {
            if (row < c.first + c.count) return c.name;
        }
        return classes.back().name;  // not reached: the classes hold all rows
    }
};

// The number of a signal in driver::SIGNALS, or -1.
inline int find_signal(const std::string &name) {
    for (int i = 0; i < driver::SIGNAL_COUNT; ++i) {
        if (name == driver::SIGNALS[i].name) return i;
    }
    return -1;
}

// x and y are compared as streams, every other named signal in trace mode.
inline bool is_stream(const char *name) {
    return std::strcmp(name, "x") == 0 || std::strcmp(name, "y") == 0;
}

// Reads one folder. Every file that the manifest lists is checked, also those nothing is compared to.
class VectorReader {
  public:
    explicit VectorReader(const std::string &folder) : path_(join(folder, "manifest.json")) {
        set_.folder = folder;
        set_.x = find_signal("x");
        set_.y = find_signal("y");
        if (set_.x < 0 || set_.y < 0) throw Error("driver::SIGNALS has no x or no y");
    }

    VectorSet read() {
        const json::Value root = read_json(path_);
        const Fields manifest(root, path_, "");
        read_head(manifest);
        read_classes(manifest);
        // The list before the files: a signal of another kernel says more than its file.
        for (const Fields &entry : manifest.list("signals")) check_signal(entry);
        check_complete();
        for (const Fields &entry : manifest.list("signals")) read_signal(entry);
        for (const Fields &entry : manifest.list("beats")) read_beats(manifest, entry);
        read_archive(manifest.object("archive"));
        check_unlisted();
        return set_;
    }

  private:
    VectorSet set_;
    const std::string path_;
    std::set<int> seen_;            // numbers in driver::SIGNALS
    std::set<std::string> listed_;  // names of files

    void read_head(const Fields &manifest) {
        manifest.require_text("format", "approxnorm-vectors");
        manifest.require_integer("format_version", 1);
        set_.digest = manifest.sha256("digest");
        set_.layer = driver::find_layer(set_.digest.c_str());
        if (set_.layer < 0) refuse_digest();
        set_.dim = static_cast<int>(manifest.integer("dim", 1, MAX_COUNT));
        manifest.require_integer("dim", driver::dim(set_.layer));
        // A bench that compares nothing must not pass, hence at least one row.
        set_.rows = static_cast<int>(manifest.integer("rows", 1, MAX_COUNT));
        if (std::int64_t(set_.rows) * set_.dim > MAX_WORDS) {
            manifest.refuse("rows", std::to_string(set_.rows),
                            "at most 2^40 elements in all rows");
        }
        set_.codes.resize(static_cast<std::size_t>(driver::SIGNAL_COUNT));
    }

    [[noreturn]] void refuse_digest() const {
        throw Error(path_ + ": the vectors' digest is " + set_.digest + ", not the kernel's " +
                    driver::digest(0) + "; use the vectors of this very export, or export again");
    }

    void read_classes(const Fields &manifest) {
        std::int64_t first = 0;
        for (const Fields &entry : manifest.list("classes")) {
            entry.require_integer("first", first);
            const std::int64_t count = entry.integer("count", 0, set_.rows - first);
            set_.classes.push_back({printable(entry.text("name")), first, count});
            first += count;
        }
        if (first != set_.rows) {
            throw Error(path_ + ": the classes have " + std::to_string(first) + " rows, not " +
                        std::to_string(set_.rows) + ", as rows says; write the vectors again");
        }
    }

    // A signal's entry must be what the kernel has.
    void check_signal(const Fields &entry) {
        const std::string name = entry.text("name"), level = entry.text("level");
        const int id = find_signal(name);
        if (level == "channel" && (id < 0 || driver::SIGNALS[id].level == 'c')) return;
        if (id < 0) {
            throw Error(path_ + ": the kernel has no signal " + printable(name) +
                        "; write the vectors again");
        }
        if (!seen_.insert(id).second) {
            throw Error(path_ + ": signal " + name + " is listed twice; write the vectors again");
        }
        const driver::Signal &signal = driver::SIGNALS[id];
        entry.require_text("level", signal.level == 'e' ? "element" : "row");
        if (!driver::EXACT_WIDTHS) return;  // the kernel's signals are as wide as any layer asks
        entry.require_integer("width", signal.width);
        entry.require_flag("signed", signal.is_signed);
    }

    void check_complete() const {
        for (int i = 0; i < driver::SIGNAL_COUNT; ++i) {
            if (driver::SIGNALS[i].level != 'c' && seen_.count(i) == 0) {
                throw Error(path_ + ": signal " + driver::SIGNALS[i].name +
                            " of the kernel is missing; write the vectors again");
            }
        }
    }

    void read_signal(const Fields &entry) {
        const std::string name = entry.text("name"), level = entry.text("level");
        const std::string path = listed(entry, name + ".hex");
        const int id = level == "channel" ? -1 : find_signal(name);
        const int width = static_cast<int>(entry.integer("width", 1, 64));
        const std::int64_t words =
            id < 0 ? set_.dim : std::int64_t(set_.rows) * set_.words_a_row(id);
        entry.require_integer("words", words);
        const std::string sha256 = entry.sha256("sha256");
        Codes codes = read_words(path, static_cast<std::uint64_t>(words), sha256, width,
                                 entry.flag("signed"));
        if (id == set_.x) set_.x_sha256 = sha256;
        if (id >= 0 && (TRACED || is_stream(driver::SIGNALS[id].name))) set_.codes[id].swap(codes);
    }

    // The same codes packed: what the kernel gets is packed by the driver, of its own lanes.
    void read_beats(const Fields &manifest, const Fields &entry) {
        const std::string name = entry.text("signal");
        if (!is_stream(name.c_str())) entry.refuse("signal", printable(name), "x or y");
        const std::string path = listed(entry, name + "_beats.hex");
        const std::int64_t lanes = manifest.integer("lanes", 1, MAX_LANES);
        const int width = driver::SIGNALS[find_signal(name)].width;
        entry.require_integer("width", lanes * width);
        const std::int64_t words = set_.rows * ((set_.dim + lanes - 1) / lanes);
        entry.require_integer("words", words);
        const std::uint64_t line = hex_digits(static_cast<std::uint64_t>(lanes * width)) + 1;
        const std::string bytes = read_bytes(path, static_cast<std::uint64_t>(words) * line);
        check_sha256(path, bytes, entry.sha256("sha256"));
    }

    void read_archive(const Fields &entry) {
        const std::string path = listed(entry, "vectors.npz");
        check_sha256_of_file(path, entry.sha256("sha256"));
    }

    // The path of an entry's file, which can have one name only: nothing outside the folder is read.
    std::string listed(const Fields &entry, const std::string &name) {
        entry.require_text("file", name);
        const bool plain = name[0] != '.' && name.find_first_not_of(PLAIN) == std::string::npos;
        if (!plain || !listed_.insert(name).second) {
            entry.refuse("file", printable(name),
                         "a plain name of letters, digits, _ and ., listed once");
        }
        return join(set_.folder, name);
    }

    void check_unlisted() const {
        for (const std::string &name : names_in(set_.folder)) {
            const bool own = name == "manifest.json" || name == "provenance.json";
            if (!own && listed_.count(name) == 0) {
                throw Error(join(set_.folder, name) +
                            " is not listed in manifest.json; keep other files outside the folder");
            }
        }
    }
};

}  // namespace bench

#endif
