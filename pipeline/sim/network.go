package sim

// network carries messages and bulk transfers between the coordinators and the workers.
// Which coordinator a message is for its generation says; a cut separates a worker from
// the place where all coordinators run.
type network struct {
	w       *world
	chance  *chance
	loss    float64 // part of the messages that are lost
	doubled float64 // part that arrive twice
	late    float64 // part that are delayed by ticks, and so overtaken
	bulk    float64 // part of the bulk transfers that fail
	heavy   int64   // how many times longer bulk transfers take than they need
}

// cut says in which directions nothing of a worker's gets through.
type cut struct{ toCoordinator, toWorker, toPeers bool }

// send carries a control message of or to a worker.
func (n *network) send(k *worker, toWorker bool, arrive func()) {
	if n.chance.happens(n.loss) {
		n.w.cover(loss, k)
		return
	}
	copies := 1
	if n.chance.happens(n.doubled) {
		n.w.cover(duplicate, k)
		copies = 2
	}
	for range copies {
		delay := n.chance.between(5, 40)
		if n.chance.happens(n.late) {
			n.w.cover(delayed, k)
			delay = n.chance.between(tick/4, 5*tick)
		}
		n.w.clock.after(delay, func() {
			if toWorker && k.cut.toWorker || !toWorker && k.cut.toCoordinator {
				return
			}
			arrive()
		})
	}
}

// transfer is how long a bulk transfer to a coordinator takes.
func (n *network) transfer() int64 {
	if n.chance.happens(n.late) {
		return n.chance.between(tick/4, 5*tick)
	}
	return n.chance.between(5, 50) * n.heavy
}

// reaches reports that a request from a worker to a coordinator, or back, is answered.
func (n *network) reaches(k *worker, c *coordinator) bool {
	return k.alive && !k.paused && c != nil && c.alive && !c.paused &&
		!k.cut.toCoordinator && !k.cut.toWorker && !n.chance.happens(n.bulk)
}

// connects is the same between two workers.
func (n *network) connects(k, o *worker) bool {
	return o.alive && !o.paused && !k.cut.toPeers && !o.cut.toPeers && !n.chance.happens(n.bulk)
}
