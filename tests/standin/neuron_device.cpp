// A stand-in for a Neuron device, constructed: PrivateUse1 over CPU memory, a queue whose time is told by a table of
// costs, and a Kineto plugin that tells of both. It proves the logic of what reads it, not the format of TorchNeuron.
//
// Values are computed at once, by the CPU's kernels on aliases of the same memory. Only their time is played: an
// execution waits in a queue until synchronize(), a copy to the host or item() drains it.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/record_function.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <torch/library.h>

#include <libkineto.h>
#include <output_base.h>

namespace py = pybind11;
using at::Tensor;
using c10::DispatchKey;

namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Settings: the environment of the process
// ---------------------------------------------------------------------------------------------------------------------

std::string environment(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

bool is_on(const char* name) {
  const std::string value = environment(name, "0");
  return value != "0" && value != "false" && value != "False";
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

// Cores as the runtime takes them: 0 or 0-3 or 1,3.
std::vector<int> numbers(const std::string& text) {
  std::vector<int> found;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> ends = split(part, '-');
    for (int number = std::stoi(ends.front()); number <= std::stoi(ends.back()); ++number) {
      found.push_back(number);
    }
  }
  return found;
}

// What the profiler tells of an execution: see README.md.
enum class Mode { kernels, drivers, mapping, nothing, fusion, pcores, uncorrelated, april };

Mode mode() {
  static const Mode chosen = [] {
    const std::map<std::string, Mode> names = {
        {"kernels", Mode::kernels}, {"drivers", Mode::drivers}, {"mapping", Mode::mapping},
        {"nothing", Mode::nothing}, {"fusion", Mode::fusion},   {"pcores", Mode::pcores},
        {"uncorrelated", Mode::uncorrelated}, {"april", Mode::april}};
    const auto found = names.find(environment("STANDIN_NEURON_MODE", "kernels"));
    TORCH_CHECK(found != names.end(), "STANDIN_NEURON_MODE has no such mode");
    return found->second;
  }();
  return chosen;
}

// Operators that the device has no kernel for.
const std::set<std::string>& fallback_operators() {
  static const std::set<std::string> names = [] {
    std::set<std::string> found = {"aten::cummin", "aten::searchsorted"};
    for (const std::string& name : split(environment("STANDIN_NEURON_FALLBACK"), ',')) {
      found.insert(name);
    }
    return found;
  }();
  return names;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// ---------------------------------------------------------------------------------------------------------------------
// Costs: device time in ns, by operator without its overload; several take turns
// ---------------------------------------------------------------------------------------------------------------------

constexpr int64_t kScalarCopyNs = 5000;
constexpr int64_t kScalarBytes = 8;
const char* const kRegion = "compiled region";

class Costs {
 public:
  int64_t of(const std::string& name, int64_t elements) {
    const auto listed = listed_.find(name);
    if (listed == listed_.end()) {
      return 100000 + 10 * elements;
    }
    return listed->second[turns_[name]++ % listed->second.size()];
  }

  int64_t of_copy(int64_t bytes) const {
    return bytes <= kScalarBytes ? kScalarCopyNs : 1000 + bytes / 16;
  }

  void set(const std::string& name, const std::vector<int64_t>& costs) {
    TORCH_CHECK(!costs.empty(), "no cost is given for ", name);
    listed_[name] = costs;
  }

 private:
  std::map<std::string, std::vector<int64_t>> listed_ = {
      {"aten::mul", {388167, 388167, 388166}},
      {"aten::mean", {400000}},
      {"aten::add", {390500}},
      {"aten::rsqrt", {395000}},
      {"aten::_fused_rms_norm", {403300}},
      {kRegion, {375500}}};
  std::map<std::string, size_t> turns_;
};

// ---------------------------------------------------------------------------------------------------------------------
// NEFFs: one per operator, shapes and dtypes, in the cache of the user's settings
// ---------------------------------------------------------------------------------------------------------------------

uint64_t hashed(const std::string& text, uint64_t seed = 0) {
  uint64_t hash = 14695981039346656037ULL ^ seed;
  for (const unsigned char byte : text) {
    hash = (hash ^ byte) * 1099511628211ULL;
  }
  return hash;
}

struct Neff {
  explicit Neff(const std::string& what) : what(what), hash(hashed(what)) {}

  // ab/cd/<32 hex digits>.neff, below a cache folder.
  std::filesystem::path place(const std::filesystem::path& cache) const {
    std::ostringstream key;
    key << std::hex << std::setfill('0') << std::setw(16) << hash << std::setw(16) << hashed(what, hash);
    return cache / key.str().substr(0, 2) / key.str().substr(2, 2) / (key.str() + ".neff");
  }

  void compile() const {
    const std::filesystem::path path = place(environment("TORCH_NEURONX_NEFF_CACHE_DIR", "/tmp/neff_cache"));
    if (std::filesystem::exists(path)) {
      return;
    }
    std::filesystem::create_directories(path.parent_path());
    const std::filesystem::path unfinished = path.string() + ".tmp." + std::to_string(getpid());
    write_file(unfinished, "constructed: a stand-in NEFF of " + what + "\n");
    std::filesystem::rename(unfinished, path);
  }

  std::string what;
  uint64_t hash;
};

// ---------------------------------------------------------------------------------------------------------------------
// Cores: files that a process holds for as long as it lives
// ---------------------------------------------------------------------------------------------------------------------

class Cores {
 public:
  // How many devices this process sees. Takes none.
  static int count() {
    const std::string visible = environment("NEURON_RT_VISIBLE_CORES");
    return visible.empty() ? std::stoi(environment("NEURON_RT_NUM_CORES", std::to_string(all()).c_str()))
                           : static_cast<int>(numbers(visible).size());
  }

  // Raises where they are held by others.
  void take() {
    const std::string folder = environment("STANDIN_NEURON_CORES");
    if (folder.empty()) {
      return;
    }
    const std::string visible = environment("NEURON_RT_VISIBLE_CORES");
    std::vector<int> wanted = numbers("0-" + std::to_string(all() - 1));
    if (!visible.empty()) {
      wanted = numbers(visible);
    }
    const size_t requested = static_cast<size_t>(count());
    std::vector<int> taken;
    for (size_t i = 0; i < wanted.size() && taken.size() < requested; ++i) {
      const int file = lock(std::filesystem::path(folder) / ("core" + std::to_string(wanted[i])));
      if (file >= 0) {
        taken.push_back(file);
      }
    }
    if (taken.size() < requested) {
      std::for_each(taken.begin(), taken.end(), close);
      refuse(requested, taken.size());
    }
  }

 private:
  static int all() {
    return std::stoi(environment("STANDIN_NEURON_CORE_COUNT", "2"));
  }

  // The open file, or -1. Tried for a moment, since neuron-ls takes the lock while it looks.
  static int lock(const std::filesystem::path& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    TORCH_CHECK(file >= 0, "there is no core ", path.string());
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        const std::string pid = std::to_string(getpid());
        const bool written = ftruncate(file, 0) == 0 && write(file, pid.data(), pid.size()) > 0;
        TORCH_CHECK(written, "core ", path.string(), " cannot be written");
        return file;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    close(file);
    return -1;
  }

  [[noreturn]] static void refuse(size_t requested, size_t available) {
    const std::time_t now = std::time(nullptr);
    std::cerr << std::put_time(std::localtime(&now), "%Y-%b-%d %H:%M:%S.000000") << "  " << getpid() << ":" << getpid()
              << "  ERROR   NRT:nrt_allocate_neuron_cores               NeuronCore(s) not available - Requested:"
              << requested << " Available:" << available << std::endl;
    TORCH_CHECK(false, "the Neuron runtime could not be started");
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// What runs on the device
// ---------------------------------------------------------------------------------------------------------------------

// The profiler's ids of the operators that are open in this thread, outermost first.
thread_local std::vector<uint64_t> open_operators;
// Inside of a compiled region operators are part of it and no executions of their own.
thread_local bool is_in_region = false;
thread_local c10::DeviceIndex current_device = 0;
thread_local c10::StreamId current_stream = 0;

uint64_t open_operator() {
  return open_operators.empty() ? 0 : open_operators.back();
}

// A framework operator as the mapping file names it.
struct FrameworkOp {
  uint64_t sequence_nr;
  uint64_t thread;
  int64_t stream;
};

enum class Kind { execution, write, read };

// One piece of work on the device.
struct Execution {
  Kind kind;
  std::string name;
  int64_t cost_ns;
  int64_t device;
  std::optional<Neff> neff;
  int64_t sequence_id = 0;
  int64_t stream = current_stream;
  // The operator that it belongs to, by the profiler's id; 0 for none.
  uint64_t linked = open_operator();
  std::vector<FrameworkOp> operators = {
      {at::sequence_number::peek(), at::RecordFunction::currentThreadId(), current_stream}};
  int64_t submitted_ns = now_ns();
  // The profiler session that it was submitted in; 0 for none.
  int64_t session = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// The host's part of an execution.
struct Dispatch {
  std::string name;
  int64_t start_ns;
  int64_t end_ns;
  int64_t sequence_id;
  uint64_t linked = open_operator();
  int32_t system_thread = libkineto::systemThreadId();
  int32_t thread = libkineto::threadId();
};

// What one profiler session saw.
struct Recording {
  int64_t number;
  // By device; empty for all.
  std::set<int64_t> devices;
  int64_t most_events;
  std::deque<Execution> executions;
  std::vector<Dispatch> dispatches;
  int64_t dropped = 0;

  void add(const Execution& execution) {
    if (!devices.empty() && devices.count(execution.device) == 0) {
      return;
    }
    const auto is_same = [&](const Execution& other) { return other.device == execution.device; };
    if (std::count_if(executions.begin(), executions.end(), is_same) >= most_events) {
      executions.erase(std::find_if(executions.begin(), executions.end(), is_same));
      ++dropped;
    }
    executions.push_back(execution);
  }
};

class Device {
 public:
  // Starts the runtime, once, at the first use of memory.
  void ensure_started() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (started_in_ != 0) {
      TORCH_CHECK(started_in_ == getpid(), "the Neuron runtime was started before this process was forked; use spawn");
      return;
    }
    cores_.take();
    started_in_ = getpid();
    if (is_on("NEURON_RT_INSPECT_ENABLE")) {
      const std::filesystem::path folder = environment("NEURON_RT_INSPECT_OUTPUT_DIR", "./output");
      std::filesystem::create_directories(folder);
      write_file(folder / "wrong.txt", "constructed: the runtime captured by itself, beside the profiler\n");
      std::cerr << "Warning: NEURON_RT_INSPECT_ENABLE is set, the runtime captures by itself" << std::endl;
    }
  }

  bool is_started() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return started_in_ != 0;
  }

  // Queues work whose dispatch began at start_ns. The cost of what is listed by name is looked up here.
  void submit(Execution execution, const std::string& dispatch, int64_t start_ns) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (execution.neff) {
      execution.neff->compile();
    }
    execution.session = recording_ == nullptr ? 0 : recording_->number;
    const int64_t sequence_id = enqueue(std::move(execution));
    if (recording_ != nullptr && mode() != Mode::nothing) {
      recording_->dispatches.push_back({dispatch, start_ns, now_ns(), sequence_id});
    }
  }

  int64_t cost(const std::string& name, int64_t elements) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return costs_.of(name, elements);
  }

  int64_t cost_of_copy(int64_t bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return costs_.of_copy(bytes);
  }

  void set_costs(const std::string& name, const std::vector<int64_t>& costs) {
    const std::lock_guard<std::mutex> guard(mutex_);
    costs_.set(name, costs);
  }

  // Waits until all that a device has in its queue is done.
  void drain(int64_t device) {
    int64_t end_ns = 0;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      std::deque<Execution> waiting;
      for (Execution& execution : queue_) {
        if (execution.device != device) {
          waiting.push_back(std::move(execution));
          continue;
        }
        int64_t& is_free_ns = is_free_ns_[{execution.device, execution.stream}];
        execution.start_ns = std::max(execution.submitted_ns, is_free_ns);
        execution.end_ns = execution.start_ns + execution.cost_ns;
        is_free_ns = execution.end_ns;
        end_ns = std::max(end_ns, execution.end_ns);
        if (recording_ != nullptr && execution.session == recording_->number) {
          recording_->add(execution);
        }
      }
      queue_ = std::move(waiting);
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<int64_t>(0, end_ns - now_ns())));
  }

  void begin(Recording* recording) {
    const std::lock_guard<std::mutex> guard(mutex_);
    recording->number = ++sessions_;
    recording_ = recording;
  }

  // What is still queued is lost to the recording.
  void end() {
    const std::lock_guard<std::mutex> guard(mutex_);
    recording_ = nullptr;
  }

 private:
  int64_t enqueue(Execution&& execution) {
    if (mode() == Mode::fusion && execution.kind == Kind::execution && !queue_.empty()) {
      Execution& last = queue_.back();
      if (last.kind == Kind::execution && last.device == execution.device && last.stream == execution.stream) {
        fuse(last, execution);
        return last.sequence_id;
      }
    }
    execution.sequence_id = ++sequence_ids_;
    queue_.push_back(std::move(execution));
    return sequence_ids_;
  }

  static void fuse(Execution& into, const Execution& execution) {
    into.neff.emplace(into.neff->what + " + " + execution.neff->what);
    into.neff->compile();
    into.name = "graph_" + std::to_string(into.neff->hash);
    into.cost_ns += execution.cost_ns;
    into.linked = execution.linked;
    into.operators.insert(into.operators.end(), execution.operators.begin(), execution.operators.end());
  }

  std::mutex mutex_;
  // The process that started the runtime; 0 for none.
  pid_t started_in_ = 0;
  Cores cores_;
  Costs costs_;
  std::deque<Execution> queue_;
  std::map<std::pair<int64_t, int64_t>, int64_t> is_free_ns_;
  Recording* recording_ = nullptr;
  int64_t sessions_ = 0;
  int64_t sequence_ids_ = 0;
};

