// Package conformance runs the conformance tests of the network-policy-api project, as they are but for two things: a connection that must
// fail may be waited for less long, and nothing is asked over SCTP, which the kernel of a build machine need not have.
package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	timeouts "sigs.k8s.io/network-policy-api/conformance/utils/config"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
)

func TestClusterNetworkPolicy(t *testing.T) {
	access, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	// Every question is a few requests, and they come one after the other.
	access.QPS = -1
	objects, err := client.NewWithWatch(access, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := install(objects.Scheme()); err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if err := withoutSCTP(object); err != nil {
			return err
		}
		return c.Create(ctx, object, options...)
	}
	chosen := slices.DeleteFunc(slices.Clone(tests.ConformanceTests), func(test suite.ConformanceTest) bool {
		return strings.Contains(test.ShortName, "SCTP")
	})
	run := suite.New(suite.Options{
		Client:                     interceptor.NewClient(objects, interceptor.Funcs{Create: create}),
		ClientSet:                  kubernetes.NewForConfigOrDie(access),
		KubeConfig:                 *access,
		CleanupBaseResources:       true,
		EnableAllSupportedFeatures: true,
		TimeoutConfig:              timeouts.TimeoutConfig{RequestTimeout: patience},
	})
	run.Setup(t)
	run.Run(t, chosen)
}

// withoutSCTP takes the containers that serve it out of the pods everything is asked of: they would never become ready.
func withoutSCTP(object client.Object) error {
	set, ok := object.(*unstructured.Unstructured)
	if !ok || set.GetKind() != "StatefulSet" {
		return nil
	}
	place := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(set.Object, place...)
	if err != nil {
		return err
	}
	containers = slices.DeleteFunc(containers, func(container any) bool {
		variables, _, _ := unstructured.NestedSlice(container.(map[string]any), "env")
		return slices.ContainsFunc(variables, func(variable any) bool {
			name, _ := variable.(map[string]any)["name"].(string)
			return strings.HasPrefix(name, "SERVE_SCTP_")
		})
	})
	return unstructured.SetNestedSlice(set.Object, containers, place...)
}
