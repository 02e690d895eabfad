package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"andrea/pipeline"
)

// Options say what a run in a cluster is like. The zero value of a field leaves what the overlay says.
type Options struct {
	Overlay     string   // folder of k8s/overlays
	Components  []string // folders of k8s/components, besides those of the overlay
	Name        string   // of the run
	Namespace   string   // empty: the overlay's, or the one that kubectl uses
	Job         []byte   // job spec in YAML
	Workers     int      // how many; 0: as the overlay says
	GPU         bool     // an NVIDIA GPU for each worker
	Image       string   // with tag or digest
	WorkerImage string   // of the workers alone, where they need another
	DataClaim   string   // claim with the dataset
	DataPath    string   // the dataset's folder in it, absolute, below /data
}

// Run is a rendered run.
type Run struct {
	Name    string
	Objects []Object // to be applied
	Job     pipeline.JobSpec
}

const (
	jobKey       = "job.yaml" // in the ConfigMap of the job
	gpuComponent = "gpu-nvidia"
	jobComponent = "worker-job"
	gpuResource  = "nvidia.com/gpu"
	dataVolume   = "data"
	dataVariable = "DATA"
)

// validName is what Kubernetes allows as the beginning of the names of Services and pods.
var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Overlays lists the names of the overlays.
func Overlays() []string { return folders("overlays") }

// Components lists the names of the components.
func Components() []string { return folders("components") }

