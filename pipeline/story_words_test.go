package pipeline_test

import (
	"fmt"
	"strings"

	"andrea/pipeline"
)

// message is a message in words.
func message(m pipeline.Message) string {
	switch m := m.(type) {
	case pipeline.Hello:
		return hello(m)
	case pipeline.Welcome:
		return fmt.Sprintf("welcome, load state %d, %s, %s", m.Step, nameOf(m.Digest), source(m.Step, m.Holders, m.Stored))
	case pipeline.Wait:
		return "wait: " + m.Reason
	case pipeline.Rejoin:
		return "rejoin: " + m.Reason
	case pipeline.Refuse:
		return "refuse: " + m.Reason
	case pipeline.Joined:
		return fmt.Sprintf("joined with state %d, %s", m.Step, nameOf(m.Digest))
	case pipeline.Lease:
		return fmt.Sprintf("lease of step %d, round %d, lanes [%d, %d)", m.Step, m.Round, m.Lo, m.Hi)
	case pipeline.Cancel:
		return fmt.Sprintf("cancel step %d", m.Step)
	case pipeline.Commit:
		return fmt.Sprintf("commit step %d: %s, root %s, scale %v, lr %v", m.Step, m.Action, nameOf(m.RootDigest), m.Scale, m.Hyper.LR)
	case pipeline.Eval:
		return fmt.Sprintf("evaluate state %d on windows [%d, %d)", m.Step, m.Lo, m.Hi)
	case pipeline.Snapshot:
		return fmt.Sprintf("copy state %d", m.Step)
	case pipeline.Finish:
		return fmt.Sprintf("finish, complete %v, %q", m.Complete, m.Reason)
	}
	return report(m)
}

// report is what a worker reports, in words.
func report(m pipeline.Message) string {
	switch m := m.(type) {
	case pipeline.Answer:
		var lanes []string
		for _, l := range m.Lanes {
			lanes = append(lanes, fmt.Sprintf("%v of %d", l.LossSum, l.Tokens))
		}
		return fmt.Sprintf("answer to step %d, round %d, lanes [%d, %d): losses %s; from state %s, gradient %s, squares %v, %v s", m.Step, m.Round, m.Lo, m.Hi, strings.Join(lanes, ", "), nameOf(m.StateDigest), nameOf(m.GradDigest), m.SumSquares, m.Seconds)
	case pipeline.Applied:
		return fmt.Sprintf("applied step %d, state %s", m.Step, nameOf(m.Digest))
	case pipeline.Evaluated:
		return fmt.Sprintf("evaluated state %d, %s, on windows [%d, %d): %v of %d tokens", m.Step, nameOf(m.StateDigest), m.Lo, m.Hi, m.Sums, m.Tokens)
	case pipeline.SnapshotTaken:
		return fmt.Sprintf("copied state %d, %s", m.Step, nameOf(m.Digest))
	case pipeline.Leaving:
		return "leaving: " + m.Reason
	case pipeline.Failed:
		return "failed: " + m.Reason
	}
	return fmt.Sprintf("%#v", m)
}

func hello(m pipeline.Hello) string {
	text := fmt.Sprintf("hello, class %s, protocol %d", m.Class, m.Protocol)
	if m.Holds {
		text += fmt.Sprintf(", holding state %d, %s", m.Step, nameOf(m.Digest))
	}
	if m.Ticket > 0 {
		text += fmt.Sprintf(", last under ticket %d of generation %d", m.Ticket, m.Generation)
	}
	return text
}

// source is where a state is loaded from.
func source(step int64, holders []pipeline.WorkerID, stored bool) string {
	switch {
	case len(holders) > 0:
		return "from " + names(holders)
	case stored:
		return "from the checkpoint"
	case step == 0:
		return "from the seed"
	}
	return "which it holds"
}

func names(ids []pipeline.WorkerID) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, string(id))
	}
	return strings.Join(texts, " or ")
}

func notice(n pipeline.Notice) string {
	switch n := n.(type) {
	case pipeline.WorkerJoined:
		return fmt.Sprintf("%s holds state %d", n.Worker, n.Step)
	case pipeline.WorkerLeft:
		if n.Expelled {
			return fmt.Sprintf("%s is expelled: it %s", n.Worker, n.Reason)
		}
		return fmt.Sprintf("%s is gone: it %s", n.Worker, n.Reason)
	case pipeline.WorkerRefused:
		return fmt.Sprintf("%s is refused: %s", n.Worker, n.Reason)
	case pipeline.AuditLeftOut:
		return fmt.Sprintf("nobody audits lanes [%d, %d) of step %d", n.Lo, n.Hi, n.Step)
	case pipeline.StateChosen:
		return fmt.Sprintf("the run goes on from state %d, which %d workers hold", n.Step, n.Holders)
	case pipeline.StepDone:
		return fmt.Sprintf("step %d done, again %v", n.Record.Step, n.Again)
	case pipeline.CheckpointSaved:
		return fmt.Sprintf("checkpoint %d saved", n.Step)
	}
	return fmt.Sprintf("%#v", n)
}