// Never destroyed: threads of autograd and tensors of the user's may outlive the statics of a process.
Device& device() {
  static Device& one = *new Device();
  return one;
}

// ---------------------------------------------------------------------------------------------------------------------
// The profiler's plugin
// ---------------------------------------------------------------------------------------------------------------------

// What NeuronConfig passes, or the user in the April form: name:value;name:value.
class Options {
 public:
  explicit Options(const std::string& text) {
    for (const std::string& part : split(text, ';')) {
      const std::vector<std::string> halves = split(part, ':');
      if (halves.size() == 2 && halves[1].find(' ') == std::string::npos) {
        values_[halves[0]] = halves[1];
      } else {
        std::cerr << "Warning: ignored the profiler option '" << part << "'" << std::endl;
      }
    }
  }

  std::string get(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }

  bool has_mode(const std::string& name) const {
    // The April build derives them from the activities.
    const std::vector<std::string> modes = split(get("modes", "DEVICE,RUNTIME,CPU_UTIL"), ',');
    return std::find(modes.begin(), modes.end(), name) != modes.end() ||
        (name == "HOST_MEMORY" && get("host_memory", "false") == "true");
  }

  bool is_empty() const {
    return values_.empty();
  }

 private:
  std::map<std::string, std::string> values_;
};

