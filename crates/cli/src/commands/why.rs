//! `netloom why`: may this connection be, and by which policy and rule. Reads a cluster or manifests; the judgement and its words are
//! those of `netloom-policy`. In a cluster whose OVN can be reached it is compared with what `ovn-trace` says.

mod microflow;
mod read;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum;
use netloom_discovery::Service;
use netloom_ovsdb::client::Tls;
use netloom_policy::{Question, Source, Target, Verdict, declared, judge, port_to_ask, words};
use serde::Serialize;

use super::process::TlsFlags;
use super::stdout;
use read::Living;
use trace::{Trace, Tracer};

/// Exit code where `ovn-trace` says something else.
const DIFFERENCE: u8 = 3;

/// Flags of `netloom why`.
#[derive(clap::Args)]
#[command(
    after_help = "FROM and TO are POD, NAMESPACE/POD, port/NAME or port/NAMESPACE/NAME (a machine), node/NAME or an IP address; TO may \
                  also be svc/NAME or svc/NAMESPACE/NAME. A connection \
                  through a service is evaluated for each of its backends. Without PORT, every port that TO declares is evaluated.\n\n\
                  Examples:\n  \
                  netloom why web-0 db-0 5432                         in the cluster of your kubeconfig\n  \
                  netloom why shop/web-0 svc/shop/db                  all ports of a service\n  \
                  netloom why web-0 kube-system/dns-0 53 --protocol udp\n  \
                  netloom why 192.0.2.10 web-0 http                   from outside, to the port the pod calls http\n  \
                  netloom why web-0 192.0.2.10 443                    to the outside\n  \
                  netloom why node/node2 web-0 80                     from a node\n  \
                  netloom why web-0 db-0 5432 -f manifests/           without a cluster\n  \
                  kubectl get ns,po,no,svc,endpointslices,netpol -A -o json | netloom why web-0 db-0 -f -\n\n\
                  Exit code: 0 allowed, 1 denied (also if only some backends, ports or addresses are), 2 no answer, 3 ovn-trace \
                  disagrees, which is a bug."
)]
pub struct Why {
    /// Source of the connection
    from: String,
    /// Destination of the connection
    to: String,
    /// Destination port: a number, or the name that TO gives it
    port: Option<String>,
    /// Protocol; TCP for a port number, otherwise all protocols that TO declares
    #[arg(long, value_enum, ignore_case = true)]
    protocol: Option<Protocol>,
    /// Namespace of names without one
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Manifests instead of a cluster: files, or folders of .yaml, .yml and .json files; - is standard input
    #[arg(short = 'f', long = "filename", conflicts_with = "kubeconfig")]
    filename: Vec<PathBuf>,
    /// Kubeconfig file; by default KUBECONFIG, the usual places, then the pod's own service account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Do not compare with ovn-trace
    #[arg(long)]
    no_trace: bool,
    /// Service whose endpoints serve the databases for ovn-trace, as NAMESPACE/NAME; set in the pods of Netloom
    #[arg(long, env = "NETLOOM_DATABASES")]
    databases: Option<Service>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// The verdict, and what `ovn-trace` says about it if it was asked.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
}

/// Answers; the exit code tells scripts.
pub fn run(flags: Why) -> Result<ExitCode> {
    let (output, from, to) = (flags.output, flags.from.clone(), flags.to.clone());
    let answer = match answer(flags) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("cannot tell: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let Answer { verdict, trace } = &answer;
    match output {
        Output::Json => stdout::print_line(&serde_json::to_string_pretty(&answer)?),
        Output::Text => {
            stdout::print(&words(verdict, &from, &to));
            let lines = trace.as_ref().map(|trace| trace.lines(verdict)).unwrap_or_default();
            lines.iter().for_each(|line| stdout::print_line(line));
        }
    }
    let differs = trace.as_ref().is_some_and(|trace| trace.agrees == Some(false));
    Ok(match verdict.allowed {
        _ if differs => ExitCode::from(DIFFERENCE),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn answer(flags: Why) -> Result<Answer> {
    let from = Source::parse(&flags.from, &flags.namespace).map_err(|why| anyhow!(why))?;
    let to = Target::parse(&flags.to, &flags.namespace).map_err(|why| anyhow!(why))?;
    let protocol = flags.protocol.map(|protocol| match protocol {
        Protocol::Tcp => netloom_policy::Protocol::Tcp,
        Protocol::Udp => netloom_policy::Protocol::Udp,
        Protocol::Sctp => netloom_policy::Protocol::Sctp,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let living = flags.filename.is_empty();
    let found = if living {
        runtime.block_on(read::of_api(flags.kubeconfig.as_deref()))?
    } else {
        Living {
            cluster: read::of_manifests(&flags.filename)?,
            kube_proxy: false,
        }
    };
    let cluster = &found.cluster;
    let ports = port_to_ask(&declared(cluster, &to)?, flags.port.as_deref(), protocol).map_err(|why| anyhow!(why))?;
    let tls: Option<Tls> = flags.tls.into();
    let place = (living && !flags.no_trace).then(|| runtime.block_on(Tracer::find(flags.kubeconfig, flags.databases, tls, cluster)));
    let mut trace = match &place {
        None => None,
        Some(Ok(_)) => Some(Trace::default()),
        Some(Err(why)) => Some(Trace::impossible(why)),
    };
    let mut whole: Option<Verdict> = None;
    for (protocol, port) in ports {
        let (from, to) = (from.clone(), to.clone());
        let question = Question { from, to, protocol, port };
        let verdict = judge(cluster, &question)?;
        if let (Some(Ok(place)), Some(trace)) = (&place, &mut trace) {
            let before = whole.as_ref().map_or(0, |whole| whole.flows.len());
            trace.add(place, &found, &question, &verdict, before);
        }
        match &mut whole {
            Some(whole) => whole.join(verdict),
            None => whole = Some(verdict),
        }
    }
    let verdict = whole.context("no port to ask about")?;
    Ok(Answer { verdict, trace })
}
