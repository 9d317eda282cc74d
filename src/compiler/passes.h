// Every HLO -> HLO pass: one contract each, alphabetical. A pass returns whether it changed the
// module; on an error the module is not to be used. Modules come in verified and go out verifying.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/fusion_note.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "program/target.h"

namespace weft::compiler {

// What a pass knows beside the module.
struct PassContext {
  const CompileOptions& options;
  const program::TargetInfo& target;             // what limits and cost models go by
  std::vector<FusionNote>* not_fused = nullptr;  // gets what fuse leaves apart; null: nobody asks
};

// No shape has dynamic dimensions afterwards: arrays have their bounds, and their sizes go beside
// them as scalars, through loops and conditionals too; what folds over a dimension leaves filler
// out. Sizes of the entry's parameters and results become further ones, named in the module's
// frontend attributes; sizes beyond a bound are taken as the bound; needs: inline-calls,
// expand-ops.
Result<bool> BoundDynamicShapes(hlo::Module&, const PassContext&);
// Of which dimensions the last parameters (or results) of the entry are sizes, in order. Leaves are
// counted through all parameters or results.
struct SizedDimension {
  int64_t leaf = 0, dim = 0;
};
inline constexpr std::string_view kParameterSizes = "weft.parameter_sizes";
inline constexpr std::string_view kResultSizes = "weft.result_sizes";
std::vector<SizedDimension> SizedDimensions(const hlo::Module& module, std::string_view key);
// Convolutions whose windows are points or cover all of the input become dots, those of few
// products an element (each channel by itself, or few channels) sums of slices; batch groups become
// feature groups; operands get one type, as in canonicalize-dots. Others stay, and so do sparse
// ones, gradient kinds and dynamic shapes; needs: normalize-layouts; canonicalize-dots after it.
Result<bool> CanonicalizeConvolutions(hlo::Module&, const PassContext&);
// Dots become dots of one form, [batch..., m, k] by [batch..., k, n] to [batch..., m, n]: batch
// dimensions first and in order, one dimension each of m, k and n, k and its neighbour in either
// order; operands of one type, no pred and no type below 8 bits (floats: 16). ragged-dot and
// scaled-dot become such dots. Dots of dynamic shapes stay; needs: normalize-layouts.
Result<bool> CanonicalizeDots(hlo::Module&, const PassContext&);
// Collectives that nobody reads go, equal ones of one computation become one, small all-reduces of
// the same groups that do not depend on each other become one of several arrays. What has control
// dependencies or scheduling annotations stays; needs: not scheduled (else it does nothing).
Result<bool> CombineCollectives(hlo::Module&, const PassContext&);
// Collectives that a link would leave exposed are taken apart (split-batch, quarter-batch,
// window-dots) where the order of the result is shorter on the model of it; without a link it does
// nothing; needs: inline-calls, not scheduled (else it does nothing).
Result<bool> DecomposeCollectives(hlo::Module&, const PassContext&);
// Loop distribution: numbers that a loop of known trip count only collects, one a round in an array
// of which it reads no row that it has written, are computed behind it for all rounds at once,
// where that is more work than what stays; what they need of the rounds is collected in their
// place. Rows at distances that are not known are read by one of two loops (loop versioning).
// Loops over numbers inside of it go too (outer-loop vectorization): counted ones run for all
// rounds at once, others on CPUs for blocks of a few vectors, until the last of a block is done;
// conditionals of numbers compute all of their branches where that lets it go (if-conversion), and
// short vectors and rows that are stored become numbers (scalar replacement). On CPUs functions of
// the number of a round and of what stays are computed before the loop, where they take long;
// needs: simplify-ranges before it, which leaves the counter as the index; eliminate-dead-code
// after it; not scheduled (else it does nothing).
Result<bool> DistributeLoops(hlo::Module&, const PassContext&);
// Loops of known trip count that hold collectives run two iterations in one, so that a transfer of
// the one is hidden by compute of the other; of an odd count the first iteration is peeled. Copies
// have channels and scheduling groups of their own; needs: not scheduled (else it does nothing).
Result<bool> DoubleBufferLoops(hlo::Module&, const PassContext&);
// Equal pure ops of one computation become one; needs: not scheduled (else it does nothing).
Result<bool> EliminateCommonSubexpressions(hlo::Module&, const PassContext&);
// Unused instructions without side effects and computations that the entry does not reach go;
// parameters stay; needs: none.
Result<bool> EliminateDeadCode(hlo::Module&, const PassContext&);
// No op makes or reads arrays without elements, but for tuples, loops, calls, effects and custom
// calls: they become constants, and ops that read them what they give on nothing; needs: static
// shapes (others stay).
Result<bool> ExpandEmptyOps(hlo::Module&, const PassContext&);
// Reduce-windows of few elements that overlap along the minor dimension become ops of slices of the
// padded operand, dimension by dimension where no order matters; needs: recognize-scans before;
// CPUs, not scheduled (else it does nothing).
Result<bool> ExpandWindows(hlo::Module&, const PassContext&);
// A loop with an inner counter that starts anew at its end, and an outer one that grows there, or
// with a predicate under which what its condition reads stays as it is,
// becomes a loop around another; needs: simplify; not scheduled (else it does nothing).
Result<bool> NestFlatLoops(hlo::Module&, const PassContext&);
// log(exp(x)) becomes x, sqrt(x * x) its absolute value, products, quotients and constant powers of
// exponentials one exponential, where optimize.cancel_exponentials asks for it; values change where
// what was in between overflows or underflows, else by roundings; needs: static shapes (others
// stay).
Result<bool> CancelExponentials(hlo::Module&, const PassContext&);
// Constant integers in arithmetic progression that name places of gathers and scatters become
// iotas, scaled and shifted; needs: simplify-while before, which drops constants from loops; not
// scheduled (else it does nothing).
Result<bool> RecognizeProgressions(hlo::Module&, const PassContext&);
// x * convert(mask) becomes select(mask, x, 0) where optimize.select_by_masks asks for it; the
// value changes where x is infinite, NaN or negative and the mask is false; needs: static shapes
// (others stay).
Result<bool> SelectByMasks(hlo::Module&, const PassContext&);
// Custom calls of LAPACK's potrf, trsm and getrf become cholesky, triangular-solve and the custom
// call weft.lu, all on row-major arrays; geqrf and orgqr of small matrices the custom calls Qr and
// ProductOfElementaryHouseholderReflectors; other routines stay, and with cpu.lapack those of large
// complex matrices; needs: none (before or after normalize-layouts).
Result<bool> ExpandLinalg(hlo::Module&, const PassContext&);
// Ops that others can say go: batch-norm-*, map of elementwise functions, stochastic-convert,
// fusion and composite calls (inlined), the halves of asynchronous ops (the synchronous op) but for
// calls that are worth a thread of their own,
// scans with bodies that are not elementwise (loops), collectives of one device, forms of
// collectives that lowering does not take, partition-id and
// replica-id of one, domain, add-dependency (control dependencies of its users), custom calls that
// annotate or name an op, or are about block-scaled numbers; needs: normalize-layouts.
Result<bool> ExpandOps(hlo::Module&, const PassContext&);
// Pure ops on constants become constants, within `optimize.fold_*`; needs: not scheduled (else it
// does nothing).
Result<bool> FoldConstants(hlo::Module&, const PassContext&);
// Groups of ops become `fusion`s: what one loop kernel computes; every refusal is logged with its
// reason (WEFT_DEBUG=fuse=2); needs: separate-computations, row-major layouts.
Result<bool> Fuse(hlo::Module&, const PassContext&);
// Transposes of a dot without batches, or of what a collective makes of one, go: the dot has its
// operands in the other order, and the collective another dimension; needs: not scheduled (else it
// does nothing).
Result<bool> HoistTransposes(hlo::Module&, const PassContext&);
// `call` becomes the called instructions, composites excepted; needs: not scheduled (else it does
// nothing).
Result<bool> InlineCalls(hlo::Module&, const PassContext&);
// Calls that JAX's compute_on marks for the host (frontend attribute _xla_compute_type) become
// async-start and async-done on the thread "host", where the computation is worth a thread and may
// run on one, not in another; needs: not scheduled (else it does nothing); before inline-calls.
Result<bool> MakeCallsAsync(hlo::Module&, const PassContext&);
// Collectives of executed computations become async-start and async-done, with their facts; the
// list keeps them side by side; needs: none.
Result<bool> MakeCollectivesAsync(hlo::Module&, const PassContext&);
// Async pairs of a collective become the collective, where the start stood, and keep their backend
// config; pairs that a loop carries or that have updates stay; needs: not scheduled (else it does
// nothing).
Result<bool> MakeCollectivesSync(hlo::Module&, const PassContext&);
// Dimensions that stay side by side in a large transpose become one, between reshapes: what is read
// and written lies in longer rows; needs: row-major layouts; behind simplify, whose rules know
// transposes as the user wrote them.
Result<bool> MergeTransposedDimensions(hlo::Module&, const PassContext&);
// Asynchronous calls begin as soon as what they read is there and are waited for where what they
// made is read first; needs: behind schedule, whose order is kept otherwise.
Result<bool> OverlapCalls(hlo::Module&, const PassContext&);
// Collectives of CPU devices with a link between them (collectives.link) whose transfer takes
// longer than its latency become async pairs, and computations that hold some are put in an order
// that hides them behind compute, by the model of schedule/machine.h, within a tenth more memory
// and what two of them take; needs: flat collectives (expand-ops); behind schedule, whose order is
// kept elsewhere.
Result<bool> OverlapCollectives(hlo::Module&, const PassContext&);  // schedule/overlap.cc
// No shape has a layout afterwards, except results of custom calls that constrain the layouts of
// their operands (the callee's interface) and what no other op can say (bitcasts of dynamic shapes,
// buffers and complex parts). `bitcast` becomes transposes, a reshape, a bitcast-convert; a copy
// that changed the layout alone goes. What the outside sees is kept in entry_layout; needs: none.
Result<bool> NormalizeLayouts(hlo::Module&, const PassContext&);
// The program of one device, by the shardings that instructions have (none: a copy on each device):
// ops on parts, with the reshardings in between that cost least (spmd/reshard.h); parameters and
// results are parts. What cannot be split is gathered (WEFT_DEBUG=compiler=1 says op, bytes and
// why). How parameters and results are cut is kept in the module's frontend attributes; needs:
// propagate-shardings, or ops without shardings are gathered; not scheduled.
Result<bool> Partition(hlo::Module&, const PassContext&);
// GPUs: what reduces rows and is then transposed, rows as a whole, is computed in the order of the
// transpose's result, and its operands are transposed; needs: canonicalize-dots, before
// merge-transposed-dimensions; not scheduled (else it does nothing).
Result<bool> PermuteRows(hlo::Module&, const PassContext&);
// Collectives cross iterations of their loop, which nothing in an iteration then waits for. What is
// computed from the counter and from state that stays, such as gathered weights, is computed for
// the next iteration, and the last one is peeled; what ends in an update of an array that the loop
// does not read otherwise is done one iteration later, and the first one is peeled. Barriers do not
// cross; copies have channels and scheduling groups of their own; needs: separate-computations
// (bodies of several loops stay), not scheduled (else it does nothing).
Result<bool> PipelineCollectives(hlo::Module&, const PassContext&);
// Shardings that instructions state spread to those that state none, forward and backward by the
// rules of the ops (hlo/dim_rule.h), by priority, through loops, branches, calls and tuples, until
// nothing changes. Afterwards every executed instruction has one, computations have one caller, no
// bitcast depends on layouts (normalize-layouts), and parameters and results that state none have
// one as the module's propagate_sharding_to_* allow; needs: none.
Result<bool> PropagateShardings(hlo::Module&, const PassContext&);
// Sums over the same devices that are only added to each other are added first and summed over
// devices once: floats are rounded in other places. What has control dependencies or scheduling
// annotations stays; needs: not scheduled (else it does nothing).
Result<bool> ReassociateAllReduces(hlo::Module&, const PassContext&);
// Attention written plainly, softmax(scale * Q K^T + bias) V with a mask or without, becomes one
// custom call weft.attention (hlo/attention_call.h) where nothing else reads scores or weights, and
// its gradient one weft.attention_gradient; masks that compare places along two axes become bounds.
// Weights are divided by their sum behind the product with V, and are not rounded before it;
// WEFT_DEBUG=attention=3 says why not. Nothing for GPUs; needs: simplify, not scheduled (else it
// does nothing); before canonicalize-dots, so that operands are read as they lie.
Result<bool> RecognizeAttention(hlo::Module&, const PassContext&);
// Calls of composites with the name of a function, such as chlo.cosh, are its op where that is
// faster than the formula; needs: none.
Result<bool> RecognizeComposites(hlo::Module&, const PassContext&);
// Complex cosh and sinh where they are written as sums of exponentials; needs: inline-calls.
Result<bool> RecognizeFunctions(hlo::Module&, const PassContext&);
// State of a loop that a select changes at one index alone, by a comparison of an iota with a
// scalar, is updated there (dynamic-update-slice); so are integers to which such a predicate is
// added. Arrays that fit a few vector registers stay; needs: simplify-while, which has iotas where
// they are used; eliminate-dead-code after it.
Result<bool> RecognizePointUpdates(hlo::Module&, const PassContext&);
// Dots of canonical form whose operands are numbers of at most 8 bits, converted to bf16 or f32 and
// multiplied by a scale for each block, or not, become scaled-dots of the numbers and the scales,
// with the algorithm that says what products are rounded to; where an operand is large, and is for
// this dot alone. Nothing for GPUs; needs: canonicalize-dots, not scheduled (else it does nothing).
Result<bool> RecognizeScaledDots(hlo::Module&, const PassContext&);
// Cumulative reductions written as reduce-window (windows that cover all up to a place, or all from
// it, along one dimension) become scans; sums and products of narrow floats are carried in f32,
// sums of f32 in f64. Functions that are not elementwise stay; needs: inline-calls, or calls inside
// functions stay.
Result<bool> RecognizeScans(hlo::Module&, const PassContext&);
// Gathers at places that are computed from constants and iotas alone (x[f(i), g(j)]: each follows a
// dimension of its own), and that are one run of any stride or few of neighbours in each dimension,
// become slices, joined; needs: simplify, which leaves gathers of one place to dynamic-slice.
// simplify-while does the same in bodies of loops, where it puts iotas, also at places that are
// constants outside.
Result<bool> RecognizeSlices(hlo::Module&, const PassContext&);
// Stable sorts of an array, alone or with the places of its elements, of which only the first few
// (at most half) are read become topk; needs: eliminate-dead-code after it.
Result<bool> RecognizeTopK(hlo::Module&, const PassContext&);
// Products of f32 and f64 that are both added and compared (or rounded to integers), by several
// users, or subtracted from products of the same numbers or from the greatest of several, are
// rounded by themselves: a reduce-precision to all of their bits behind them keeps each copy that
// fuse makes from being contracted; needs: fuse after it, no simplify.
Result<bool> RoundComparedProducts(hlo::Module&, const PassContext&);
// An all-reduce of which every device reads its own part alone (a dynamic-slice at a place that
// follows from the device's number) becomes a reduce-scatter. What has control dependencies or
// annotations stays; needs: not scheduled (else it does nothing).
Result<bool> ScatterAllReduces(hlo::Module&, const PassContext&);
// The instructions of executed computations in an order that holds little memory at once, and in
// which arrays are updated after everything else that reads them has run, where that is possible;
// effects keep their order; needs: separate-computations, not scheduled (else it does nothing).
Result<bool> Schedule(hlo::Module&, const PassContext&);
// Every computation that is executed (loop bodies and conditions, branches) has one caller: those
// with several are copied; needs: none.
Result<bool> SeparateComputations(hlo::Module&, const PassContext&);
// The `fold` of the op rows (x + 0 = x, ...) and the rules over several ops (simplify_rules.h)
// until nothing changes; what becomes unused goes; needs: not scheduled (else it does nothing).
Result<bool> Simplify(hlo::Module&, const PassContext&);
// Conditionals of a known branch, of equal branches or of a few scalar ops become straight code;
// results and operands that nobody reads go; needs: not scheduled (else it does nothing).
Result<bool> SimplifyConditionals(hlo::Module&, const PassContext&);
// Comparisons of integers that always come out the same, and choices by them, minima, maxima and
// clamps that never change anything go (analysis/value_range.h); needs: separate-computations, or
// loops whose computations have several callers are not followed; not scheduled (else it does
// nothing).
Result<bool> SimplifyRanges(hlo::Module&, const PassContext&);
// An all-reduce in a loop whose sums are only added up, or only written to the rows of an array
// that the loop fills, is done once behind the loop, on what was added up or filled; sums of floats
// are taken in another order; needs: separate-computations (bodies of several loops stay), not
// scheduled (else it does nothing).
Result<bool> SinkAllReduces(hlo::Module&, const PassContext&);
// Collectives whose results, formatted, a loop only writes to the rows of an array that it fills
// are done once behind the loop, on a stack of their operands (forward-sink): small ones level by
// level, then large ones; needs: separate-computations, not scheduled (else it does nothing).
Result<bool> SinkCollectives(hlo::Module&, const PassContext&);
// Collectives between products, and what they wait for, are done for each half of a dimension (the
// batch) by itself, so that a transfer of one half runs beside compute of the other; what needs
// both halves gets them put together, products over the dimension become sums of two: floats are
// rounded in other places. The dimension is that of the most bytes sent, less those copied for it;
// needs: inline-calls, not scheduled (else it does nothing).
Result<bool> SplitBatch(hlo::Module&, const PassContext&);
// As split-batch, in quarters: where transfers of the forward pass take longer than its compute, a
// part that is ahead computes its gradients meanwhile; four times the ops, each of a quarter.
Result<bool> QuarterBatch(hlo::Module&, const PassContext&);
// The frontend attribute of a collective that says which part it is of: other parts are not
// combined with it.
inline constexpr std::string_view kPartOfBatch = "weft.part_of_batch";
// Loops of few rounds (`optimize.unroll_*`) become straight code; state that is not used, constant
// or there twice goes; costly invariant ops move out, and so do products of scanned rows with
// invariants, as one product of all rows; needs: not scheduled (else it does nothing).
Result<bool> SimplifyWhile(hlo::Module&, const PassContext&);
// Arrays that loops carry, of which they read and make parts along one dimension alone, are carried
// as these parts (scalar replacement of aggregates): numbers come into registers, and each part is
// updated where it is while others are read; state that is one array becomes a tuple; needs:
// simplify; CPUs, not scheduled (else it does nothing).
Result<bool> SplitLoopState(hlo::Module&, const PassContext&);
// CPUs: a reduction over the minor dimension and over others that kept dimensions separate from it
// becomes two, of the one and of the others, the longer rows or else the columns first; sums of f32
// are rounded in between; needs: fuse after it, no simplify, which joins the two.
Result<bool> SplitReductions(hlo::Module&, const PassContext&);
// Of invariant arrays of which a loop reads a column an iteration a transposed copy is made before
// the loop, of which it reads rows; arrays that it reads and writes by columns alone are carried
// transposed; needs: simplify, which makes dynamic-slices of gathers; CPUs, not scheduled (else it
// does nothing).
Result<bool> TransposeColumns(hlo::Module&, const PassContext&);
// Loops of known trip count that hold collectives are unrolled, whole or by a factor, as long as
// the module stays small: what is behind a barrier crosses no iteration otherwise; needs:
// separate-computations, not scheduled (else it does nothing).
Result<bool> UnrollCollectiveLoops(hlo::Module&, const PassContext&);  // schedule/overlap.cc
// Windowed einsum: products of what an all-gather brings are done part by part as each comes around
// the ring by collective-permutes, and parts of a product that a reduce-scatter adds up in the
// order in which the ring takes them; floats are added in another order. Where products that do not
// depend on the collective could hide it, it stays, as do those with annotations or control
// dependencies; needs: inline-calls, not scheduled (else it does nothing).
Result<bool> WindowDots(hlo::Module&, const PassContext&);

}  // namespace weft::compiler