// What is left of the last session, for NeuronProfiler.export_trace.
struct LastSession {
  std::string folder;
  std::vector<Execution> executions;
};

LastSession& last_session() {
  static LastSession& one = *new LastSession();
  return one;
}

// What the host's threads have on, operators and ranges, as the system profile of a capture shows it.
struct HostRange {
  std::string name;
  int64_t start_ns;
  int64_t end_ns;
  int32_t thread;
};

// Watches them while it lives.
class HostRanges {
 public:
  HostRanges()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback(began, ended).scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}))) {
    const std::lock_guard<std::mutex> guard(mutex());
    found().clear();
  }

  ~HostRanges() {
    at::removeCallback(handle_);
  }

  HostRanges(const HostRanges&) = delete;
  HostRanges& operator=(const HostRanges&) = delete;

  static std::vector<HostRange> take() {
    const std::lock_guard<std::mutex> guard(mutex());
    return std::move(found());
  }

 private:
  struct Began final : at::ObserverContext {
    int64_t ns = now_ns();
  };

  static std::unique_ptr<at::ObserverContext> began(const at::RecordFunction&) {
    return std::make_unique<Began>();
  }

  static void ended(const at::RecordFunction& function, at::ObserverContext* context) {
    const std::lock_guard<std::mutex> guard(mutex());
    found().push_back({function.name(), static_cast<Began*>(context)->ns, now_ns(), libkineto::systemThreadId()});
  }

  static std::mutex& mutex() {
    static std::mutex& one = *new std::mutex();
    return one;
  }

  static std::vector<HostRange>& found() {
    static std::vector<HostRange>& all = *new std::vector<HostRange>();
    return all;
  }

  at::CallbackHandle handle_;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(Options options) : options_(std::move(options)) {
    if (is_on("STANDIN_NEURON_OOM") && options_.has_mode("DEVICE") && !options_.is_empty()) {
      throw std::runtime_error(
          "NRT:nrt_profile_start RESOURCE_EXHAUSTED: failed to allocate 5368709120 bytes of HBM for the device profile");
    }
    device().ensure_started();
    for (const int number : numbers(options_.get("capture_enabled_for_nc", ""))) {
      recording_.devices.insert(number);
    }
    recording_.most_events = std::stoll(options_.get("max_events_per_nc", "1000000"));
  }

  void start() override {
    if (mode() == Mode::april && options_.has_mode("RUNTIME")) {
      ranges_.emplace();
    }
    device().begin(&recording_);
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    device().end();
    ranges_.reset();
    status_ = libkineto::TraceStatus::PROCESSING;
    const int64_t dropped = recording_.dropped + std::stoll(environment("STANDIN_NEURON_DROPPED", "0"));
    if (dropped > 0) {
      std::cerr << "Warning: " << dropped << " trace events were dropped" << std::endl;
    }
    last_session().executions.assign(recording_.executions.begin(), recording_.executions.end());
    last_session().folder.clear();
    const std::string output = options_.get("profile_output_dir", "");
    if (!output.empty()) {
      write_folder(output);
    }
  }

  std::vector<std::string> errors() override {
    return {};
  }

  void processTrace(libkineto::ActivityLogger&) override {}

  void processTrace(
      libkineto::ActivityLogger& logger,
      libkineto::getLinkedActivityCallback linked_activity,
      int64_t,
      int64_t) override {
    // That of April adds nothing.
    if (mode() == Mode::april) {
      return;
    }
    for (const Dispatch& dispatch : recording_.dispatches) {
      auto& activity = add(libkineto::ActivityType::PRIVATEUSE1_RUNTIME, dispatch.name);
      activity.startTime = dispatch.start_ns;
      activity.endTime = dispatch.end_ns;
      activity.id = static_cast<int32_t>(dispatch.sequence_id);
      activity.device = libkineto::processId();
      activity.resource = dispatch.system_thread;
      activity.threadId = dispatch.thread;
      activity.linked = linked_activity(static_cast<int32_t>(dispatch.linked));
    }
    if (tells_executions()) {
      for (const Execution& execution : recording_.executions) {
        add_execution(execution, linked_activity);
      }
    }
    for (const auto& activity : buffer_->activities) {
      activity->log(logger);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr;
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {};
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  std::unordered_map<std::string, std::string> getMetadata() override {
    return {{"constructed", "\"by a stand-in for a Neuron device\""}};
  }

  void pushCorrelationId(uint64_t id) override {
    open_operators.push_back(id);
  }

  void popCorrelationId() override {
    // Of an operator that was open when the session began there is none.
    if (!open_operators.empty()) {
      open_operators.pop_back();
    }
  }

 private:
  static bool tells_executions() {
    return mode() != Mode::mapping && mode() != Mode::nothing;
  }

  bool is_correlated() const {
    return mode() != Mode::uncorrelated &&
        options_.get("correlate_device_time", options_.is_empty() ? "true" : "false") == "true";
  }

  libkineto::GenericTraceActivity& add(libkineto::ActivityType type, const std::string& name) {
    buffer_->emplace_activity(buffer_->span, type, name);
    return *buffer_->activities.back();
  }

  void add_execution(const Execution& execution, const libkineto::getLinkedActivityCallback& linked_activity) {
    using libkineto::ActivityType;
    ActivityType type = execution.kind == Kind::execution ? ActivityType::CONCURRENT_KERNEL : ActivityType::GPU_MEMCPY;
    if (mode() == Mode::drivers || !is_correlated()) {
      type = ActivityType::PRIVATEUSE1_DRIVER;
    }
    // Of two physical cores one starts later and ends earlier.
    const int physical_cores = mode() == Mode::pcores && execution.kind == Kind::execution ? 2 : 1;
    for (int core = 0; core < physical_cores; ++core) {
      auto& activity = add(type, execution.name);
      activity.startTime = execution.start_ns + 2000 * core;
      activity.endTime = execution.end_ns - 2000 * core;
      activity.id = static_cast<int32_t>(execution.sequence_id);
      activity.device = static_cast<int32_t>(execution.device);
      activity.resource = static_cast<int32_t>(physical_cores * execution.stream + core);
      activity.linked = is_correlated() ? linked_activity(static_cast<int32_t>(execution.linked)) : nullptr;
      activity.addMetadata("nrt_sequence_id", execution.sequence_id);
    }
  }

  void write_folder(const std::string& output) {
    const int64_t now = now_ns();
    const std::filesystem::path folder = std::filesystem::path(output) /
        ("i-0standin0000000_pid_" + std::to_string(getpid())) / std::to_string(now);
    std::filesystem::create_directories(folder);
    last_session().folder = folder.string();
    copy_neffs(folder);
    if (options_.has_mode("DEVICE")) {
      write_device_profiles(folder);
    }
    const auto write = [&](const char* mode, const char* name) {
      if (options_.has_mode(mode)) {
        write_file(folder / name, std::string("constructed: a stand-in for ") + name + "\n");
      }
    };
    write("RUNTIME", "ntrace.pb");
    write("RUNTIME", "trace_info.pb");
    write("CPU_UTIL", "cpu_util.pb");
    write("HOST_MEMORY", "host_mem.pb");
    if (mode() == Mode::mapping || mode() == Mode::fusion || mode() == Mode::april) {
      write_file(folder / ("framework_mapping_" + std::to_string(now) + ".json"), mapping());
    }
    if (mode() == Mode::april && options_.has_mode("RUNTIME")) {
      write_file(folder / "standin_events.json", system_events());
    }
  }

  // For the stand-in of neuron-explorer: the rows of its table SystemProfileEvents. An execution has the flow of its
  // dispatch on the way to the runtime, and another one from there to the core.
  std::string system_events() const {
    std::ostringstream text;
    int64_t rows = 0;
    const auto row = [&](const std::string& name, const char* source, int64_t start_ns, int64_t end_ns) -> std::ostream& {
      text << (rows == 0 ? "[" : ",\n ") << R"({"id": )" << ++rows << R"(, "name": ")" << name
           << R"(", "trace_event_source": ")" << source << R"(", "start_ts": )" << start_ns << R"(, "end_ts": )" << end_ns
           << R"(, "duration_ns": )" << end_ns - start_ns << R"(, "process_id": )" << getpid();
      return text;
    };
    for (const HostRange& range : HostRanges::take()) {
      row(range.name, "framework", range.start_ns, range.end_ns)
          << R"(, "thread_id": )" << range.thread << R"(, "flow_id": []})";
    }
    for (const Dispatch& dispatch : recording_.dispatches) {
      row(dispatch.name, "framework", dispatch.start_ns, dispatch.end_ns)
          << R"(, "thread_id": )" << dispatch.system_thread << R"(, "flow_id": [")" << 2 * dispatch.sequence_id << R"("]})";
    }
    for (const Execution& execution : recording_.executions) {
      const std::string asked = std::to_string(2 * execution.sequence_id);
      const std::string done = std::to_string(2 * execution.sequence_id + 1);
      if (execution.kind != Kind::execution) {
        row(execution.kind == Kind::write ? "dmem_buf_copyin" : "dmem_buf_copyout", "neuron_rt", execution.start_ns,
            execution.end_ns)
            << R"(, "nc_idx": )" << execution.device << R"(, "flow_id": [")" << asked << R"("]})";
        continue;
      }
      row("nrta_execute_schedule", "neuron_rt", execution.submitted_ns, execution.submitted_ns + 1000)
          << R"(, "nc_idx": )" << execution.device << R"(, "flow_id": [")" << asked << R"(", ")" << done << R"("]})";
      row("nc_exec_running", "neuron_hw", execution.start_ns, execution.end_ns)
          << R"(, "nc_idx": )" << execution.device << R"(, "pcore_idx": 0, "flow_id": [")" << done << R"("]})";
    }
    text << (rows == 0 ? "[]" : "]");
    return text.str();
  }

  // What is not in the cache that was named stays missing.
  void copy_neffs(const std::filesystem::path& folder) const {
    const std::filesystem::path cache =
        options_.get("neff_cache_dir", environment("TORCH_NEURONX_NEFF_CACHE_DIR", "/tmp/neff_cache"));
    for (const Execution& execution : recording_.executions) {
      if (!execution.neff || !std::filesystem::exists(execution.neff->place(cache))) {
        continue;
      }
      const std::string name =
          "neff_" + std::to_string(execution.neff->hash) + "_vnc_" + std::to_string(execution.device) + ".neff";
      std::filesystem::copy_file(
          execution.neff->place(cache), folder / name, std::filesystem::copy_options::overwrite_existing);
    }
  }

  void write_device_profiles(const std::filesystem::path& folder) const {
    for (int64_t number = 0; number < Cores::count(); ++number) {
      if (!recording_.devices.empty() && recording_.devices.count(number) == 0) {
        continue;
      }
      std::string content;
      for (const Execution& execution : recording_.executions) {
        if (execution.device == number && execution.kind == Kind::execution) {
          content += "constructed: " + execution.name + " " + std::to_string(execution.cost_ns) + " ns\n";
        }
      }
      write_file(folder / ("profile_nc_" + std::to_string(number) + "_session_0.ntff"), content);
    }
  }

  std::string mapping() const {
    std::ostringstream text;
    text << R"({"version": 1, "constructed": "by a stand-in for a Neuron device", "data": [)";
    const char* comma = "";
    for (const Execution& execution : recording_.executions) {
      text << comma << R"({"nrta_seq_id": )" << execution.sequence_id << R"(, "framework_op_exec_ids": [)";
      comma = "";
      for (const FrameworkOp& op : execution.operators) {
        text << comma << R"({"seq_nr": )" << op.sequence_nr << R"(, "th_id": )" << op.thread << R"(, "stream_id": )"
             << op.stream << "}";
        comma = ", ";
      }
      text << "]}";
    }
    text << "]}\n";
    return text.str();
  }

  Options options_;
  Recording recording_{};
  std::optional<HostRanges> ranges_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
};

class NeuronProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string text = "neuron";
    return text;
  }

  const std::set<libkineto::ActivityType>& availableActivities() const override {
    using libkineto::ActivityType;
    static const std::set<ActivityType> types = {
        ActivityType::CONCURRENT_KERNEL,
        ActivityType::GPU_MEMCPY,
        ActivityType::PRIVATEUSE1_RUNTIME,
        ActivityType::PRIVATEUSE1_DRIVER};
    return types;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<libkineto::ActivityType>& types,
      const libkineto::Config& config) override {
    const bool is_wanted = types.count(libkineto::ActivityType::PRIVATEUSE1_RUNTIME) > 0;
    return is_wanted ? std::make_unique<Session>(Options(config.getCustomConfig())) : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t,
      int64_t,
      const std::set<libkineto::ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }
};

using torch::profiler::impl::RegisterPrivateUse1Profiler;
const RegisterPrivateUse1Profiler<NeuronProfiler> register_profiler;

// ---------------------------------------------------------------------------------------------------------------------
// Memory and streams
// ---------------------------------------------------------------------------------------------------------------------

c10::Device neuron(int64_t index) {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

std::atomic<int64_t> allocated_bytes{0};

class Memory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    device().ensure_started();
    allocated_bytes += static_cast<int64_t>(bytes);
    auto* block = new Block{c10::GetAllocator(c10::kCPU)->allocate(bytes), static_cast<int64_t>(bytes)};
    return {block->memory.get(), block, &free, neuron(current_device)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    // The context is not the memory.
    return nullptr;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  bool initialized() override {
    return device().is_started();
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = allocated_bytes;
    return stats;
  }

  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}

 private:
  struct Block {
    c10::DataPtr memory;
    int64_t bytes;
  };

  static void free(void* context) {
    auto* block = static_cast<Block*>(context);
    allocated_bytes -= block->bytes;
    delete block;
  }
};

