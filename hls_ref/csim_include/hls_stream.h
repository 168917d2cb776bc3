// hls::stream for C simulation with g++. Vitis HLS brings its own header of this name, which is then
// found instead; this one has the part of that interface that a kernel and its bench need.
//
// Where hardware would wait for ever, it stops the program: reading an empty stream aborts and names
// the stream. As in Vitis' C simulation a stream has no limit, whatever its depth. What is left in
// a stream at its end is told on stderr: in hardware the next call would read it.
#ifndef APPROX_CSIM_HLS_STREAM_H
#define APPROX_CSIM_HLS_STREAM_H

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

namespace hls {

template <typename T, int DEPTH = 0>
class stream;

template <typename T>
class stream<T, 0> {
  public:
    stream() : name_("without a name") {}
    explicit stream(const char *name) : name_(name) {}
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;

    ~stream() {
        if (!items_.empty()) {
            std::fprintf(stderr, "warning: stream %s ends with %zu items that nothing has read\n",
                         name_.c_str(), items_.size());
        }
    }

    T read() {
        if (items_.empty()) {
            std::fprintf(stderr,
                         "error: stream %s is read while it is empty; hardware would wait for ever\n",
                         name_.c_str());
            std::fflush(nullptr);  // what was printed before would be lost in a pipe
            std::abort();
        }
        T item = items_.front();
        items_.pop_front();
        return item;
    }

    void read(T &item) { item = read(); }

    bool read_nb(T &item) {
        if (items_.empty()) return false;
        item = read();
        return true;
    }

    void write(const T &item) { items_.push_back(item); }

    bool write_nb(const T &item) {
        write(item);
        return true;
    }

    void operator>>(T &item) { read(item); }
    void operator<<(const T &item) { write(item); }

    bool empty() const { return items_.empty(); }
    bool full() const { return false; }
    std::size_t size() const { return items_.size(); }

  private:
    std::string name_;
    std::deque<T> items_;
};

// A depth is for synthesis; a function that takes stream<T> & takes any depth.
template <typename T, int DEPTH>
class stream : public stream<T, 0> {
  public:
    stream() {}
    explicit stream(const char *name) : stream<T, 0>(name) {}
};

}  // namespace hls

#endif
