//! Processes of this machine, each in a group of its own.

use super::logs::LogWriter;
use super::runtime::{Exit, Process, ProcessSpec, Runtime, Stop};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// How often the memory of a process with a limit is looked at.
const MEMORY_INTERVAL: Duration = Duration::from_millis(500);
/// How long output that is on its way is waited for once the group was killed.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(2);

/// Starts processes of this machine.
#[derive(Clone, Debug, Default)]
pub struct LocalProcesses;

impl Runtime for LocalProcesses {
    fn start(&self, spec: ProcessSpec) -> Result<Box<dyn Process>, String> {
        let Some((program, args)) = spec.argv.split_first() else {
            return Err(
                "no command is given, and images with commands of their own are not pulled here".into()
            );
        };
        let mut command = tokio::process::Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(&spec.env)
            .current_dir(&spec.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().map_err(|error| {
            format!(
                "cannot start '{}': {error}; in embedded mode images are not pulled and commands run on this machine",
                flyte_core::text::bounded(program, 256)
            )
        })?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            output.push(tokio::spawn(copy(1, stdout, spec.log.clone())));
        }
        if let Some(stderr) = child.stderr.take() {
            output.push(tokio::spawn(copy(2, stderr, spec.log.clone())));
        }
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Box::new(LocalProcess {
            child,
            group,
            output,
            log: spec.log,
            memory_max_bytes: spec.memory_max_bytes,
            exit: None,
            out_of_memory: false,
        }))
    }
}

async fn copy(stream: u8, mut from: impl AsyncRead + Unpin, log: LogWriter) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        match buffer.get(..read) {
            Some(bytes) if !bytes.is_empty() => log.write(stream, bytes),
            _ => break,
        }
    }
}

struct LocalProcess {
    child: tokio::process::Child,
    group: Option<Pid>,
    output: Vec<JoinHandle<()>>,
    log: LogWriter,
    memory_max_bytes: Option<u64>,
    exit: Option<Exit>,
    out_of_memory: bool,
}

impl Process for LocalProcess {
    fn stop(&self, how: Stop) {
        // A process that was waited for has given its number back, perhaps to somebody else.
        if let (Some(group), None) = (self.group, self.exit) {
            let signal = match how {
                Stop::Ask => Signal::TERM,
                Stop::Kill => Signal::KILL,
            };
            let _ = kill_process_group(group, signal);
        }
    }

    fn listens(&self) -> bool {
        let Some(group) = self.group.filter(|_| self.exit.is_none()) else { return true };
        let status = std::fs::read_to_string(format!("/proc/{}/status", group.as_raw_nonzero()));
        // Signals that the process catches or ignores, as bits from the first signal on.
        let has = |status: &str, name: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
                .is_some_and(|mask| mask >> (Signal::TERM.as_raw() - 1) & 1 == 1)
        };
        status.map_or(true, |status| has(&status, "SigCgt:") || has(&status, "SigIgn:"))
    }

    fn wait(&mut self) -> BoxFuture<'_, Exit> {
        async move {
            if let Some(exit) = self.exit {
                return exit;
            }
            let mut interval = tokio::time::interval(MEMORY_INTERVAL);
            let status = loop {
                tokio::select! {
                    biased;
                    status = self.child.wait() => break status,
                    _ = interval.tick(), if self.memory_max_bytes.is_some() => {
                        if let (Some(group), Some(max)) = (self.group, self.memory_max_bytes)
                            && memory_bytes(group) > max
                        {
                            self.out_of_memory = true;
                            let _ = kill_process_group(group, Signal::KILL);
                        }
                    }
                }
            };
            // Like a container, the group ends with its first process.
            if let Some(group) = self.group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let output = futures::future::join_all(self.output.drain(..));
            let _ = tokio::time::timeout(OUTPUT_PATIENCE, output).await;
            self.log.finish();
            let exit = match status {
                Ok(status) => Exit {
                    code: status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255),
                    signal: status.signal(),
                    out_of_memory: self.out_of_memory,
                },
                Err(_) => Exit { code: 255, signal: None, out_of_memory: false },
            };
            self.exit = Some(exit);
            exit
        }
        .boxed()
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        self.stop(Stop::Kill);
    }
}

/// The memory that all processes of a group have, in bytes; 0 where `/proc` does not tell.
fn memory_bytes(group: Pid) -> u64 {
    let group = group.as_raw_nonzero().get().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let page = rustix::param::page_size() as u64;
    entries
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter_map(|stat| {
            // The name in parentheses may hold anything; fields are counted after it: state is the first.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            (*fields.get(2)? == group).then(|| fields.get(21)?.parse::<u64>().ok())?
        })
        .map(|pages| pages * page)
        .sum()
}

/// Kills what an earlier life of this node has left: processes whose environment names its directory.
pub(crate) fn kill_leftovers(marker: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let mut killed = 0;
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
            && rustix::process::kill_process(pid, Signal::KILL).is_ok()
        {
            killed += 1;
        }
    }
    killed
}
