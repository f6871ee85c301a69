//! What this server needs from the nodes' kubelets: running a command in a container and reading its log. The lab
//! implements [`Kubelet`]; where there are no nodes, [`NoKubelet`] refuses.

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// A command to run in a container.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Whether input will be sent.
    pub stdin: bool,
    /// Whether to give it a terminal; stderr is then part of stdout.
    pub tty: bool,
}

/// A running command.
pub struct ExecSession {
    /// Its input; closing it is end of file.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its error output.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Takes new terminal sizes: columns, rows.
    pub resize: mpsc::Sender<(u16, u16)>,
    /// Its exit code, once it ended.
    pub exit: BoxFuture<'static, Result<i32, KubeletError>>,
}

/// A part of a container's log.
#[derive(Debug, Clone)]
pub struct LogRequest {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// Whether to go on as the log grows.
    pub follow: bool,
    /// Only that many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only entries younger than this.
    pub since_seconds: Option<u64>,
    /// Whether each line starts with its time.
    pub timestamps: bool,
    /// Whether the log of the previous run of the container is wanted.
    pub previous: bool,
}

/// What a kubelet could not do.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct KubeletError(pub String);

/// The kubelets of all nodes.
pub trait Kubelet: Send + Sync {
    /// Starts a command in a container of a pod on `node`.
    fn exec(&self, node: &str, request: ExecRequest) -> BoxFuture<'static, Result<ExecSession, KubeletError>>;

    /// Opens the log of a container of a pod on `node`.
    fn logs(&self, node: &str, request: LogRequest) -> BoxFuture<'static, Result<Box<dyn AsyncRead + Send + Unpin>, KubeletError>>;
}

/// No nodes: every request is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKubelet;

impl Kubelet for NoKubelet {
    fn exec(&self, node: &str, _: ExecRequest) -> BoxFuture<'static, Result<ExecSession, KubeletError>> {
        let error = KubeletError(format!("cannot run a command on node {node}: this server has no kubelets"));
        Box::pin(std::future::ready(Err(error)))
    }

    fn logs(&self, node: &str, _: LogRequest) -> BoxFuture<'static, Result<Box<dyn AsyncRead + Send + Unpin>, KubeletError>> {
        let error = KubeletError(format!("cannot read a log on node {node}: this server has no kubelets"));
        Box::pin(std::future::ready(Err(error)))
    }
}
