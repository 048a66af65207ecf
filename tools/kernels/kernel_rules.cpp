// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rules.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

namespace cep::kernels {
namespace {

constexpr std::string_view anonymous = "(anonymous namespace)";

bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter_or_digit(char c) {
    return is_lower(c) || is_upper(c) || is_digit(c);
}

bool opens(char c) {
    return c == '<' || c == '(' || c == '[' || c == '{';
}
bool closes(char c) {
    return c == '>' || c == ')' || c == ']' || c == '}';
}

// Behind the bracket that closes the one at `at`; the end where none does. The '>' of "->" closes nothing.
std::size_t skip_brackets(std::string_view text, std::size_t at) {
    std::size_t depth = 0;
    for (; at < text.size(); ++at) {
        if (opens(text[at])) ++depth;
        const bool arrow = text[at] == '>' && at > 0 && text[at - 1] == '-';
        if (closes(text[at]) && !arrow && --depth == 0) return at + 1;
    }
    return text.size();
}

/// Walks over the components of a qualified name.
class NameScanner {
  public:
    explicit NameScanner(std::string_view text) : text_(text) {}

    FunctionName scan() {
        while (at_ < text_.size() && !ended_) step();
        take_component();
        return result_;
    }

  private:
    void step() {
        const std::string_view rest = text_.substr(at_);
        if (rest.starts_with("::")) {
            take_component();
            at_ += 2;
            begin_ = at_;
        } else if (rest.starts_with(anonymous)) {
            at_ += anonymous.size();
        } else if (rest.starts_with("operator") && at_ == begin_) {
            pass_operator();
        } else if (rest.front() == ' ') {
            pass_blank();
        } else if (opens(rest.front())) {
            pass_brackets();
        } else {
            ++at_;
        }
    }

    // "operator()", "operator<": brackets that belong to the name.
    void pass_operator() {
        at_ += std::string_view("operator").size();
        if (text_.substr(at_).starts_with("()")) at_ += 2;
        while (at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '-')) ++at_;
    }

    // A blank ends a return type, unless "const" or "[clone …]" follows.
    void pass_blank() {
        const std::string_view rest = text_.substr(at_);
        if (rest.starts_with(" const")) {
            at_ += std::string_view(" const").size();
            return;
        }
        if (rest.starts_with(" [")) {
            ended_ = true;
            return;
        }
        result_ = {};
        pending_ = {};
        ++at_;
        begin_ = at_;
    }

    void pass_brackets() {
        const std::size_t begin = at_;
        at_ = skip_brackets(text_, at_);
        if (text_[begin] == '<' && arguments_.empty() && begin > begin_)
            arguments_ = text_.substr(begin + 1, at_ - begin - 2);
        // Behind its parameters a function ends, or is the scope of what is defined inside it.
        const std::string_view rest = text_.substr(at_);
        const bool goes_on = rest.starts_with("::") || rest.starts_with(" const");
        const bool lambda = text_[begin] == '{';
        if (text_[begin] == '(' && begin > begin_ && !goes_on) ended_ = true;
        if (lambda) is_lambda_ = true;
    }

