// Package kubernetes pins the Kubernetes the tests run on. The commands are tools of go.mod; the conformance tests are a
// package, so they are named here.
package kubernetes

import _ "k8s.io/kubernetes/test/e2e"
