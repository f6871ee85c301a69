package conformance

import (
	"time"

	api "sigs.k8s.io/network-policy-api/apis/v1alpha1"
)

var install = api.Install

// How long a connection that must fail is waited for. These tests ask once, so one that must not is given a second chance by TCP.
const patience = 3 * time.Second
