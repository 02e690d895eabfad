// Package launch puts a training run together: its folder, its dataset, the embedded
// server, the coordinator and a worker in one process. The commands parse flags and
// call it; tests call it with a file system or an engine of their own.
//
// A run is a folder:
//
//	NAME/job.yaml                    resolved job spec; written last, it makes the run exist
//	NAME/journal.jsonl               intents and commit records
//	NAME/checkpoints/step-00000025/  see package checkpoints
//	NAME/generations/1796047200      claimed by one start of the coordinator each; the job's SHA-256
//	NAME/logs/*.jsonl                what the processes logged
//	NAME/server.json                 address and keys of the embedded server
//	NAME/lock                        held by the process that trains the run, with its number
//	NAME/worker.json                 address and key with which a worker takes part
package launch
