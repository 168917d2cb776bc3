// Files as the bench takes them: regular ones only; a link is not followed and a pipe not waited for.
#ifndef APPROX_BENCH_FILES_HPP
#define APPROX_BENCH_FILES_HPP

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sha256.hpp"

namespace bench {

// What is wrong with the files; main prints it and returns 2.
struct Error : std::runtime_error {
    explicit Error(const std::string &what) : std::runtime_error(what) {}
};

inline std::string join(const std::string &folder, const std::string &name) {
    const bool has_slash = !folder.empty() && folder[folder.size() - 1] == '/';
    return has_slash ? folder + name : folder + "/" + name;
}

enum class Found { nothing, file, folder, link, other };

// What a path is, without following a link; size: bytes of a file.
inline Found look_at(const std::string &path, std::uint64_t *size = nullptr) {
    struct stat status;
#ifdef _WIN32
    const int failed = stat(path.c_str(), &status);  // has no lstat
#else
    const int failed = lstat(path.c_str(), &status);
    if (!failed && S_ISLNK(status.st_mode)) return Found::link;
#endif
    if (failed) {
        if (errno == ENOENT || errno == ENOTDIR) return Found::nothing;
        throw Error(path + " cannot be read: " + std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) return Found::folder;
    if (!S_ISREG(status.st_mode)) return Found::other;
    if (size != nullptr) *size = static_cast<std::uint64_t>(status.st_size);
    return Found::file;
}

// The size of a regular file; anything else is refused.
inline std::uint64_t require_file(const std::string &path) {
    std::uint64_t size = 0;
    switch (look_at(path, &size)) {
        case Found::file: return size;
        case Found::nothing: throw Error(path + " is missing; write the vectors again");
        case Found::link: throw Error(path + " is a symbolic link; allowed: the file itself");
        default: throw Error(path + " is no regular file; write the vectors again");
    }
}

// The names in a folder, sorted; hidden ones are left out.
inline std::vector<std::string> names_in(const std::string &folder) {
    const std::unique_ptr<DIR, int (*)(DIR *)> opened(opendir(folder.c_str()), closedir);
    if (!opened) throw Error(folder + " cannot be read as a folder: " + std::strerror(errno));
    std::vector<std::string> names;
    while (const dirent *entry = readdir(opened.get())) {
        if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

typedef std::unique_ptr<std::FILE, int (*)(std::FILE *)> OpenFile;

inline OpenFile open_file(const std::string &path) {
    OpenFile file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) throw Error(path + " cannot be read: " + std::strerror(errno));
    return file;
}

// A file's bytes, of which there must be `size`, and none more.
inline std::string read_bytes(const std::string &path, std::uint64_t size) {
    const std::uint64_t found = require_file(path);
    if (found != size) {
        throw Error(path + " has " + std::to_string(found) + " bytes, not " + std::to_string(size) +
                    ", and was cut or edited; write the vectors again");
    }
    std::string bytes(static_cast<std::size_t>(size), '\0');
    const OpenFile file = open_file(path);
    const bool whole = bytes.empty() ||
                       std::fread(&bytes[0], 1, bytes.size(), file.get()) == bytes.size();
    if (!whole || std::fgetc(file.get()) != EOF) {
        throw Error(path + " changed while it was read; run again");
    }
    return bytes;
}

[[noreturn]] inline void refuse_edited(const std::string &path) {
    throw Error(path + " was edited: its SHA-256 is not the manifest's; write the vectors again");
}

inline void check_sha256(const std::string &path, const std::string &bytes,
                         const std::string &sha256) {
    Sha256 hash;
    hash.add(bytes.data(), bytes.size());
    if (hash.hex() != sha256) refuse_edited(path);
}

// The same of a file that is not otherwise needed, whatever its size.
inline void check_sha256_of_file(const std::string &path, const std::string &sha256) {
    require_file(path);
    const OpenFile file = open_file(path);
    std::vector<char> chunk(1 << 16);
    Sha256 hash;
    while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
        hash.add(chunk.data(), count);
    }
    if (hash.hex() != sha256) refuse_edited(path);
}

}  // namespace bench

#endif
