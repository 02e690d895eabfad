// Package arrowfile stores token streams as folders of Arrow files, reads any range of them, and
// puts windows into Arrow record batches for the way to a worker. docs/formats/dataset.md describes
// both formats. No Arrow type leaves this package.
//
// Everything is written through the Arrow library, and Verify reads everything through it. The
// reading that training depends on does not: the library does not bound what it allocates when a
// file lies about its lengths, and an allocation that is too large ends the process. Since the
// layout is fixed (one column, no nulls, no compression), a bounded walk over each message's
// metadata says where its values lie, and reading a window is then one small read at that place.
package arrowfile
