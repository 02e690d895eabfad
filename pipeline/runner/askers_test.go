package runner

import (
	"testing"
	"testing/synctest"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// A worker that asks for far more than it pulls at once makes nobody else wait, and has what it is answered still.
func TestAGreedyWorkerMakesNobodyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := awaiting(t)
		bus := &loopback{}
		if _, err := serveGrad(bus, wire.Root("demo", 1, wire.AnyWorker), r.layout.Buckets(), r.await); err != nil {
			t.Fatal(err)
		}
		r.begin(1)
		refused, data := map[pipeline.WorkerID]int{}, map[pipeline.WorkerID]int{}
		answers := make(chan func(), 3*gradRequests)
		ask := func(worker pipeline.WorkerID, bucket int) {
			request := wire.EncodeRequest(wire.GradRequest{Step: 1, Hi: 2, Bucket: bucket})
			bus.handler(transport.NewMessage(wire.Root("demo", 1, worker), request, func(answer []byte) error {
				_, err := wire.DecodeReply(answer)
				answers <- func() {
					if data[worker]++; err != nil {
						data[worker]--
						refused[worker]++
					}
				}
				return nil
			}))
		}
		for range 2 * gradRequests {
			ask("greedy", 0) // is summed last
		}
		last := r.layout.Buckets() - 1
		ask("modest", last)
		r.sum(last, 1)
		r.reveal(last)
		count := func() {
			synctest.Wait()
			for len(answers) > 0 {
				(<-answers)()
			}
		}
		if count(); data["modest"] != 1 || len(refused) != 0 || data["greedy"] != 0 {
			t.Errorf("answered %v, refused %v: only the modest worker's bucket is summed", data, refused)
		}
		r.sumAll(1)
		if count(); data["greedy"] != askerRequests || len(refused) != 0 {
			t.Errorf("answered %v, refused %v, want %d of the greedy worker's", data, refused, askerRequests)
		}
		ask("greedy", 0)
		if count(); data["greedy"] != askerRequests+1 {
			t.Errorf("answered %v: what was answered does not count any more", data)
		}
	})
}
