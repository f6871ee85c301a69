//! A Kubernetes API with a Service and its EndpointSlice, an issuer of certificates, and members run from the node image.

use std::collections::VecDeque;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use netloom_apiserver::{NoKubelet, server_url};
use netloom_certificate::{Files, in_directory};
use netloom_controller::certificates;
use netloom_ovsdb::client::Tls;
use netloom_ovsdb::{Client, Event, Events, MonitorTable, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "c0ffee";
const NAMESPACE: &str = "netloom-system";
/// How a part finds the databases.
pub const IN_CLUSTER: [&str; 4] = ["--service", "netloom-system/netloom-ovn", "--kubeconfig", "/mnt/kubeconfig"];

/// A hanging test fails; no test depends on how long anything takes.
pub async fn within<T>(waiting_for: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(value) => value,
        Err(_) => panic!("still waiting for {waiting_for} after a minute"),
    }
}

pub struct World {
    directory: tempfile::TempDir,
    client: kube::Client,
    addresses: Vec<IpAddr>,
    issuing: JoinHandle<anyhow::Result<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.issuing.abort();
    }
}

impl World {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let client = api(directory.path()).await;
        // Ports are those of the product, so every world has addresses of its own.
        let random =
            *netloom_ovsdb::Uuid::new_v5(&netloom_ovsdb::Uuid::NAMESPACE_OID, directory.path().as_os_str().as_encoded_bytes()).as_bytes();
        let addresses = (1..=3)
            .map(|host| IpAddr::V4(Ipv4Addr::new(127, random[0] | 1, random[1], host)))
            .collect();
        let options = certificates::Options {
            namespace: NAMESPACE.to_owned(),
            directory: directory.path().join("controller"),
            lifetime: Duration::from_secs(3600),
            node_lifetime: Duration::from_secs(3600),
        };
        create::<Namespace>(Api::all(client.clone()), json!({ "metadata": { "name": NAMESPACE } })).await;
        let (issued, mut ready) = tokio::sync::watch::channel(false);
        let issuing = tokio::spawn(certificates::run(client.clone(), options, issued));
        within("certificates", ready.wait_for(|issued| *issued)).await.unwrap();
        let world = World {
            directory,
            client,
            addresses,
            issuing,
        };
        world.mount_secrets().await;
        world.announce().await;
        world
    }

    async fn announce(&self) {
        let service = json!({
            "metadata": { "name": "netloom-ovn" },
            "spec": { "clusterIP": "None", "publishNotReadyAddresses": true, "ports": [{ "name": "northbound", "port": 6641 }] },
        });
        create::<Service>(self.namespaced(), service).await;
        let endpoint = |(place, address): (usize, &IpAddr)| json!({ "addresses": [address], "hostname": format!("netloom-ovn-{place}") });
        let slice = json!({
            "metadata": { "name": "netloom-ovn-abcde", "labels": { "kubernetes.io/service-name": "netloom-ovn" } },
            "addressType": "IPv4",
            "endpoints": self.addresses.iter().enumerate().map(endpoint).collect::<Vec<_>>(),
        });
        create::<EndpointSlice>(self.namespaced(), slice).await;
    }

    /// Makes the API know our own resources.
    pub async fn install_definitions(&self) {
        for manifest in netloom_kubernetes::Kind::definitions() {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(manifest).unwrap();
            let name = definition.metadata.name.clone().unwrap();
            let api = Api::<CustomResourceDefinition>::all(self.client.clone());
            api.create(&PostParams::default(), &definition).await.unwrap();
            let established = await_condition(api, &name, kube::runtime::conditions::is_crd_established());
            within("a definition", established).await.unwrap();
        }
    }

    fn namespaced<K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Does what kubelets do with volumes of the Secrets.
    async fn mount_secrets(&self) {
        for (mounted, secret) in [("ovn", "netloom-member-tls"), ("trust", "netloom-trust")] {
            let secret = self.namespaced::<Secret>().get(secret).await.unwrap();
            let directory = self.path(mounted);
            std::fs::create_dir_all(&directory).unwrap();
            for (name, content) in secret.data.unwrap() {
                let new = directory.join(format!("{name}.new"));
                std::fs::write(&new, content.0).unwrap();
                std::fs::rename(new, directory.join(name)).unwrap();
            }
        }
    }

    /// Does what an agent does, with what the API server says of its token; the directory is named like the node.
    pub async fn certify(&self, node: &str) -> Tls {
        let request = netloom_certificate::request::make(node).unwrap();
        let object = json!({
            "metadata": { "name": node },
            "spec": {
                "request": ByteString(request.text.into_bytes()), "signerName": "netloom.io/node", "usages": ["client auth"],
                "username": format!("system:serviceaccount:{NAMESPACE}:netloom-agent"),
                "extra": { "authentication.kubernetes.io/node-name": [node] },
            },
        });
        let requests = Api::<CertificateSigningRequest>::all(self.client.clone());
        create(requests.clone(), object).await;
        let certificate =
            |request: &CertificateSigningRequest| String::from_utf8(request.status.as_ref()?.certificate.as_ref()?.0.clone()).ok();
        let signed = |request: Option<&CertificateSigningRequest>| request.and_then(certificate).is_some();
        let request_signed = within("a certificate", await_condition(requests, node, signed)).await.unwrap();
        let mut files = Files::from([("tls.key".to_owned(), request.key)]);
        files.extend(
            request_signed
                .as_ref()
                .and_then(certificate)
                .map(|text| ("tls.crt".to_owned(), text)),
        );
        let trusted = std::fs::read_to_string(self.path("trust/ca.crt")).unwrap();
        files.insert("ca.crt".to_owned(), trusted);
        netloom_certificate::files::write(&self.path(node), &files).unwrap();
        in_directory(&self.path(node))
    }

    /// Takes the authority away, waits for what is issued by another, and mounts that.
    pub async fn replace_authority(&self) {
        let secrets = self.namespaced::<Secret>();
        let version = |secret: &Secret| secret.metadata.resource_version.clone();
        let own = std::fs::read_to_string(self.path("controller/tls.crt")).unwrap();
        let before = version(&secrets.get("netloom-member-tls").await.unwrap());
        secrets.delete("netloom-member-ca", &DeleteParams::default()).await.unwrap();
        let renewed = |secret: Option<&Secret>| secret.is_some_and(|secret| version(secret) != before);
        within("a new certificate", await_condition(secrets.clone(), "netloom-member-tls", renewed))
            .await
            .unwrap();
        self.mount_secrets().await;
        // The controller's own is written last, and nothing tells of it but the file.
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        within("the controller's own certificate", async {
            while std::fs::read_to_string(self.path("controller/tls.crt")).unwrap() == own {
                tick.tick().await;
            }
        })
        .await;
    }

    /// A copy of the controller's own certificates as they are now.
    pub fn keep_own_certificates(&self) -> Tls {
        let kept = self.path("kept");
        std::fs::create_dir(&kept).unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            std::fs::copy(self.path("controller").join(name), kept.join(name)).unwrap();
        }
        in_directory(&kept)
    }

    /// Waits until the Service remembers the cluster.
    pub async fn recorded(&self) {
        let annotated = |service: Option<&Service>| {
            let annotations = service.and_then(|service| service.metadata.annotations.as_ref());
            annotations.is_some_and(|annotations| annotations.contains_key("netloom.io/northbound-cluster"))
        };
        let recorded = await_condition(self.namespaced::<Service>(), "netloom-ovn", annotated);
        within("the Service's annotation", recorded).await.unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn remote(&self, place: usize) -> String {
        format!("ssl:{}:6641", self.addresses[place])
    }

    pub fn remotes(&self) -> String {
        (0..3).map(|place| self.remote(place)).collect::<Vec<_>>().join(",")
    }

    pub fn options(&self, remotes: &str, leader_only: bool) -> Options {
        let mut options = Options::new(remotes.parse().unwrap(), "OVN_Northbound");
        options.monitor = vec![MonitorTable::all("Logical_Switch")];
        options.tls = Some(in_directory(&self.path("controller")));
        options.leader_only = leader_only;
        options
    }

    /// A client with the controller's certificates.
    pub fn client(&self, remotes: &str, leader_only: bool) -> (Client, Events) {
        Client::start(self.options(remotes, leader_only))
    }

    /// Waits until a member shows this many switches.
    pub async fn serves(&self, place: usize, count: usize) {
        let (client, mut events) = self.client(&self.remote(place), false);
        let shown = async {
            while let Some(event) = events.recv().await {
                let changed = matches!(event, Event::Snapshot(_) | Event::Update(_));
                if changed && client.read(|replica| replica.rows("Logical_Switch").count()) == Some(count) {
                    return;
                }
            }
        };
        within(&format!("{count} switches of member {place}"), shown).await;
    }

    /// Removes what a member keeps.
    pub fn wipe(&self, place: usize) {
        std::fs::remove_dir_all(self.path(&format!("{place}/data"))).unwrap();
    }

    /// Moves a member's disk away; returns what brings it back.
    pub fn take_disk(&self, place: usize) -> impl FnOnce() + use<> {
        let (disk, aside) = (self.path(&format!("{place}/data")), self.path(&format!("{place}/aside")));
        std::fs::rename(&disk, &aside).unwrap();
        move || {
            std::fs::remove_dir_all(&disk).unwrap();
            std::fs::rename(&aside, &disk).unwrap();
        }
    }

    /// What a member's server says of the cluster.
    pub async fn status(&self, place: usize) -> String {
        let control = format!("/mnt/{place}/run/ovnnb_db.ctl");
        self.tool(&["ovs-appctl", "-t", &control, "cluster/status", "OVN_Northbound"]).await
    }

    /// Starts a member of the Northbound database.
    pub fn member(&self, place: usize, replicas: usize) -> Part {
        self.member_of("northbound", place, replicas)
    }

    pub fn member_of(&self, database: &str, place: usize, replicas: usize) -> Part {
        let (member, replicas) = (format!("netloom-ovn-{place}"), replicas.to_string());
        let (address, data, run) = (
            self.addresses[place].to_string(),
            format!("/mnt/{place}/data"),
            format!("/mnt/{place}/run"),
        );
        let mut arguments = vec![
            "database",
            database,
            "--member",
            &member,
            "--replicas",
            &replicas,
            "--tls",
            "/mnt/ovn",
        ];
        arguments.extend(IN_CLUSTER);
        arguments.extend(["--address", &address, "--data", &data, "--run-directory", &run]);
        self.run(&arguments)
    }

    /// Starts the relay in front of a member of the Southbound database.
    pub fn relay(&self, place: usize) -> Part {
        let (address, run) = (self.addresses[place].to_string(), format!("/mnt/{place}/run"));
        let member = format!("{run}/ovnsb_db.sock");
        let arguments = ["relay", "--tls", "/mnt/ovn", "--member", &member, "--run-directory", &run];
        self.run(&[&arguments[..], &["--address", &address]].concat())
    }

    /// Starts a part.
    pub fn run(&self, arguments: &[&str]) -> Part {
        Part::of(self.in_image(&[&["/opt/netloom", "run"], arguments].concat()))
    }

    /// Starts a part in a network namespace of its own.
    pub fn run_apart(&self, arguments: &[&str]) -> Part {
        let mut command = self.in_image(&[&["/opt/netloom", "run"], arguments].concat());
        let apart = [std::ffi::OsStr::new("--net"), command.as_std().get_program()].map(ToOwned::to_owned);
        let rest: Vec<_> = command.as_std().get_args().map(ToOwned::to_owned).collect();
        let mut outer = Command::new("unshare");
        outer
            .args(apart)
            .args(rest)
            .envs(command.as_std().get_envs().filter_map(|(key, value)| Some((key, value?))));
        command = outer;
        command.stdin(Stdio::null());
        Part::of(command)
    }

    /// Runs a tool to its end.
    pub async fn tool(&self, program: &[&str]) -> String {
        let output = within("a tool", self.in_image(program).output()).await.unwrap();
        assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a tool says that must fail.
    pub async fn attempt(&self, program: &[&str]) -> String {
        let output = within("a tool", self.in_image(program).output()).await.unwrap();
        assert!(!output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    /// A program of the image, which sees this world's directory as /mnt and the product as /opt. Mounts are its own.
    fn in_image(&self, program: &[&str]) -> Command {
        let product = Path::new(env!("CARGO_BIN_EXE_netloom")).parent().unwrap();
        let script = r#"
            set -e
            mount --bind "$1" "$3/mnt"; mount --bind "$2" "$3/opt"; mount --rbind /dev "$3/dev"
            image=$3; shift 3
            exec chroot "$image" "$@"
        "#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command
            .args([self.directory.path(), product, &netloom_fixtures::image()])
            .args(program);
        command
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .env("OVS_RUNDIR", "/mnt/node")
            .env("OVN_RUNDIR", "/mnt/node")
            .stdin(Stdio::null());
        command
    }
}

/// A part that lives as long as the test.
pub struct Part {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    said: VecDeque<String>,
}

impl Part {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Part {
            lines: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
            said: VecDeque::new(),
        }
    }

    /// Waits until it has logged this.
    pub async fn says(&mut self, text: &str) {
        let said = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.said.push_back(line);
                if self.said.back().is_some_and(|line| line.contains(text)) {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(Duration::from_secs(60), said).await;
        assert!(matches!(found, Ok(true)), "never said `{text}`:\n{}", self.text());
    }

    /// Asks it to end, waits until it has, and gives what it ended with.
    pub async fn end(&mut self) -> ExitStatus {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").arg(id).status().await.unwrap().success());
        // Nobody reads what it says to the end otherwise, and a full pipe would hold it up.
        let rest = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.said.push_back(line);
            }
            self.child.wait().await.unwrap()
        };
        within("a part's end", rest).await
    }

    /// As `end`, and it has to be a success.
    pub async fn stop(mut self) {
        let status = self.end().await;
        assert!(status.success(), "{status}:\n{}", self.text());
    }

    /// All it said so far.
    pub fn text(&mut self) -> String {
        self.said.make_contiguous().join("\n")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Not killed: then it would leave its server behind.
        if let Some(id) = self.child.id() {
            let _ = std::process::Command::new("kill").arg(id.to_string()).status();
        }
        if std::thread::panicking() {
            println!("{}", self.text());
        }
    }
}

async fn api(directory: &Path) -> kube::Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_url(listener.local_addr().unwrap(), TOKEN);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": server } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "users": [{ "name": "test", "user": {} }],
    });
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    tokio::spawn(netloom_apiserver::run(netloom_apiserver::Options {
        listeners: vec![listener],
        data: directory.join("objects.redb"),
        token: TOKEN.to_owned(),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        advertise: Vec::new(),
        kubelet: Arc::new(NoKubelet),
        stop: CancellationToken::new(),
    }));
    netloom_controller::kubernetes(Some(&kubeconfig)).await.unwrap()
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    within("an object's creation", api.create(&PostParams::default(), &object))
        .await
        .unwrap();
}
