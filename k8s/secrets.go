package k8s

// Names of the objects of a run.
const (
	CoordinatorJob   = "coordinator" // a Job
	WorkerDeployment = "worker"      // or a Job
	JobConfig        = "job"         // a ConfigMap
	RunsClaim        = "runs"        // a PersistentVolumeClaim, with the run's folder
	ServerSecret     = "server"      // keys and certificate of the coordinator's server
	WorkerSecret     = "worker"      // lets workers in
	ObserverSecret   = "observer"    // lets in who only looks; no pod has it
)

// NameOf is an object's name in a run.
func NameOf(run, object string) string { return run + "-" + object }

// Selector is the label that all objects of a run have.
func Selector(run string) string { return instanceLabel + "=" + run }

// SelectorOf is Selector for one side, Coordinator or Worker.
func SelectorOf(run, side string) string {
	return Selector(run) + "," + componentLabel + "=" + side
}

// Secret is a Secret of a run; files are its keys and their contents. It cannot be changed, since running pods would
// go on with the old one.
func Secret(run, namespace, name string, files map[string]string) Object {
	metadata := map[string]any{
		"name":   NameOf(run, name),
		"labels": map[string]any{"app.kubernetes.io/name": "andrea", instanceLabel: run},
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	data := map[string]any{}
	for file, content := range files {
		data[file] = content
	}
	return Object{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "immutable": true, "stringData": data}
}