Memory& memory() {
  static Memory& one = *new Memory();
  return one;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override {
    return c10::DeviceType::PrivateUse1;
  }

  c10::Device exchangeDevice(c10::Device other) const override {
    const c10::Device before = getDevice();
    setDevice(other);
    return before;
  }

  c10::Device getDevice() const override {
    return neuron(current_device);
  }

  void setDevice(c10::Device other) const override {
    TORCH_CHECK(other.index() < deviceCount(), "there is no neuron:", static_cast<int>(other.index()));
    uncheckedSetDevice(other);
  }

  void uncheckedSetDevice(c10::Device other) const noexcept override {
    current_device = std::max<c10::DeviceIndex>(other.index(), 0);
  }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Cores::count());
  }

  c10::Stream getStream(c10::Device of) const override {
    return c10::Stream(c10::Stream::UNSAFE, of, current_stream);
  }

  c10::Stream getDefaultStream(c10::Device of) const override {
    return c10::Stream(c10::Stream::DEFAULT, of);
  }

  c10::Stream getNewStream(c10::Device of, int) const override {
    static std::atomic<c10::StreamId> streams{0};
    return c10::Stream(c10::Stream::UNSAFE, of, ++streams);
  }

  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override {
    return getNewStream(of, 0);
  }

  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    current_stream = stream.id();
    return before;
  }

  bool queryStream(const c10::Stream&) const override {
    return true;
  }

  void synchronizeStream(const c10::Stream& stream) const override {
    device().drain(stream.device_index());
  }

  void synchronizeDevice(const c10::DeviceIndex index) const override {
    device().drain(index);
  }

  // Values are there as soon as they are queued, so an event has nothing to wait for.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    static int recorded = 0;
    *event = &recorded;
  }

  void block(void*, const c10::Stream&) const override {}

  bool queryEvent(void*) const override {
    return true;
  }

  void synchronizeEvent(void*) const override {
    device().drain(current_device);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }

  bool isAvailable() const override {
    return Cores::count() > 0;
  }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(Cores::count());
  }

  c10::DeviceIndex getCurrentDevice() const override {
    return current_device;
  }

  void setCurrentDevice(c10::DeviceIndex index) const override {
    Guard().setDevice(neuron(index));
  }

  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return Guard().exchangeDevice(neuron(index)).index();
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }

  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return device().is_started();
  }

  // Random numbers are the CPU's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }

  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::DataPtr moved = memory().allocate(bytes);
    memory().copy_data(moved.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(moved));
    storage.set_nbytes(bytes);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// ---------------------------------------------------------------------------------------------------------------------
