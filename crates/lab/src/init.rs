//! PID 1 of a machine: brings it up from the lists in [`crate::parts`], keeps its parts running, and answers on its socket.
//!
//! This is the only place of the lab where a process is restarted and where a back-off exists. Killing this process ends the machine.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use netloom_retry::Backoff;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::containers::Containers;
use crate::home::{Home, Record};
use crate::parts::{Part, Step, boot};
use crate::protocol::{BootEvent, Conversation, PartState, PartStatus, Reply, Request};
use crate::reaper::{Reaper, Running};
use crate::root::{self, LOGS};
use crate::spec::Machine;
use crate::underlay::set_sysctls;

/// Runs the machine until it is killed.
pub fn run(name: &str, machine: &str) -> anyhow::Result<()> {
    let home = Home::of(name);
    let record = home.load()?.with_context(|| format!("no lab {name}"))?;
    let machine = record.spec.machine(machine)?;
    let events = BootEvents::from_stdout()?;
    // The launcher's standard input is the API listener; it must live as long as the machine, whatever happens to the API server.
    let listener = std::io::stdin().as_fd().try_clone_to_owned().context("keeping the API listener")?;
    // First of all: whoever wants to end this machine finds it by its socket.
    let socket = listen(&home, &machine.name())?;
    let result = nix::unistd::setsid()
        .context("leaving the session of `lab up`")
        .and_then(|_| root::enter(&home, &machine.name(), &record.spec.image, &record.spec.binary));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        result?;
        let (reaper, collect) = Reaper::new()?;
        let init = Init::new(reaper, events.clone(), listener);
        tokio::select! {
            () = collect => bail!("the collector of exits ended"),
            outcome = init.run(socket, &record, machine) => outcome,
        }
    });
    if let Err(error) = &outcome {
        events.send(&BootEvent::Failed {
            part: "init".into(),
            reason: format!("{error:#}"),
        });
    }
    outcome
}

