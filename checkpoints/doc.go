// Package checkpoints holds the rules of a checkpoint as values: the manifest and what makes it valid,
// the header of the tensor files, the description of the model's shape, the names on disk, and which
// old checkpoints may go. It does no I/O; package checkpoints/dirstore keeps checkpoints in a folder.
//
// A checkpoint is the state after one step: weights and both moments, with everything that resuming
// needs. docs/formats/checkpoint.md draws the bytes.
package checkpoints