func folders(dir string) (names []string) {
	entries, err := fs.ReadDir(manifests, dir)
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Render returns the objects of a run.
func Render(o Options) (Run, error) {
	run, err := o.render()
	if err != nil {
		return Run{}, fmt.Errorf("rendering the run %s: %w", o.Name, err)
	}
	return run, nil
}

func (o Options) render() (Run, error) {
	if err := o.check(); err != nil {
		return Run{}, err
	}
	dir := path.Join("overlays", o.Overlay)
	k, err := readKustomization(manifests, dir)
	if err != nil {
		return Run{}, err
	}
	o.override(&k)
	objects, err := build(manifests, dir, k)
	if err != nil {
		return Run{}, err
	}
	run := Run{Name: k.Labels[0].Pairs[instanceLabel], Objects: applied(objects)}
	o.setImages(run.Objects)
	if o.Workers > 0 {
		run.SetWorkers(o.Workers)
	}
	if err := o.mountData(run.Objects); err != nil {
		return Run{}, err
	}
	return run, o.setJob(&run)
}

// check lists everything that is wrong with the options.
func (o Options) check() error {
	var errs []error
	if !slices.Contains(Overlays(), o.Overlay) {
		errs = append(errs, fmt.Errorf("there is no overlay %q: choose one of %s", o.Overlay, strings.Join(Overlays(), ", ")))
	}
	for _, c := range o.Components {
		if !slices.Contains(Components(), c) {
			errs = append(errs, fmt.Errorf("there is no component %q: choose of %s", c, strings.Join(Components(), ", ")))
		}
	}
	if o.Name != "" && !validName.MatchString(o.Name) {
		errs = append(errs, fmt.Errorf("the name is %q: use up to 40 of a-z, 0-9 and -, a letter first and no - at the end", o.Name))
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		errs = append(errs, fmt.Errorf("the number of workers is %d: must be between 1 and %d", o.Workers, maxWorkers))
	}
	if o.DataPath != "" && !strings.HasPrefix(path.Clean(o.DataPath), "/data/") {
		errs = append(errs, fmt.Errorf("the dataset's folder is %q: the claim is mounted at /data: give a path below it, such as /data/tokens", o.DataPath))
	}
	for _, image := range []string{o.Image, o.WorkerImage} {
		if image != "" && !pinned(image) {
			errs = append(errs, fmt.Errorf("the image is %q: name a tag other than latest, or a digest, or two pods could run two programs", image))
		}
	}
	return errors.Join(errs...)
}

const maxWorkers = 1024

// pinned reports that an image has a tag or a digest that says which it is.
func pinned(image string) bool {
	if strings.Contains(image, "@sha256:") {
		return true
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tagged && tag != "" && tag != "latest"
}

// override changes an overlay's kustomization before it is built.
func (o Options) override(k *kustomization) {
	if o.Name != "" {
		k.NamePrefix = o.Name + "-"
		for _, l := range k.Labels {
			if _, named := l.Pairs[instanceLabel]; named {
				l.Pairs[instanceLabel] = o.Name
			}
		}
	}
	if o.Namespace != "" {
		k.Namespace = o.Namespace
	}
	wanted := slices.Clone(o.Components)
	if o.GPU {
		wanted = append(wanted, gpuComponent)
	}
	k.Components = componentsInOrder(k.Components, wanted)
}

// componentsInOrder adds components to those of an overlay, whose values they may change. The one that replaces the Deployment
// comes before all that patch it.
func componentsInOrder(own, wanted []string) (folders []string) {
	for _, name := range wanted {
		folder := "../../components/" + name
		switch {
		case slices.Contains(folders, folder) || slices.Contains(own, folder):
		case name == jobComponent:
			own = append([]string{folder}, own...)
		default:
			folders = append(folders, folder)
		}
	}
	return append(own, folders...)
}

// setImages gives the containers the images that were named.
func (o Options) setImages(objects []Object) {
	for _, object := range objects {
		side := object.component()
		image := o.Image
		if side == Worker && (o.WorkerImage != "" || usesGPU(object)) {
			image = o.WorkerImage
		}
		for _, c := range object.containers() {
			if image != "" {
				c["image"] = image
			}
		}
	}
}

// SetWorkers changes the number of workers.
func (r Run) SetWorkers(n int) {
	for _, object := range r.Objects {
		if object.component() != Worker {
			continue
		}
		switch object.Kind() {
		case "Deployment":
			object.submap("spec")["replicas"] = n
		case "Job":
			object.submap("spec")["parallelism"] = n
		}
	}
}

// OwnServer reports that the coordinator opens a server, whose keys and certificate are in Secrets that can be made
// here; else they are credentials for the server of somebody else.
func (r Run) OwnServer() bool {
	return slices.ContainsFunc(r.Objects, func(o Object) bool {
		return slices.ContainsFunc(o.containers(), func(c map[string]any) bool {
			args, _ := c["args"].([]any)
			return slices.ContainsFunc(args, func(arg any) bool { return strings.HasPrefix(text(arg), "--keys=") })
		})
	})
}

// usesGPU reports that a pod template asks for a GPU, and so needs an image with the engine for it.
func usesGPU(object Object) bool {
	return slices.ContainsFunc(object.containers(), func(c map[string]any) bool {
		return Object(c).find("resources", "limits", gpuResource) != nil
	})
}

// mountData says where the dataset lies.
func (o Options) mountData(objects []Object) error {
	for _, object := range objects {
		if object.component() != Coordinator {
			continue
		}
		for _, volume := range maps(object.podSpec()["volumes"]) {
			claim, isClaim := volume["persistentVolumeClaim"].(map[string]any)
			if volume["name"] != dataVolume {
				continue
			}
			if !isClaim && (o.DataClaim != "" || o.DataPath != "") {
				return fmt.Errorf("the overlay %s brings its own text, and takes no dataset: choose another one", o.Overlay)
			}
			if o.DataClaim != "" {
				claim["claimName"] = o.DataClaim
			}
		}
		if o.DataPath != "" {
			setVariable(object, dataVariable, path.Clean(o.DataPath))
		}
	}
	return nil
}

// setVariable gives a variable of the containers that have it another value.
func setVariable(o Object, name, value string) {
	for _, c := range o.containers() {
		for _, v := range maps(c["env"]) {
			if v["name"] == name {
				v["value"] = value
			}
		}
	}
}

// setJob writes the whole job, with all its keys and the run's name, in place of the overlay's.
func (o Options) setJob(run *Run) error {
	for _, object := range run.Objects {
		given, isJob := object.find("data", jobKey).(string)
		if object.Kind() != "ConfigMap" || !isJob {
			continue
		}
		source := []byte(given)
		if o.Job != nil {
			source = o.Job
		}
		spec, err := pipeline.ParseJobSpec(source)
		if err != nil {
			return err
		}
		spec.Name = run.Name
		spec.Data.Path = "" // the coordinator is told where the data lies in the cluster
		run.Job = spec
		object.submap("data")[jobKey] = string(spec.Marshal())
		return nil
	}
	return errors.New("the overlay has no job")
}

// JobOf reads the job out of the ConfigMap of a run.
func JobOf(config Object) (pipeline.JobSpec, error) {
	return pipeline.ParseJobSpec([]byte(text(config.find("data", jobKey))))
}
