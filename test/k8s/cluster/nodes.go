package cluster

import "fmt"

// nodeNames are the nodes of a Cluster.
var nodeNames = []string{"node-a", "node-b", SpareNode}

// SpareNode is the node of a Cluster that takes only pods which tolerate the taint SpareTaint: it can be drained and lost while
// others train.
const (
	SpareNode  = "node-c"
	SpareTaint = "spare"
)

const (
	// gateway is the address of the control plane and of DNS in the network of nodes, which is not the machine's.
	gateway = "10.90.0.1"
	// nodeLink is the name of a node's interface to that network, where it is.
	nodeLink = "nodes"
)

// nodeAddress and podNetwork are those of the node with a number.
func nodeAddress(i int) string { return fmt.Sprintf("10.90.0.%d", i+2) }
func podNetwork(i int) string  { return fmt.Sprintf("10.91.%d.0/24", i+2) }