// Operators
// ---------------------------------------------------------------------------------------------------------------------

bool is_on_device(const Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

Tensor make_tensor(c10::Storage storage, DispatchKey key, const Tensor& like) {
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  made._set_conj(like.is_conj());
  made._set_neg(like.is_neg());
  return made;
}

// The memory of another storage, which it keeps alive.
c10::Storage shared(const c10::Storage& storage, c10::Device on, c10::Allocator* allocator) {
  const auto release = [](void* context) { delete static_cast<c10::Storage*>(context); };
  c10::DataPtr pointer(const_cast<void*>(storage.data()), new c10::Storage(storage), release, on);
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(pointer), allocator, /*resizable=*/true};
}

// Tensors of one call on the device, as the CPU's kernels see them, and back.
class Aliases {
 public:
  Tensor on_cpu(const Tensor& tensor) {
    if (!is_on_device(tensor)) {
      return tensor;
    }
    for (const auto& [original, alias] : tensors_) {
      if (original.is_same(tensor)) {
        return alias;
      }
    }
    tensors_.emplace_back(tensor, make_tensor(storage_on_cpu(tensor.storage()), DispatchKey::CPU, tensor));
    return tensors_.back().second;
  }

  // Results of the CPU's kernels. What is an argument stays that argument, and a view one of its storage.
  Tensor on_device(const Tensor& result) const {
    if (!result.defined()) {
      return result;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(result.layout() == at::kStrided, "neuron has strided tensors only");
    for (const auto& [original, alias] : tensors_) {
      if (alias.is_same(result)) {
        return original;
      }
    }
    for (const auto& [original, alias] : storages_) {
      if (alias.is_alias_of(result.storage())) {
        return make_tensor(original, DispatchKey::PrivateUse1, result);
      }
    }
    device().ensure_started();
    return make_tensor(
        shared(result.storage(), neuron(current_device), &memory()), DispatchKey::PrivateUse1, result);
  }

  // What the kernel resized, such as an out= tensor, is resized on the device too.
  void take_over_sizes() const {
    for (const auto& [original, alias] : storages_) {
      if (alias.nbytes() != original.nbytes()) {
        Hooks().resizePrivateUse1Bytes(original, alias.nbytes());
        memory().copy_data(original.mutable_data(), alias.data(), alias.nbytes());
      }
    }
    for (const auto& [original, alias] : tensors_) {
      if (alias.sizes() != original.sizes() || alias.strides() != original.strides()) {
        original.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
      }
    }
  }

 private:
  c10::Storage storage_on_cpu(const c10::Storage& storage) {
    for (const auto& [original, alias] : storages_) {
      if (original.is_alias_of(storage)) {
        return alias;
      }
    }
    storages_.emplace_back(storage, shared(storage, c10::Device(c10::kCPU), c10::GetAllocator(c10::kCPU)));
    return storages_.back().second;
  }

  std::vector<std::pair<Tensor, Tensor>> tensors_;
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;
};

// Puts what change gives in the place of each tensor of a value, also in lists.
template <typename Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> changed;
    for (const Tensor& tensor : value.toTensorVector()) {
      changed.push_back(change(tensor));
    }
    value = changed;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> changed;
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
      changed.push_back(tensor ? std::optional<Tensor>(change(*tensor)) : std::nullopt);
    }
    value = changed;
  }
}

template <typename Visit>
void visit_tensors(c10::IValue value, const Visit& visit) {
  change_tensors(value, [&](const Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

// As registration wants it: without overload, the name alone.
std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// As the trace shows it. Never the operator's own name alone: torch drops the device time of an operator whose only
// child has its name.
std::string dispatch_name(const c10::OperatorName& name) {
  return name.name + "." + (name.overload_name.empty() ? "default" : name.overload_name);
}

bool is_mutable(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Views, and what only asks for sizes or sets them, are no work for the device.
bool is_computation(const c10::FunctionSchema& schema) {
  static const std::set<std::string> metadata = {"aten::resize_", "aten::_resize_output_", "aten::is_set_to"};
  const auto is_view = [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  };
  return metadata.count(schema.name()) == 0 &&
      std::none_of(schema.returns().begin(), schema.returns().end(), is_view);
}

// Names of operators, without overload, in the process.
class OperatorLog {
 public:
  // Whether it is the first of its name.
  bool add(const std::string& name) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return names_.insert(name).second;
  }

  std::vector<std::string> names() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return {names_.begin(), names_.end()};
  }

  void clear() {
    const std::lock_guard<std::mutex> guard(mutex_);
    names_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};

OperatorLog& executed_operators() {
  static OperatorLog& one = *new OperatorLog();
  return one;
}

OperatorLog& fallen_back_operators() {
  static OperatorLog& one = *new OperatorLog();
  return one;
}

// The CPU's kernels at work for the device: nothing of it is the user's, so the profiler does not see it.
struct OutOfSight {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::DisableRecordFunctionGuard unseen;
};

// A computation or a copy, from the start of its dispatch until it is submitted.
class Work {
 public:
  Work(std::string name, std::string dispatch_name)
      : name_(std::move(name)), dispatch_name_(std::move(dispatch_name)) {}

  void submit_execution(const std::string& what, int64_t cost_ns, int64_t on) const {
    executed_operators().add(name_);
    device().submit({Kind::execution, dispatch_name_, cost_ns, on, Neff(what)}, dispatch_name_, start_ns_);
  }

  void submit_write(int64_t bytes, int64_t on) const {
    device().submit({Kind::write, "nrt_tensor_write", device().cost_of_copy(bytes), on}, dispatch_name_, start_ns_);
  }

  // Reading waits for what was queued before.
  void submit_read(int64_t bytes, int64_t on) const {
    device().submit({Kind::read, "nrt_tensor_read", device().cost_of_copy(bytes), on}, dispatch_name_, start_ns_);
    device().drain(on);
  }

 private:
  std::string name_;
  std::string dispatch_name_;
  int64_t start_ns_ = now_ns();
};

int64_t bytes_of(const Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes());
}

// The device that a call is on: that of its first tensor there; none where it has no such tensor.
std::optional<int64_t> device_of(const torch::jit::Stack& arguments) {
  std::optional<int64_t> found;
  for (const c10::IValue& argument : arguments) {
    visit_tensors(argument, [&](const Tensor& tensor) {
      if (!found && is_on_device(tensor)) {
        found = tensor.device().index();
      }
    });
  }
  return found;
}

// Copies operands of the host as the device needs them; returns what that costs where they are folded in.
int64_t bring_operands(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments, int64_t on) {
  int64_t folded_ns = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_mutable(schema.arguments()[i])) {
      continue;
    }
    visit_tensors(arguments[i], [&](const Tensor& tensor) {
      if (!tensor.defined() || is_on_device(tensor)) {
        return;
      }
      // Indices may be on the host, operands may not.
      TORCH_CHECK(
          tensor.dim() == 0 || !arguments[i].isTensor(),
          "Expected all tensors to be on the same device, but found at least two devices, neuron:", on, " and ",
          tensor.device(), "!");
      if (mode() == Mode::fusion && tensor.dim() == 0) {
        folded_ns += kScalarCopyNs;
      } else {
        // The copy is for the trace, as the kernels of the CPU take the original.
        tensor.to(neuron(on));
      }
    });
  }
  return folded_ns;
}