    void take_component() {
        const std::string_view whole = text_.substr(begin_, at_ > begin_ ? at_ - begin_ : 0);
        const std::string_view own =
            whole.starts_with(anonymous) ? whole : whole.substr(0, whole.find_first_of("<({ "));
        const bool nameless = own.empty() || is_lambda_ || own.starts_with("operator") || own == "type";
        if (!nameless) {
            if (!pending_.empty()) result_.scopes.push_back(pending_);
            pending_ = own;
            if (own != anonymous) {
                result_.own = own;
                result_.arguments = arguments_;
            }
        }
        arguments_ = {};
        is_lambda_ = false;
        begin_ = at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t begin_ = 0;  // of the component
    std::string_view arguments_;
    std::string_view pending_;  // the last component that has a name; a scope once another follows
    bool is_lambda_ = false;
    bool ended_ = false;
    FunctionName result_;
};

bool begins_word(std::string_view text, std::size_t i) {
    const char before = text[i - 1];
    const char here = text[i];
    if (!is_letter_or_digit(before) || is_digit(before) != is_digit(here)) return true;
    if (!is_upper(here)) return false;
    return is_lower(before) || (is_upper(before) && i + 1 < text.size() && is_lower(text[i + 1]));
}

}  // namespace

FunctionName FunctionName::parse(std::string_view text) {
    FunctionName name = NameScanner(text).scan();
    if (name.own.empty()) name.own = text;
    return name;
}

std::vector<std::string_view> split_arguments(std::string_view arguments) {
    std::vector<std::string_view> split;
    std::size_t begin = 0;
    const auto take = [&](std::size_t end) {
        std::string_view argument = arguments.substr(begin, end - begin);
        while (argument.starts_with(' ')) argument.remove_prefix(1);
        while (argument.ends_with(' ')) argument.remove_suffix(1);
        if (!argument.empty()) split.push_back(argument);
        begin = end + 1;
    };
    for (std::size_t at = 0; at < arguments.size();) {
        if (opens(arguments[at])) {
            at = skip_brackets(arguments, at);
        } else {
            if (arguments[at] == ',') take(at);
            ++at;
        }
    }
    if (begin < arguments.size()) take(arguments.size());
    return split;
}

std::vector<std::string> split_words(std::string_view identifier) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < identifier.size(); ++i) {
        const char c = identifier[i];
        if (!is_letter_or_digit(c)) continue;
        if (i == 0 || begins_word(identifier, i)) words.emplace_back();
        words.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return words;
}