fn listen(home: &Home, machine: &str) -> anyhow::Result<StdUnixListener> {
    let path = home.init_socket(machine);
    let _ = fs::remove_file(&path);
    let socket = StdUnixListener::bind(&path).with_context(|| format!("listening on {}", path.display()))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

struct Init {
    reaper: Reaper,
    containers: Containers,
    events: BootEvents,
    listener: OwnedFd,
    parts: BTreeMap<&'static str, watch::Sender<PartStatus>>,
}

impl Init {
    fn new(reaper: Reaper, events: BootEvents, listener: OwnedFd) -> Self {
        Init {
            containers: Containers::new(reaper.clone()),
            reaper,
            events,
            listener,
            parts: BTreeMap::new(),
        }
    }

    async fn run(mut self, socket: StdUnixListener, record: &Record, machine: Machine) -> anyhow::Result<()> {
        let boot = boot(record, machine);
        set_sysctls(boot.sysctls)?;
        fs::write(root::BOOT_ID, uuid::Uuid::new_v4().to_string()).context("writing the boot ID")?;
        for step in &boot.steps {
            run_step(&self.reaper, step, "init").await?;
        }
        let listener = UnixListener::from_std(socket).context("listening on init's socket")?;

        for part in &boot.parts {
            let status = PartStatus {
                name: part.name.into(),
                state: PartState::Waiting,
                pid: None,
                restarts: 0,
                reason: None,
            };
            self.parts.insert(part.name, watch::Sender::new(status));
        }
        let init = Arc::new(self);
        for part in boot.parts {
            tokio::spawn(init.clone().supervise(part));
        }
        tokio::spawn(init.clone().announce());
        loop {
            let (stream, _) = listener.accept().await.context("accepting on init's socket")?;
            tokio::spawn(init.clone().serve(stream));
        }
    }

    /// Tells `lab up` when every part is ready, then lets go of it.
    async fn announce(self: Arc<Self>) {
        for status in self.parts.values() {
            let _ = status.subscribe().wait_for(|status| status.state == PartState::Ready).await;
        }
        self.events.send(&BootEvent::Up);
        self.events.close();
    }

    async fn supervise(self: Arc<Self>, part: Part) {
        let Some(status) = self.parts.get(part.name) else { return };
        let mut restarts = Restarts::new();
        loop {
            self.wait_for(&part.needs).await;
            status.send_modify(|status| status.state = PartState::Starting);
            let reason = match self.start(&part).await {
                Ok(running) => {
                    let pid = running.pid;
                    tracing::info!(part = part.name, pid, "ready");
                    self.events.send(&BootEvent::PartReady(part.name.into()));
                    status.send_modify(|status| (status.state, status.pid) = (PartState::Ready, Some(pid)));
                    running.exit.await.map_or_else(|_| "was lost".to_string(), |exit| exit.to_string())
                }
                Err(error) => {
                    let reason = format!("{error:#}");
                    self.events.send(&BootEvent::Failed {
                        part: part.name.into(),
                        reason: reason.clone(),
                    });
                    reason
                }
            };
            tracing::warn!(part = part.name, reason, "ended");
            status.send_modify(|status| {
                (status.state, status.pid, status.reason) = (PartState::Failed, None, Some(reason.clone()));
                status.restarts += 1;
            });
            for other in &part.takes_down {
                // Killed, not asked: a daemon that says good-bye would withdraw the node from the network.
                let _ = self.kill(other, Signal::SIGKILL);
            }
            tokio::time::sleep(restarts.delay()).await;
        }
    }

    async fn wait_for(&self, names: &[&str]) {
        for name in names {
            if let Some(other) = self.parts.get(name) {
                let _ = other.subscribe().wait_for(|status| status.state == PartState::Ready).await;
            }
        }
    }

    /// Starts a part and returns when it serves.
    async fn start(&self, part: &Part) -> anyhow::Result<Running> {
        let (program, arguments) = part.command.split_first().context("empty command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        if part.takes_listener {
            command.stdin(Stdio::from(self.listener.try_clone().context("duplicating the API listener")?));
        } else {
            command.stdin(Stdio::null());
        }
        let log = open_log(part.name)?;
        command.stdout(log.try_clone()?).stderr(log);
        let mut running = self.reaper.spawn(&mut command)?;
        if let Some(file) = &part.daemon_pid_file {
            let exit = running.exit.await.context("the reaper is gone")?;
            if !exit.success() {
                bail!("{program} {exit}");
            }
            let pid = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
            running = self
                .reaper
                .adopt(pid.trim().parse().with_context(|| format!("understanding {file}"))?)?;
        }
        for step in &part.after {
            if let Err(error) = run_step(&self.reaper, step, part.name).await {
                let _ = kill(Pid::from_raw(running.pid), Signal::SIGKILL);
                return Err(error);
            }
        }
        Ok(running)
    }

    fn kill(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        let part = self.parts.get(name).with_context(|| {
            let names: Vec<_> = self.parts.keys().copied().collect();
            format!("no part {name:?} here; there are {}", names.join(", "))
        })?;
        let pid = part.borrow().pid.with_context(|| format!("part {name} is not running"))?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("signalling part {name}"))
    }

    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let mut conversation = Conversation::new(stream);
        while let Ok(Some(request)) = conversation.receive::<Request>().await {
            if matches!(request, Request::WatchContainers) {
                self.stream_containers(conversation).await;
                return;
            }
            let reply = self.answer(request).unwrap_or_else(|error| Reply::Error(format!("{error:#}")));
            if conversation.send(&reply).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: Request) -> anyhow::Result<Reply> {
        match request {
            Request::Status => return Ok(Reply::Parts(self.parts.values().map(|status| status.borrow().clone()).collect())),
            Request::Containers | Request::WatchContainers => return Ok(Reply::Containers(self.containers.watch().borrow().clone())),
            Request::Kill { part, signal } => self.kill(&part, Signal::try_from(signal).context("unknown signal")?)?,
            Request::Start(spec) => self.containers.start(&spec)?,
            Request::Signal { id, signal } => self.containers.signal(&id, signal)?,
            Request::Remove { id } => self.containers.remove(&id)?,
        }
        Ok(Reply::Done)
    }

    async fn stream_containers(&self, mut conversation: Conversation) {
        let mut changes = self.containers.watch();
        loop {
            let now = changes.borrow_and_update().clone();
            if conversation.send(&Reply::Containers(now)).await.is_err() || changes.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn run_step(reaper: &Reaper, step: &Step, log: &str) -> anyhow::Result<()> {
    let (program, arguments) = step.command.split_first().context("empty command")?;
    let (reader, mut writer) = std::io::pipe()?;
    // Shorter than a pipe's buffer, so this cannot block.
    writer.write_all(step.input.as_bytes())?;
    drop(writer);
    let output = open_log(log)?;
    let exit = reaper
        .run(
            Command::new(program)
                .args(arguments)
                .stdin(reader)
                .stdout(output.try_clone()?)
                .stderr(output),
        )
        .await?;
    if exit.success() {
        Ok(())
    } else {
        Err(anyhow!("`{}` {exit}", step.command.join(" ")))
    }
}

fn open_log(name: &str) -> anyhow::Result<fs::File> {
    let path = Path::new(LOGS).join(format!("{name}.log"));
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("opening {}", path.display()))
}

/// The first restart is immediate; a part that keeps ending waits longer and longer, up to five seconds.
struct Restarts {
    last: Option<Instant>,
    backoff: Backoff,
}

impl Restarts {
    fn new() -> Self {
        Self {
            last: None,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
        }
    }

    fn delay(&mut self) -> Duration {
        let quiet = self.last.is_none_or(|last| last.elapsed() > Duration::from_secs(10));
        self.last = Some(Instant::now());
        if quiet {
            self.backoff.reset();
            Duration::ZERO
        } else {
            self.backoff.delay()
        }
    }
}

/// The pipe to `lab up`; writing to it after `lab up` is gone is no error.
#[derive(Clone)]
struct BootEvents(Arc<Mutex<Option<fs::File>>>);

impl BootEvents {
    fn from_stdout() -> anyhow::Result<Self> {
        let pipe = std::io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .context("keeping the pipe to `lab up`")?;
        // From here on only this object holds the pipe, so that closing it tells `lab up` that nothing more will come.
        nix::unistd::dup2_stdout(fs::File::open("/dev/null")?).context("closing standard output")?;
        Ok(BootEvents(Arc::new(Mutex::new(Some(pipe.into())))))
    }

    fn send(&self, event: &BootEvent) {
        if let (Some(pipe), Ok(mut line)) = (
            self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut(),
            serde_json::to_vec(event),
        ) {
            line.push(b'\n');
            let _ = pipe.write_all(&line);
        }
    }

    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
