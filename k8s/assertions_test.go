package k8s

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"andrea/dataset/prepare"
	"andrea/pipeline"
	"andrea/vfs"
)

// everyRun renders every overlay, alone and with every component that it does not have.
func everyRun(t *testing.T, check func(t *testing.T, run Run)) {
	t.Helper()
	for _, overlay := range Overlays() {
		for _, component := range append([]string{""}, Components()...) {
			o := Options{Overlay: overlay}
			if component != "" {
				o.Components = []string{component}
			}
			t.Run(overlay+"+"+component, func(t *testing.T) {
				run, err := Render(o)
				if err != nil {
					t.Fatal(err)
				}
				check(t, run)
			})
		}
	}
}

// What a restricted namespace demands, and what every container should have besides.
func TestPodsAreRestrictedAndSized(t *testing.T) {
	everyRun(t, func(t *testing.T, run Run) {
		pods := 0
		for _, o := range run.Objects {
			if o.podSpec() == nil {
				continue
			}
			pods++
			for _, fault := range podFaults(o) {
				t.Errorf("%s %s: %s", o.Kind(), o.Name(), fault)
			}
		}
		if pods != 2 {
			t.Errorf("%d objects have pods, want coordinator and worker", pods)
		}
	})
}

func podFaults(o Object) (faults []string) {
	expect := func(holds bool, format string, args ...any) {
		if !holds {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	pod := Object(o.podSpec())
	expect(pod["automountServiceAccountToken"] == false, "it mounts a token")
	expect(pod.find("securityContext", "runAsNonRoot") == true, "it may run as root")
	expect(pod.find("securityContext", "seccompProfile", "type") == "RuntimeDefault", "no seccomp profile")
	for _, container := range o.containers() {
		c := Object(container)
		expect(c.find("securityContext", "allowPrivilegeEscalation") == false, "privileges may grow")
		expect(c.find("securityContext", "readOnlyRootFilesystem") == true, "the root can be written")
		expect(fmt.Sprint(c.find("securityContext", "capabilities", "drop")) == "[ALL]", "it has capabilities")
		expect(pinned(text(c["image"])), "its image is %v", c["image"])
		expect(fmt.Sprint(c.find("resources", "requests")) == fmt.Sprint(c.find("resources", "limits")), "it requests something else than its limits")
		limit := quantity(text(c.find("resources", "limits", "memory")))
		soft := quantity(strings.TrimSuffix(variable(c, "GOMEMLIMIT"), "B"))
		expect(soft >= limit*8/10 && soft <= limit*9/10, "GOMEMLIMIT is %d of %d bytes", soft, limit)
		expect(c.find("resources", "limits", "cpu") != nil, "no limit of processors")
		for _, v := range maps(container["env"]) {
			expect(Object(v).find("valueFrom", "secretKeyRef") == nil, "a secret is in the environment")
		}
		expect(!strings.Contains(fmt.Sprint(container["args"]), "password"), "a secret is in the arguments")
	}
	return faults
}

// quantity reads a number of bytes such as 2Gi.
func quantity(s string) int64 {
	for unit, size := range map[string]int64{"Mi": 1 << 20, "Gi": 1 << 30} {
		if number, found := strings.CutSuffix(s, unit); found {
			n, _ := strconv.ParseInt(number, 10, 64)
			return n * size
		}
	}
	return 0
}

// variable is the value of an environment variable of a container.
func variable(c Object, name string) string {
	for _, v := range maps(c["env"]) {
		if v["name"] == name {
			return text(v["value"])
		}
	}
	return ""
}

// argument is the value of a flag of a container, with its variables replaced.
func argument(c Object, flag string) string {
	args, _ := c["args"].([]any)
	for _, arg := range args {
		if value, found := strings.CutPrefix(text(arg), flag+"="); found {
			if name, isVariable := strings.CutPrefix(value, "$("); isVariable {
				return variable(c, strings.TrimSuffix(name, ")"))
			}
			return value
		}
	}
	return ""
}

// What a real cluster does with Jobs, budgets and deployments decides how a run is built; each of these has
// failed there in another way.
func TestBehavioursOfAClusterAreMet(t *testing.T) {
	everyRun(t, func(t *testing.T, run Run) {
		objects := byName(run.Objects)
		name := func(kind, object string) string { return kind + " " + NameOf(run.Name, object) }
		coordinator := objects[name("Job", CoordinatorJob)]
		if coordinator == nil {
			t.Fatal("the coordinator is no Job")
		}
		checkCoordinator(t, coordinator)
		deployment, job := objects[name("Deployment", WorkerDeployment)], objects[name("Job", WorkerDeployment)]
		switch {
		case deployment != nil && job == nil:
			checkDeployment(t, deployment, objects)
		case deployment == nil && job != nil:
			checkWorkerJob(t, job, run.Objects)
		default:
			t.Error("the workers must be a Deployment or a Job")
		}
		// Only names of its own can be applied beside another run, and a changed job is refused at once.
		config := objects[name("ConfigMap", JobConfig)]
		if config["immutable"] != true {
			t.Error("the job's ConfigMap can be changed under a running coordinator")
		}
		if spec, err := JobOf(config); err != nil || spec.Name != run.Name {
			t.Errorf("the job is called %q: %v", spec.Name, err)
		}
	})
}

func checkCoordinator(t *testing.T, job Object) {
	t.Helper()
	if got := fmt.Sprint(job.find("spec", "podFailurePolicy", "rules")); !strings.HasPrefix(got, "[map[action:FailJob onExitCodes:map[operator:In values:[2]]] map[action:Ignore onPodConditions:[map[status:True type:DisruptionTarget]]]") {
		t.Errorf("podFailurePolicy is %s", got)
	}
	pod := Object(job.podSpec())
	if pod["restartPolicy"] != "Never" || job.find("spec", "podReplacementPolicy") != "Failed" {
		t.Errorf("two coordinators could hold one volume: %v, %v", pod["restartPolicy"], job.find("spec", "podReplacementPolicy"))
	}
	if n, _ := job.find("spec", "backoffLimit").(int); n < 6 {
		t.Errorf("backoffLimit is %d", n)
	}
	if pod["terminationGracePeriodSeconds"].(int) < 60 {
		t.Error("no time for a checkpoint")
	}
	c := Object(job.containers()[len(job.containers())-1])
	if argument(c, "--workers") != "1" {
		t.Error("it does not begin with the first worker: a pending pod would hold it up")
	}
	checkProbes(t, c)
}

func checkProbes(t *testing.T, c Object) {
	t.Helper()
	for probe, path := range map[string]string{"startupProbe": "/startupz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"} {
		if c.find(probe, "httpGet", "path") != path {
			t.Errorf("%s asks %v", probe, c.find(probe, "httpGet", "path"))
		}
	}
}

func checkDeployment(t *testing.T, deployment Object, objects map[string]Object) {
	t.Helper()
	c := Object(deployment.containers()[0])
	if argument(c, "--when-done") != "wait" {
		t.Error("a worker of a Deployment that ends is started again for ever")
	}
	checkGrace(t, deployment)
	checkProbes(t, c)
	budget := objects["PodDisruptionBudget "+deployment.Name()]
	if budget.find("spec", "maxUnavailable") != 1 || budget.find("spec", "unhealthyPodEvictionPolicy") != "AlwaysAllow" {
		t.Errorf("the budget is %v", budget)
	}
	if selected := fmt.Sprint(budget.find("spec", "selector")); selected != fmt.Sprint(deployment.find("spec", "selector")) || !strings.Contains(selected, Worker) {
		t.Errorf("the budget is for %v", selected)
	}
}

func checkWorkerJob(t *testing.T, job Object, objects []Object) {
	t.Helper()
	if argument(Object(job.containers()[0]), "--when-done") != "exit" || job.find("spec", "completions") != nil {
		t.Error("the workers are no work queue that ends with the run")
	}
	checkGrace(t, job)
	for _, o := range objects {
		if o.Kind() == "PodDisruptionBudget" {
			t.Error("a budget on pods of a Job allows no disruption for ever")
		}
	}
}

// checkGrace: a lease is finished before the pod is killed, and a lost node's pods come back soon.
func checkGrace(t *testing.T, o Object) {
	t.Helper()
	grace, err := time.ParseDuration(argument(Object(o.containers()[0]), "--grace"))
	whole, _ := o.podSpec()["terminationGracePeriodSeconds"].(int)
	if err != nil || grace+5*time.Second > time.Duration(whole)*time.Second {
		t.Errorf("the worker takes %v of the pod's %d s: %v", grace, whole, err)
	}
	for _, toleration := range maps(o.podSpec()["tolerations"]) {
		if strings.HasPrefix(text(toleration["key"]), "node.kubernetes.io/") && toleration["tolerationSeconds"] != 30 {
			t.Errorf("a lost node is waited for: %v", toleration)
		}
	}
}

// A worker with a GPU asks for one and is let near it; spot workers are gone within the shortest notice.
func TestComponentsDoWhatTheySay(t *testing.T) {
	run, err := Render(Options{Overlay: "gpu-spot"})
	if err != nil {
		t.Fatal(err)
	}
	worker := byName(run.Objects)["Deployment gpu-spot-worker"]
	if c := Object(worker.containers()[0]); c.find("resources", "limits", gpuResource) != "1" || !strings.HasPrefix(text(c["image"]), "andrea-cuda:") {
		t.Errorf("the worker has no GPU: %v", c)
	}
	if got := argument(Object(worker.containers()[0]), "--engine"); got != "cuda" {
		t.Errorf("the worker computes on %s", got)
	}
	var keys []string
	for _, toleration := range maps(worker.podSpec()["tolerations"]) {
		keys = append(keys, text(toleration["key"]))
	}
	for _, want := range []string{gpuResource, "cloud.google.com/gke-spot", "node.kubernetes.io/unreachable"} {
		if !slices.Contains(keys, want) {
			t.Errorf("tolerated are %v, not %s", keys, want)
		}
	}
	for _, overlay := range Overlays() { // whatever the overlay's own grace
		for _, components := range [][]string{{"spot"}, {"spot", "worker-job"}} {
			run, err := Render(Options{Overlay: overlay, Components: components})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range run.Objects {
				if whole, hasPods := o.podSpec()["terminationGracePeriodSeconds"].(int); hasPods && o.component() == Worker && whole != 15 {
					t.Errorf("%s with %v: %s has %d s, and the node is gone before the pod", overlay, components, o.Kind(), whole)
				}
			}
		}
	}
}

// The overlays of the variants train what jobs/ says.
func TestVariantsTrainTheShippedJobs(t *testing.T) {
	for overlay, job := range map[string]string{"12m": "12m", "120m": "120m", "480m": "480m", "gpu-spot": "120m", "external-nats": "12m"} {
		file, err := os.ReadFile("../jobs/" + job + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		want, err := pipeline.ParseJobSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		run, err := Render(Options{Overlay: overlay})
		if err != nil {
			t.Fatal(err)
		}
		want.Name = run.Name
		if differences := want.Differences(run.Job); len(differences) > 0 {
			t.Errorf("%s: %v", overlay, differences)
		}
	}
}

// The tokens of the image's licence lie where the coordinator looks.
func TestOwnTextIsFound(t *testing.T) {
	made, err := prepare.Text(t.Context(), prepare.Options{FS: vfs.OS, Paths: []string{"../LICENSE"}, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	run, err := Render(Options{Overlay: "quickstart"})
	if err != nil {
		t.Fatal(err)
	}
	c := byName(run.Objects)["Job quickstart-coordinator"].containers()
	if got, want := argument(Object(c[1]), "--data"), "/data/"+filepath.Base(made.Dir); got != want {
		t.Errorf("the coordinator reads %s, the tokens are in %s", got, want)
	}
}
