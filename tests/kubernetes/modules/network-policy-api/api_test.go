package conformance

import (
	"time"

	api "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

var install = api.Install

// How long a connection that must fail is waited for.
const patience = time.Second
