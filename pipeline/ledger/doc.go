// Package ledger judges a run by its journal, apart from the code that trained it. Verify reads: it says from the
// plan and the dataset which tokens every lane of every step must have held, and compares them with what the workers
// reported; it checks the leases, the sums and the numbers that follow from others. Recompute trains again, on one
// engine without any protocol, and compares the bits.
//
// Together they show that every window of every epoch was trained exactly once. A window is known by its tokens, so
// windows of equal tokens are one to the ledger.
package ledger
