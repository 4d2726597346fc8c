#pragma once
#include "stages/key_list.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attune::generators::inline stages {

/// Sums of products that stay in registers, with a vector of each of their columns and a number of each of their rows.
/// Few columns, since those of a long sum come from the second cache: a vector of them serves all rows.
struct tile_of_sums {
    explicit tile_of_sums(const level& cpu)
        : columns(vectors * cpu.lanes), rows((cpu.registers - vectors) / (vectors + 1)) {}
    static constexpr int vectors = 2;
    int columns, rows;
};

/// Numbers of blocks, and choices of the largest among them: tensors of bound indices. They are made once a call,
/// before the first score, by query head, or by key head if no element needs its query head.
class precomputed_tensor {
public:
    precomputed_tensor(const kernel_frame& frame, int node);

    std::vector<Halide::Var> axes;  ///< axes of the result, innermost first: the last index to the first, head, batch
    Halide::Func precomputed{"precomputed"};
    Halide::Func written;  ///< the output that the call writes, by query head; may be the result
    bool may_be_masked{};  ///< whether an element may be -infinity
    int rows_with{-1};     ///< the only choice that reads its rows; -1 if others read it, or it is written
    bool by_row{};         ///< whether that choice reads it itself, a row at a time, and nothing else does

    // Functions and loops of reals to schedule.
    Halide::RDom along;  ///< the last index; for choices, too
    /// A sum, or a maximum, all of whose operands have its index as their last: taken a vector at a time.
    struct dot {
        Halide::Var lane;
        Halide::RDom steps;
        Halide::Func partial;  ///< (lane, axes)
        Halide::Func sum;      ///< (axes)
    };
    std::vector<dot> dots;
    /// A sum of products of a factor at the last index and a factor at the one before: taken a tile of both at a time.
    /// Of a sum within a sum the last index is that of the outer one, which lies in lanes.
    struct product {
        std::vector<Halide::Var> axes;  ///< of the tensor, behind the index of the outer sum if there is one
        /// (in tile, summed, tile, axes from the third): the factor at the last index
        std::vector<Halide::Func> turned;
        Halide::RDom summed;
        Halide::Func tile;      ///< (axes)
        Halide::Func sum;       ///< (axes)
        int node{}, outer{-1};  ///< the sum; the one around it
    };
    std::vector<product> products;
    const int width;  ///< lanes of a dot, and of a tally

    // Functions of a choice, by rows. A row is (axes) without the first one.
    Halide::Func ordered{"ordered"};  ///< (axes): elements as integers of the same order; 0 is never chosen
    Halide::Func shares;              ///< (axes): the share that an element adds, if a share of the sum is wanted
    /// The number of elements of a row that meet each of some conditions, or the sum of their shares.
    struct tally {
        int conditions{};
        Halide::RDom steps, lanes;
        Halide::Func partial;  ///< (lane, condition, row)
        Halide::Func sum;      ///< (condition, row)
    };
    Halide::Var lane{"lane"}, condition{"condition"};
    std::vector<tally> tallies;
    std::vector<Halide::Func> thresholds;  ///< (row): the first digits of the smallest element that is chosen
    Halide::Func ties{"ties"};  ///< (axes): the number, or the share, of earlier elements equal to the threshold
    bool chooses() const { return !thresholds.empty(); }

    void define_output();

private:
    void define_reals(int node);
    void define_choice(int node);
    Halide::Func tallied(const std::string& name, int conditions, const Halide::Expr& length,
                         const std::function<Halide::Expr(const Halide::Expr&)>& holds);
    quantity reduced_by_vectors(int node, const std::vector<int>& loads, const place& here);
    bool is_followed(const std::vector<int>& loads) const;
    bool is_of_made(int formula) const;
    /// Axes, of which the first is that of one bound index and the second of another.
    struct rows_and_columns {
        std::vector<Halide::Var> axes;
        int last, before;
        Halide::Expr hidden;  ///< whether an element is -infinity, whatever its products are
    };
    Halide::Expr hidden_without_sums(int formula, place here, const std::vector<bool>& read) const;
    quantity product_of_rows(int sum, const std::vector<int>& loads, const place& here, const rows_and_columns& of);
    quantity products_within_sum(int sum, const std::vector<int>& loads, place here, const instruction& made,
                                 const std::vector<bool>& read, const Halide::Expr& hidden);
    quantity factor(int load, const place& at) const;
    int index_of(int bound) const;
    std::optional<std::vector<int>> read_along(int sum, const place& here) const;
    bool has_products_of(int outer) const;
    void leave_products_of(int outer, place& here);
    bool is_within(int sum, const place& here) const;
    Halide::Expr number(int node) const;

    const kernel_frame& f_;
    bool of_query_heads_{};
};

/// Whether the last index of a tensor runs over all keys.
bool runs_over_keys(const graph_ir& graph, int tensor);

/// Computes all precomputed tensors of a graph, arguments before users, and makes all reads go to the results.
struct precomputed_tensors {
    explicit precomputed_tensors(kernel_frame& frame);
    std::deque<precomputed_tensor> all;
    std::vector<int> nodes;
    std::optional<key_list> list;  ///< of the keys that queries see, in place of all
    const precomputed_tensor& of(int node) const;

private:
    void find_chooser(const kernel_frame& frame, std::size_t i);
};

}  // namespace attune::generators::inline stages
