//! The lab's API server part: [`netloom_apiserver`] with the sockets a lab has and the kubelets of its nodes.
//!
//! One listener comes from the host's network namespace on standard input and stays open over restarts of this part, so clients on the host
//! wait instead of being refused; the others are made here, in the control machine's own namespace.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use ipnet::IpNet;
use netloom_apiserver::{ExecRequest, ExecSession, Kubelet, KubeletError, LogRequest};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::cluster;
use crate::spec::{API_PORT, IpFamily, Machine};
use crate::wire::{Ask, Channel, read_frame, socket, write_frame};

/// How to run the part.
#[derive(Debug)]
pub struct Options {
    /// Address families of services.
    pub ip_family: IpFamily,
    /// The machines' kubeconfig, whose token every request must carry.
    pub kubeconfig: PathBuf,
}

/// Serves until told to stop.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let from_host = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("taking the listener from standard input")?;
    let mut listeners = vec![TcpListener::from(from_host)];
    let inside: Vec<_> = Machine::Control
        .addresses(options.ip_family)
        .into_iter()
        .map(|(address, _)| SocketAddr::new(address, API_PORT))
        .collect();
    for address in &inside {
        listeners.push(TcpListener::bind(address).with_context(|| format!("listening on {address}"))?);
    }
    let data = Path::new("/var/lib/netloom/apiserver.redb");
    std::fs::create_dir_all("/var/lib/netloom").context("creating /var/lib/netloom")?;
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let stopping = stop.clone();
    tokio::spawn(async move {
        terminate.recv().await;
        stopping.cancel();
    });
    let advertise = |address: &&SocketAddr| match address.ip() {
        IpAddr::V4(_) => options.ip_family.has_v4(),
        IpAddr::V6(_) => options.ip_family.has_v6(),
    };
    let serving = netloom_apiserver::Options {
        listeners,
        data: data.to_path_buf(),
        token: cluster::token(&options.kubeconfig)?,
        service_cidrs: service_ranges(options.ip_family)?,
        advertise: inside.iter().filter(advertise).copied().collect(),
        kubelet: Arc::new(NodeKubelets),
        stop,
    };
    netloom_apiserver::run_with(serving, &cluster::objects(options.ip_family)?)
        .await
        .context("running the API server")
}

fn service_ranges(family: IpFamily) -> anyhow::Result<Vec<IpNet>> {
    let ranges = family.service_ranges().into_iter();
    ranges
        .map(|(address, prefix)| IpNet::new(address, prefix).context("naming the range of services"))
        .collect()
}

/// The kubelets, reached over the sockets that all machines share.
struct NodeKubelets;

impl Kubelet for NodeKubelets {
    fn exec(&self, node: &str, request: ExecRequest) -> BoxFuture<'static, Result<ExecSession, KubeletError>> {
        let ask = Ask::Exec {
            uid: request.uid,
            container: request.container,
            command: request.command,
            stdin: request.stdin,
            tty: request.tty,
        };
        let node = node.to_string();
        async move { open(&node, &ask).await.map(exec_session) }.boxed()
    }

    fn logs(&self, node: &str, request: LogRequest) -> BoxFuture<'static, Result<Box<dyn AsyncRead + Send + Unpin>, KubeletError>> {
        let ask = Ask::Logs {
            uid: request.uid,
            container: request.container,
            follow: request.follow,
            tail: request.tail_lines,
            since: request.since_seconds,
            timestamps: request.timestamps,
            previous: request.previous,
        };
        let node = node.to_string();
        async move {
            let (mut frames, writer) = open(&node, &ask).await?;
            let (mut sender, receiver) = duplex(64 * 1024);
            tokio::spawn(async move {
                let _writer = writer; // the kubelet takes a closed connection for a reader that went away
                while let Ok(Some((Channel::Stdout, bytes))) = read_frame(&mut frames).await {
                    if sender.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
            Ok(Box::new(receiver) as Box<dyn AsyncRead + Send + Unpin>)
        }
        .boxed()
    }
}

async fn open(node: &str, ask: &Ask) -> Result<(OwnedReadHalf, OwnedWriteHalf), KubeletError> {
    let fail = |error: &dyn std::fmt::Display| KubeletError(format!("asking the kubelet of {node}: {error}"));
    let stream = UnixStream::connect(socket(node)).await.map_err(|error| fail(&error))?;
    let (mut reader, mut writer) = stream.into_split();
    let mut line = serde_json::to_vec(ask).map_err(|error| fail(&error))?;
    line.push(b'\n');
    writer.write_all(&line).await.map_err(|error| fail(&error))?;
    match read_frame(&mut reader).await.map_err(|error| fail(&error))? {
        Some((Channel::Accepted, _)) => Ok((reader, writer)),
        Some((Channel::Refused, reason)) => Err(KubeletError(String::from_utf8_lossy(&reason).into_owned())),
        _ => Err(fail(&"it closed the connection")),
    }
}

fn exec_session((mut frames, mut writer): (OwnedReadHalf, OwnedWriteHalf)) -> ExecSession {
    let (stdin, mut stdin_reader) = duplex(64 * 1024);
    let (stdout, mut stdout_writer) = duplex(64 * 1024);
    let (stderr, mut stderr_writer) = duplex(64 * 1024);
    let (resize, mut sizes) = mpsc::channel::<(u16, u16)>(4);
    let (exit_sender, exit) = oneshot::channel();
    tokio::spawn(async move {
        let mut code = Err(KubeletError("the kubelet closed the connection before the command ended".into()));
        while let Ok(Some((channel, bytes))) = read_frame(&mut frames).await {
            let written = match channel {
                Channel::Stdout => stdout_writer.write_all(&bytes).await,
                Channel::Stderr => stderr_writer.write_all(&bytes).await,
                Channel::Exit => {
                    code = String::from_utf8_lossy(&bytes)
                        .parse()
                        .map_err(|_| KubeletError("the kubelet sent no exit code".into()));
                    break;
                }
                _ => Ok(()),
            };
            if written.is_err() {
                break;
            }
        }
        let _ = exit_sender.send(code);
    });
    tokio::spawn(async move {
        let mut input_open = true;
        let mut sizes_open = true;
        let mut buffer = vec![0; 16 * 1024];
        while input_open || sizes_open {
            let sent = tokio::select! {
                read = stdin_reader.read(&mut buffer), if input_open => {
                    let length = read.unwrap_or(0);
                    input_open = length > 0;
                    write_frame(&mut writer, Channel::Stdin, &buffer[..length]).await
                }
                size = sizes.recv(), if sizes_open => match size {
                    Some((columns, rows)) => write_frame(&mut writer, Channel::Resize, format!("{columns} {rows}").as_bytes()).await,
                    None => { sizes_open = false; Ok(()) }
                },
            };
            if sent.is_err() {
                return;
            }
        }
    });
    let exit = async move {
        exit.await
            .unwrap_or_else(|_| Err(KubeletError("the connection to the kubelet was lost".into())))
    }
    .boxed();
    let boxed = |stream: DuplexStream| Box::new(stream) as Box<dyn AsyncRead + Send + Unpin>;
    ExecSession {
        stdin: Box::new(stdin),
        stdout: boxed(stdout),
        stderr: boxed(stderr),
        resize,
        exit,
    }
}