// What a NEFF is compiled for.
std::string described(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  std::ostringstream text;
  text << full_name(op.operator_name());
  for (const c10::IValue& argument : arguments) {
    visit_tensors(argument, [&](const Tensor& tensor) {
      if (tensor.defined()) {
        text << " " << tensor.dtype() << tensor.sizes();
      }
    });
  }
  return text.str();
}

// Runs a kernel of the CPU on the memory of the device; gives the number of elements of its results.
int64_t compute(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const OutOfSight out_of_sight;
  Aliases aliases;
  for (c10::IValue& argument : stack) {
    if (argument.isDevice() && argument.toDevice().type() == c10::DeviceType::PrivateUse1) {
      argument = c10::Device(c10::kCPU);
    }
    change_tensors(argument, [&](const Tensor& tensor) { return aliases.on_cpu(tensor); });
  }
  op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), &stack);
  aliases.take_over_sizes();
  int64_t elements = 0;
  for (c10::IValue& result : stack) {
    change_tensors(result, [&](const Tensor& tensor) {
      elements += tensor.defined() ? tensor.numel() : 0;
      return aliases.on_device(tensor);
    });
  }
  return elements;
}

void run_on_device(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto arguments = torch::jit::last(*stack, schema.arguments().size());
  torch::jit::Stack call(arguments.begin(), arguments.end());
  const int64_t on = device_of(call).value_or(current_device);
  const c10::DeviceGuard guard(neuron(on));
  const bool is_work = is_computation(schema) && !is_in_region;
  const int64_t folded_ns = is_work ? bring_operands(schema, call, on) : 0;
  const std::string what = is_work ? described(op, call) : "";
  const Work work(schema.name(), dispatch_name(op.operator_name()));
  const int64_t elements = compute(op, call);
  if (is_work) {
    work.submit_execution(what, device().cost(schema.name(), elements) + folded_ns, on);
    const auto is_number = [](const c10::IValue& result) { return result.isScalar(); };
    if (std::any_of(call.begin(), call.end(), is_number)) {
      work.submit_read(1, on);
    }
  }
  torch::jit::drop(*stack, schema.arguments().size());
  stack->insert(stack->end(), call.begin(), call.end());
}

// On the host, with copies there and back that the profiler sees.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_on("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"),
      "Operator '", schema.name(), "' is not supported on Neuron, and its execution on the CPU is disabled");
  if (fallen_back_operators().add(schema.name())) {
    std::cerr << "[W standin] Operator '" << schema.name() << "' fell back to CPU" << std::endl;
  }
  const auto arguments = torch::jit::last(*stack, schema.arguments().size());
  torch::jit::Stack call(arguments.begin(), arguments.end());
  const int64_t on = device_of(call).value_or(current_device);
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (c10::IValue& argument : call) {
    change_tensors(argument, [&](const Tensor& tensor) {
      if (!is_on_device(tensor)) {
        return tensor;
      }
      copies.emplace_back(tensor, tensor.to(at::kCPU));
      return copies.back().second;
    });
  }
  op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), &call);
  for (c10::IValue& result : call) {
    change_tensors(result, [&](const Tensor& tensor) {
      for (const auto& [original, copy] : copies) {
        if (copy.is_same(tensor)) {
          original.resize_(copy.sizes());
          return original.copy_(copy);
        }
      }
      return tensor.defined() ? tensor.to(neuron(on)) : tensor;
    });
  }
  torch::jit::drop(*stack, schema.arguments().size());
  stack->insert(stack->end(), call.begin(), call.end());
}

void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool is_fallback = fallback_operators().count(op.operator_name().name) > 0;
  is_fallback && !is_in_region ? run_on_host(op, stack) : run_on_device(op, stack);
}

Tensor& copy(Tensor& self, const Tensor& source, bool) {
  const int64_t on = (is_on_device(self) ? self : source).device().index();
  const Work work("aten::copy_", "aten::copy_.default");
  {
    const OutOfSight out_of_sight;
    Aliases aliases;
    Tensor to = aliases.on_cpu(self);
    to.copy_(aliases.on_cpu(source));
  }
  if (is_in_region) {
    return self;
  }
  if (!is_on_device(source)) {
    work.submit_write(bytes_of(source), on);
  } else if (!is_on_device(self)) {
    work.submit_read(bytes_of(source), on);
  } else {
    std::ostringstream what;
    what << "aten::copy_ " << source.dtype() << " to " << self.dtype() << self.sizes();
    work.submit_execution(what.str(), device().cost("aten::copy_", self.numel()), on);
  }
  return self;
}

at::Scalar item(const Tensor& self) {
  const Work work("aten::_local_scalar_dense", "aten::_local_scalar_dense.default");
  if (!is_in_region) {
    work.submit_read(bytes_of(self), self.device().index());
  }
  const OutOfSight out_of_sight;
  return at::native::_local_scalar_dense_cpu(Aliases().on_cpu(self));
}

