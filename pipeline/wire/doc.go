// Package wire turns the messages of the pipeline into bytes and subjects, and bytes
// that arrived into messages or errors. Nothing it returns is trusted further than
// its checks: sizes, checksums, known fields.
//
// Control messages are JSON. Bulk data (tokens, states) is pulled: a small JSON
// request names what is wanted, the reply is one frame:
//
//	offset  size  field
//	0       4     magic "AND1"
//	4       4     0: payload follows, 1: the reason of a refusal follows
//	8       4     length of what follows, little-endian
//	12      4     CRC-32C of bytes 4 to 11 and of what follows
//	16            payload
package wire