std::string demangled(const std::string& name) {
    // A demangler's work can grow faster than its input; real names are far shorter.
    constexpr std::size_t max_bytes = 8192;
    if (!name.starts_with("_Z") || name.size() > max_bytes) return name;
    const std::string mangled = name.ends_with(".kd") ? name.substr(0, name.size() - 3) : name;
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

namespace {

using Where = KernelRule::Where;
using enum KernelClass;

constexpr KernelRule rules[] = {
    // Communication: libraries first, then collectives by name, wherever they come from.
    {"nccl|rccl|msccl|mscclpp|ncclx", Where::path, comm, "collective"},
    {"deep ep", Where::path, comm, "expert dispatch"},
    {"nvshmem|nvshmemi|nvshmemx|rocshmem", Where::path, comm, "one-sided"},
    {"userbuffers|kuserbuffers|symmetric memory|multimem", Where::path, comm, "collective"},
    {"put signal|wait signal|barrier kernel", Where::own, comm, "synchronisation"},
    {"cross device reduce|quickreduce|quick reduce", Where::path, comm, "collective"},
    {"all reduce|allreduce|all gather|allgather|reduce scatter|reducescatter", Where::own, comm, "collective"},
    {"all to all|alltoall|alltoallv|send recv|sendrecv", Where::own, comm, "collective"},

    // Names with words of attention or of matrix products that are neither.
    {"and cache", Where::own, memory, "copy"},

    // Attention.
    {"flash|pytorch flash|fmha|sdpa|mha|mla|attn|attention", Where::path, attention, "attention"},
    {"flash attn|fused attn|paged attn", Where::path, attention, "attention"},
    {"batch prefill|batch decode|single prefill|single decode", Where::own, attention, "attention"},
    {"dot do o|convert dq|dk dv|bwd kernel dq", Where::own, attention, "attention"},

    // Convolutions: matrix products too, of cuDNN, CUTLASS, MIOpen.
    {"conv|convolve|convolution|fprop|dgrad|wgrad|winograd|scudnn|hcudnn", Where::own, matmul, "convolution"},
    {"miopen sp asm conv|igemm fwd|igemm bwd|igemm wrw", Where::own, matmul, "convolution"},

    // Matrix products: cuBLAS, cuBLASLt, CUTLASS, Tensile, and whoever says so.
    {"nvjet|xmma|cijk|tensorop|wgmma", Where::own, matmul, "gemm"},
    {"gemm|sgemm|hgemm|dgemm|cgemm|zgemm|igemm|bgemm|kgemm|qgemm|gemmk|tinygemm|gemmk 1", Where::own, matmul, "gemm"},
    {"gemv|gemvx|gemvn|gemvt|sgmv|bgmv", Where::own, matmul, "gemv"},
    {"matmul|mm|bmm|addmm|baddbmm|marlin|machete|fused moe|split kreduce|split k reduce", Where::own, matmul, "gemm"},
    {"trsm|syrk|trmm|potrf", Where::own, matmul, "linear algebra"},
    {"gemvx", Where::path, matmul, "gemv"},
    {"cublas|rocblas|hipblas", Where::path, matmul, "gemm"},

    // Names with a word of memory that compute.
    {"elementwise kernel with index", Where::own, other, "elementwise"},
    {"index add|index func|index reduce|scatter add|sum and scatter|segment reduce", Where::own, other, "reduction"},
    {"indexing backward|embedding|embedding backward|compute grad weight", Where::own, other, "embedding"},
    {"krn partials per segment|krn partial segment offset|compute num of partial segments", Where::own, other,
     "embedding"},
    {"top k|topk|sort|bitonic|argsort|radix|unique", Where::own, other, "sort"},
    {"cast transpose|quantize|dequantize|quant|dequant|amax", Where::own, other, "quantisation"},

    // Memory: moves or sets bytes, and computes nothing but a type's conversion.
    {"memcpy|copy|clone|cat|concat|concatenate|contiguous", Where::own, memory, "copy"},
    {"fill|memset|fill buffer|set value", Where::own, memory, "fill"},
    {"transpose|permute|nchw to nhwc|nhwc to nchw|im 2 col|col 2 im|vol 2 col", Where::own, memory, "layout"},
    {"pad|flip|roll|tril|triu", Where::own, memory, "layout"},
    {"gather|scatter|index|index select|indexing|take put", Where::own, memory, "gather"},

    // The rest of the work, for the kinds.
    {"adam|adamw|lamb|sgd|adagrad|rmsprop|lion|muon|optimizer", Where::own, other, "optimizer"},
    {"layer norm|layernorm|rms norm|rmsnorm|batch norm|batchnorm|group norm|groupnorm", Where::own, other, "norm"},
    {"gamma beta|welford|bn|ln|norm", Where::own, other, "norm"},
    {"softmax|soft max", Where::own, other, "softmax"},
    {"nll loss|cross entropy|loss", Where::own, other, "loss"},
    {"dropout|philox|distribution|curand|random|bernoulli", Where::own, other, "random"},
    {"scan|cumsum|cumprod|compact", Where::own, other, "scan"},
    {"gelu|silu|relu|swiglu|geglu|sigmoid|tanh|threshold|act and mul", Where::own, other, "activation"},
    {"rope|rotary", Where::own, other, "position"},
    {"reduce|reduction|sum|mean|argmax|argmin", Where::own, other, "reduction"},
};

/// Functions that do what a template argument says.
constexpr std::string_view wrappers =
    "elementwise_kernel|vectorized_elementwise_kernel|unrolled_elementwise_kernel|elementwise_kernel_with_index|"
    "legacy_elementwise_kernel|elementwise_kernel_manual_unroll|vectorized_templated_elementwise_kernel|"
    "index_elementwise_kernel|distribution_elementwise_grid_stride_kernel|gpu_kernel_impl|gpu_kernel_impl_nocast|"
    "opmath_gpu_kernel_with_scalars|reduce_kernel|multi_tensor_apply_kernel|AUnaryFunctor|BUnaryFunctor|"
    "BinaryFunctor|ReduceOp|func_wrapper_t|device_kernel|Kernel|Kernel2|kernel|kentry|kentry2|"
    "enable_3x_kernel_for_sm9x|enable_3x_kernel_for_sm90|enable_3x_kernel_for_sm10|enable_2x_kernel_for_sm89|"
    "enable_sm90_or_later|enable_sm90|enable_sm80_to_sm89";

/// Template arguments that say nothing about what is done.
constexpr std::string_view plain_types =
    "float|double|int|long|short|char|bool|unsigned|signed|void|true|false|size_t|BFloat16|Half|complex|__half|"
    "__nv_bfloat16|nv_bfloat16|array|tuple|OffsetCalculator|TrivialOffsetCalculator|half|uint8_t|int64_t";

/// What all the operators of a generated pointwise kernel may be for the kernel to be one that only moves bytes.
constexpr std::string_view moving_words =
    "clone|to|copy|cat|permute|view|t|transpose|zeros|ones|full|fill|slice|select|expand|unsqueeze|squeeze|"
    "reshape|empty|constant|pad|nd|stack|split|with|sizes|like|new|detach|alias|repeat|as|strided|scatter|gather|"
    "index|zero";

/// Calls `is_it` for each of "a|b|c" until it returns true.
template <typename IsIt>
bool any_of_list(std::string_view list, IsIt is_it) {
    while (!list.empty()) {
        const std::size_t size = std::min(list.find('|'), list.size());
        if (is_it(list.substr(0, size))) return true;
        list.remove_prefix(std::min(list.size(), size + 1));
    }
    return false;
}

bool contains(std::string_view list, std::string_view text) {
    return any_of_list(list, [text](std::string_view one) { return one == text; });
}

bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

using Words = std::vector<std::string>;

// Whether the words of `phrase` stand one behind the other in `words`.
bool has_phrase(const Words& words, std::string_view phrase) {
    for (std::size_t begin = 0; begin < words.size(); ++begin) {
        std::string_view left = phrase;
        for (std::size_t i = begin; i < words.size() && !left.empty(); ++i) {
            const std::string_view word = left.substr(0, left.find(' '));
            if (words[i] != word) break;
            left.remove_prefix(std::min(left.size(), word.size() + 1));
        }
        if (left.empty()) return true;
    }
    return false;
}

bool has_any_phrase(const Words& words, std::string_view phrases) {
    return any_of_list(phrases, [&](std::string_view phrase) { return has_phrase(words, phrase); });
}

struct NameWords {
    Words own;
    std::vector<Words> scopes;

    explicit NameWords(const FunctionName& name) : own(split_words(name.own)) {
        for (const std::string_view scope : name.scopes) scopes.push_back(split_words(scope));
    }
    [[nodiscard]] bool match(const KernelRule& rule) const {
        if (has_any_phrase(own, rule.words)) return true;
        return rule.where == Where::path && std::any_of(scopes.begin(), scopes.end(), [&](const Words& words) {
                   return has_any_phrase(words, rule.words);
               });
    }
    [[nodiscard]] const KernelRule* find_rule() const {
        const auto found =
            std::find_if(std::begin(rules), std::end(rules), [&](const auto& rule) { return match(rule); });
        return found != std::end(rules) ? found : nullptr;
    }
};

struct Verdict {
    KernelClass kernel_class = other;
    std::string_view kind;
    std::string_view decider;  // the template argument's own name that decided; "" for the function's own
};

// Inductor names a generated kernel after the operators that it came from, so that a pointwise kernel that converts the
// input of a matrix product has "mm" in its name. Only its templates ("tem") are matrix products.
std::optional<Verdict> judge_inductor(const Words& words) {
    constexpr std::string_view sorts = "poi|per|red|for|tem|mix|unk|split";
    if (words.size() < 3 || words[0] != "triton" || !contains(sorts, words[1])) return std::nullopt;
    if (words[1] == "tem") {
        return has_phrase(words, "attention") ? Verdict{attention, "attention", ""} : Verdict{matmul, "gemm", ""};
    }
    const bool moves = words[1] == "poi" && std::all_of(words.begin() + 2, words.end(), [](const std::string& word) {
                           return word == "fused" || is_number(word) || contains(moving_words, word);
                       });
    return moves ? Verdict{memory, "copy", ""} : Verdict{other, "generated", ""};
}

bool says_nothing(std::string_view argument) {
    const char first = argument.front();
    if (first == '(' || first == '-' || (first >= '0' && first <= '9')) return true;
    const std::string_view own = FunctionName::parse(argument).own;
    return contains(plain_types, own) || own.ends_with("Metadata") || argument.starts_with("unsigned ") ||
           argument.starts_with("std::integral_constant");
}

constexpr int max_nesting = 8;

Verdict judge(const FunctionName& name, int nesting);

// Which template argument decides: the first that a rule knows, else the first that says anything.
Verdict judge_arguments(const FunctionName& name, int nesting) {
    Verdict first{other, "", ""};
    for (const std::string_view argument : split_arguments(name.arguments)) {
        if (says_nothing(argument)) continue;
        const FunctionName inner = FunctionName::parse(argument);
        Verdict verdict = judge(inner, nesting + 1);
        if (verdict.decider.empty()) verdict.decider = inner.own;
        if (!verdict.kind.empty()) return verdict;
        if (first.decider.empty()) first = verdict;
    }
    return first;
}

// What no rule knows, by what it is a case of.
Verdict by_default(const FunctionName& name, Verdict verdict) {
    const std::string_view own = name.own;
    if (std::find(name.scopes.begin(), name.scopes.end(), "cutlass") != name.scopes.end())
        return {matmul, "gemm", verdict.decider};
    if (own == "multi_tensor_apply_kernel") return {other, "multi-tensor", verdict.decider};
    if (own == "reduce_kernel") return {other, "reduction", verdict.decider};
    if (own.ends_with("elementwise_kernel") || own.starts_with("elementwise_kernel"))
        return {other, "elementwise", verdict.decider};
    return verdict;
}

Verdict judge(const FunctionName& name, int nesting) {
    const NameWords words(name);
    if (const auto generated = judge_inductor(words.own)) return *generated;
    Verdict verdict;
    if (contains(wrappers, name.own) && !name.arguments.empty() && nesting < max_nesting) {
        verdict = judge_arguments(name, nesting);
        if (!verdict.kind.empty()) return verdict;
    }
    if (const KernelRule* const rule = words.find_rule(); rule != nullptr)
        return {rule->kernel_class, rule->kind, verdict.decider};
    return nesting == 0 ? by_default(name, verdict) : verdict;
}

// The namespace identifies a function called "kernel".
std::string short_name_of(const FunctionName& name, std::string_view decider) {
    constexpr std::string_view common = "kernel|Kernel|run|forward|backward|dispatch|combine";
    std::string text;
    const bool nameless_scope = name.scopes.empty() || name.scopes.back().starts_with('(');
    if (contains(common, name.own) && !nameless_scope) text = std::string(name.scopes.back()) + "::";
    text += name.own;
    if (!decider.empty()) text += "<" + std::string(decider) + ">";
    return text;
}

KernelType classify_transfer(Activity activity, const std::string& name) {
    const bool peer = has_any_phrase(split_words(name), "pto p|p 2 p|peer");
    if (activity == Activity::copy && peer) return {comm, "peer copy", name};
    return {memory, activity == Activity::copy ? "copy" : "fill", name};
}

}  // namespace

bool uses_tensor_cores(std::string_view full_name) {
    const auto has = [full_name](std::string_view word) { return full_name.find(word) != std::string_view::npos; };
    constexpr std::string_view scalar = "simt|ffma|sgemm|dgemm_";
    constexpr std::string_view tensor =
        "tensorop|nvjet|xmma|gmma|hmma|imma|16816|1688|s884|h884|i8816|16832|tensor16x8|cutlass3x|warpspecialized";
    return !any_of_list(scalar, has) && any_of_list(tensor, has);
}

std::span<const KernelRule> kernel_rules() {
    return rules;
}

KernelType classify(Activity activity, const std::string& name) {
    if (activity != Activity::kernel) return classify_transfer(activity, name);
    const std::string readable = demangled(name);
    const FunctionName function = FunctionName::parse(readable);
    const Verdict verdict = judge(function, 0);
    return {verdict.kernel_class, verdict.kind.empty() ? "other" : std::string(verdict.kind),
            short_name_of(function, verdict.decider)};
}

}  // namespace cep::kernels