Tensor empty(
    at::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device> on,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(on.value_or(neuron(current_device)));
  const c10::DispatchKeySet keys(DispatchKey::PrivateUse1);
  return at::detail::empty_generic(size, &memory(), keys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(
    at::IntArrayRef size,
    at::IntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device> on,
    std::optional<bool>) {
  const c10::DeviceGuard guard(on.value_or(neuron(current_device)));
  const c10::DispatchKeySet keys(DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(size, stride, &memory(), keys, c10::dtype_or_default(dtype));
}

Tensor& set_part_of_storage(
    Tensor& self,
    at::Storage source,
    int64_t offset,
    at::IntArrayRef size,
    at::IntArrayRef stride) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  if (stride.empty()) {
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  } else {
    impl->set_sizes_and_strides(size, stride, offset);
  }
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_part_of_storage(self, std::move(source), 0, {elements}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_part_of_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

// The one that is made of other operators: those of the others take the memory of a CPU or a GPU.
int64_t choose_attention(
    const Tensor&,
    const Tensor&,
    const Tensor&,
    const std::optional<Tensor>&,
    double,
    bool,
    std::optional<double>,
    bool) {
  constexpr int64_t kMath = 0;
  return kMath;
}

// The CPU has none of its own, since autograd sees what its forward is made of.
std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& gradient,
    const Tensor& input,
    at::IntArrayRef shape,
    const Tensor& rstd,
    const std::optional<Tensor>& weight,
    std::array<bool, 2> wanted) {
  const Work work("aten::_fused_rms_norm_backward", "aten::_fused_rms_norm_backward.default");
  Tensor input_gradient;
  Tensor weight_gradient;
  {
    const OutOfSight out_of_sight;
    Aliases aliases;
    const Tensor grown = aliases.on_cpu(gradient).to(at::kFloat);
    const Tensor normalised = aliases.on_cpu(input).to(at::kFloat) * aliases.on_cpu(rstd);
    const Tensor weighted = weight ? grown * aliases.on_cpu(*weight) : grown;
    std::vector<int64_t> inner(shape.size());
    std::iota(inner.begin(), inner.end(), -static_cast<int64_t>(shape.size()));
    const Tensor mean = (weighted * normalised).mean(inner, /*keepdim=*/true);
    const Tensor result = aliases.on_cpu(rstd) * (weighted - normalised * mean);
    input_gradient = aliases.on_device(result.to(input.scalar_type()));
    if (weight && wanted[1]) {
      const Tensor sum = (grown * normalised).sum_to_size(shape);
      weight_gradient = aliases.on_device(sum.to(weight->scalar_type()));
    }
  }
  if (!is_in_region) {
    const int64_t on = input.device().index();
    const std::string what = "aten::_fused_rms_norm_backward of " + std::to_string(input.numel()) + " elements";
    work.submit_execution(what, device().cost("aten::_fused_rms_norm_backward", input.numel()), on);
  }
  return {input_gradient, weight_gradient};
}

// Every operator that the CPU has a kernel for is one of the device too, and so none that is made of others.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("copy_", copy);
  library.impl("_local_scalar_dense", item);
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", at::native::resize_);
  library.impl("set_.source_Storage", set_storage);
  library.impl("set_.source_Storage_storage_offset", set_part_of_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("_fused_sdp_choice", choose_attention);
  library.impl("_fused_rms_norm_backward", rms_norm_backward);
  // On the CPU these are made of others, on the device they are one execution.
  const std::set<std::string> made_of_others = {
      "aten::_fused_rms_norm", "aten::convolution", "aten::convolution_backward"};
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.getNamespace() != std::string_view("aten") || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
      continue;
    }
    const bool is_fallback = fallback_operators().count(name.name) > 0;
    if (is_fallback || made_of_others.count(name.name) > 0 || op->hasKernelForDispatchKey(DispatchKey::CPU)) {
      library.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run>());
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}

// Autocast changes nothing: torch's lists of what to lower would triple the time to compile this file.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

// ---------------------------------------------------------------------------------------------------------------------
// Compiled regions
// ---------------------------------------------------------------------------------------------------------------------

// Around the operators of a compiled graph, which are one execution.
class Region {
 public:
  explicit Region(std::string what) : what_(std::move(what)) {}

  void enter() {
    before_ = std::exchange(is_in_region, true);
    unseen_.emplace();
    work_.emplace(kRegion, "graph_" + std::to_string(Neff(what_).hash));
  }

  void exit(bool is_done) {
    unseen_.reset();
    is_in_region = before_;
    if (is_done) {
      work_->submit_execution(what_, device().cost(kRegion, 0), current_device);
    }
  }

 private:
  std::string what_;
  bool before_ = false;
  std::optional<at::DisableRecordFunctionGuard> unseen_;
  std::optional<Work> work_;
};

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// What torch_neuronx calls
// ---------------------------------------------------------------------------------------------------------------------

PYBIND11_MODULE(neuron_device, module) {
  module.doc() = "A stand-in for a Neuron device, constructed.";
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &memory());

  module.def("device_count", [] { return Cores::count(); });
  module.def("is_initialized", [] { return device().is_started(); });
  module.def("current_device", [] { return static_cast<int>(current_device); });
  module.def("set_device", [](int64_t index) { Guard().setDevice(neuron(index)); });
  module.def("memory_allocated", [] { return allocated_bytes.load(); });
  module.def("synchronize", [](int64_t index) { device().drain(index); }, py::call_guard<py::gil_scoped_release>());
  module.def("set_costs", [](const std::string& name, const std::vector<int64_t>& costs) {
    device().set_costs(name, costs);
  });
  module.def("executed_operators", [] { return executed_operators().names(); });
  module.def("fallen_back_operators", [] { return fallen_back_operators().names(); });
  module.def("clear_operators", [] {
    executed_operators().clear();
    fallen_back_operators().clear();
  });
  module.def("last_session_folder", [] { return last_session().folder; });
  module.def("last_session_executions", [] {
    py::list rows;
    for (const Execution& execution : last_session().executions) {
      rows.append(py::make_tuple(
          execution.name, execution.sequence_id, execution.device, execution.stream, execution.start_ns,
          execution.end_ns));
    }
    return rows;
  });
  py::class_<Region>(module, "Region")
      .def(py::init<std::string>())
      .def("__enter__", &Region::enter)
      .def("__exit__", [](Region& region, const py::object& error, const py::object&, const py::object&) {
        region.exit(error.is_none());
      });
}
