//! Custom resources: definition, validation, defaults, columns, subresources, removal.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::Lab;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: networks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: networks, kind: Network, shortNames: [nw]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: CIDR, type: string, jsonPath: .spec.cidr}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            description: What the network should be.
            required: [cidr]
            properties:
              cidr: {type: string, pattern: '^[0-9a-f:./]+$', description: The addresses.}
              mtu: {type: integer, minimum: 576, maximum: 9000, default: 1400}
              mode: {type: string, enum: [routed, bridged]}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

#[tokio::test]
async fn a_custom_kind_lives_and_dies() {
    let lab = Lab::start().await;
    let definition = lab.manifest("crd.yaml", DEFINITION);
    lab.kubectl(&["apply", "-f", &definition]).await;
    lab.kubectl(&["wait", "--for=condition=Established", "crd/networks.example.com", "--timeout=10s"])
        .await;

    let bad = lab.manifest(
        "bad.yaml",
        "apiVersion: example.com/v1\nkind: Network\nmetadata: {name: a}\nspec: {cidr: 'x y', mtu: 100, mode: flat}\n",
    );
    let text = lab.refused(&["create", "-f", &bad]).await;
    for expected in [
        "The Network \"a\" is invalid",
        "spec.cidr: Invalid value: \"x y\": spec.cidr in body should match '^[0-9a-f:./]+$'",
        "spec.mtu: Invalid value: 100: spec.mtu in body should be greater than or equal to 576",
        "spec.mode: Unsupported value: \"flat\": supported values: \"routed\", \"bridged\"",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let missing = lab.manifest(
        "missing.yaml",
        "apiVersion: example.com/v1\nkind: Network\nmetadata: {name: a}\nspec: {mtu: 1500}\n",
    );
    assert!(lab.refused(&["create", "-f", &missing]).await.contains("spec.cidr: Required value"));

    let good = lab.manifest(
        "good.yaml",
        "apiVersion: example.com/v1\nkind: Network\nmetadata: {name: a}\nspec: {cidr: 10.0.0.0/8, unknown: dropped}\n",
    );
    lab.kubectl(&["apply", "--validate=false", "-f", &good]).await;
    assert_eq!(
        lab.kubectl(&["get", "nw", "a", "-o", "jsonpath={.spec}"]).await,
        r#"{"cidr":"10.0.0.0/8","mtu":1400}"#
    );
    let status = r#"{"spec":{"mtu":9000},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    lab.kubectl(&["patch", "nw", "a", "--subresource=status", "--type=merge", "-p", status])
        .await;
    let text = lab.kubectl(&["get", "networks"]).await;
    assert!(
        text.contains("NAME   CIDR         READY") && text.contains("a      10.0.0.0/8   True"),
        "{text}"
    );
    assert_eq!(
        lab.kubectl(&["get", "nw", "a", "-o", "jsonpath={.spec.mtu} {.metadata.generation}"])
            .await,
        "1400 1"
    );
    assert!(
        lab.kubectl(&["explain", "network.spec"])
            .await
            .contains("What the network should be.")
    );
    lab.kubectl(&["apply", "--server-side", "--force-conflicts", "--validate=false", "-f", &good])
        .await;

    lab.kubectl(&["delete", "crd", "networks.example.com", "--timeout=20s"]).await;
    let text = lab.refused(&["get", "networks"]).await;
    assert!(text.contains("the server could not find the requested resource"), "{text}");
}
